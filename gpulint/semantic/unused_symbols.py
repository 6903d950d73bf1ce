"""What no program of the tree uses: classes and functions that nothing names, values and options that nothing reads."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import RECEIVERS
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex, NodeRef, Scope, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

MAX_OWNERS = 3
"""How many classes and functions of a module may use each other without anybody using the last of them."""

MAX_FOLDERS = 8
"""How many folders above one are looked at."""
_BUILDS = ("setup.py", "setup.cfg", "pyproject.toml")
"""Files of projects that are installed."""
_LOOKS_UP = frozenset({"eval", "exec", "globals", "locals", "vars", "getmembers"})
"""Functions that find things by their names."""
_IMPORTS = ("import_module", "__import__")
"""Functions that import modules by their names."""

_PLAIN_BASES = frozenset({"object", "ABC"})
"""Bases that call no method of a class."""
_MAKES_COMMANDS = frozenset({"Fire", "CLI", "auto_cli"})
"""Functions of libraries that offer the methods of a class on the command line."""


def is_unused(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a node is in a class, in a function of the module, or in a method, that nothing in the tree
    names."""
    owner = _owner(module, node)
    if owner is None:
        return False
    if not _is_used(project, module, owner, MAX_OWNERS):
        return True
    method = _method(project, module, node)
    return method is not None and not _is_method_named(project, module, method)


def is_dropped(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the value of a call goes into a local variable that nothing reads then."""
    made = module.syntax.parents.get(call)
    match made:
        case ast.Assign(targets=[ast.Name(id=name) as target], value=value) if value is call:
            pass
        case _:
            return False
    home = module.scope(target)
    if not isinstance(home.node, FUNCTIONS) or name in home.outer or not _LOOKS_UP.isdisjoint(_plain_calls(module)):
        return False
    bindings = home.lookup(name)
    return not any(
        any(one.node is made for one in reaching(module, bindings, use))
        for use in module.uses.get(name, ())
        if module.scope(use).lookup(name) is bindings
    )


@query
def _plain_calls(module: ModuleIndex) -> frozenset[str]:
    """Names of the functions that a module calls, but not of methods (``model.eval()``), other than those of modules
    (``inspect.getmembers()``)."""
    methods = {"getmembers"} & module.calls_by_name.keys()
    return frozenset(call.func.id for call in module.calls if isinstance(call.func, ast.Name)) | methods


def _method(project: Project, module: ModuleIndex, node: ast.AST) -> FunctionNode | None:
    """The method around a node, of a class that neither its bases, nor its heirs, nor the command line may call."""
    inner = node
    for outer in module.syntax.ancestors(node):
        if isinstance(inner, FUNCTIONS) and isinstance(outer, ast.ClassDef):
            hidden = outer.decorator_list or inner.decorator_list or inner.name.startswith("__")
            plain = not hidden and all(last_name(base) in _PLAIN_BASES for base in outer.bases)
            return inner if plain and not _is_opened(project, outer) else None
        inner = outer
    return None


def _is_opened(project: Project, owner: ast.ClassDef) -> bool:
    """Return whether a class has heirs, or a library makes commands of its methods."""
    word = word_of(owner.name)
    users = map(project.module_at, project.word_index.mentioning(word))
    return bool(project.word_index.subclass_files(word)) or any(
        user is None or not _MAKES_COMMANDS.isdisjoint(user.calls_by_name) for user in users
    )


@query
def _is_method_named(project: Project, module: ModuleIndex, method: FunctionNode) -> bool:
    """Return whether anything in the tree but definitions has the name of a method."""
    word = word_of(method.name)
    if _is_distributed(project, module.path.parent) or project.is_in_other_files(word):
        return True
    modules = (project.module_at(path) for path in project.word_index.mentioning(word))
    return any(
        other is None
        or method.name in other.named
        or any(method.name in text for text in other.strings)
        or any(node.attr == method.name for node in other.syntax.of(ast.Attribute))
        for other in modules
    )


def is_replaced(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the variable of a call's value is assigned again in the block before anything reads it."""
    made = module.syntax.parents.get(call)
    match made:
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return False
    replaced: tuple[ast.stmt, ast.Name] | None = None
    for statement, part in _below(module, made, name):
        if replaced is not None and statement is not replaced[0]:
            break
        if isinstance(part.ctx, ast.Load):
            return False
        if isinstance(statement, ast.Assign):
            replaced = statement, part
    return replaced is not None and _readers(module, name, module.scope(replaced[1])) <= {module.function(call)}


def _below(module: ModuleIndex, made: ast.stmt, name: str) -> Iterator[tuple[ast.stmt, ast.Name]]:
    """Yield where a variable is mentioned below a statement, and the statements of its block that hold the places."""
    syntax = module.syntax
    here, parent, names = syntax.place(made), syntax.parents.get(made), module.named.get(name, [])
    end = made.end_lineno or made.lineno, made.end_col_offset or 0
    for part in names[bisect_left(names, end, key=lambda part: (part.lineno, part.col_offset)) :]:
        whole: ast.AST | None = part
        while whole is not None and (up := syntax.parents.get(whole)) is not parent:
            whole = up
        if not isinstance(whole, ast.stmt) or (place := syntax.place(whole)) is None:
            return
        if here is not None and place[0] == here[0]:
            yield whole, part


@query
def _readers(module: ModuleIndex, name: str, home: Scope) -> frozenset[FunctionNode | None]:
    """The functions (None: the module itself) that read the variable of a scope."""
    bindings = home.lookup(name)
    parts = (part for part in module.uses.get(name, ()) if module.scope(part).lookup(name) is bindings)
    return frozenset(module.function(part) for part in parts)


def is_option_read(option: NodeRef) -> bool:
    """Return whether the module of an option (``add_argument("--batch_size")``) reads an attribute or a key of its
    name."""
    module, declared = option.module, option.node
    assert isinstance(declared, ast.Call)
    named = [*declared.args, *(keyword.value for keyword in declared.keywords if keyword.arg == "dest")]
    names = {str(part.value).lstrip("-").replace("-", "_") for part in named if isinstance(part, ast.Constant)}
    return any(node.attr in names for node in module.syntax.of(ast.Attribute)) or any(
        isinstance(node.slice, ast.Constant) and node.slice.value in names for node in module.syntax.of(ast.Subscript)
    )


def _owner(module: ModuleIndex, node: ast.AST) -> ast.ClassDef | FunctionNode | None:
    """The innermost class around a node, or else the function of the module that it stands in."""
    if (owner := module.class_of(node)) is not None:
        return owner
    functions = [up for up in module.syntax.ancestors(node) if isinstance(up, FUNCTIONS)]
    return functions[-1] if functions else None


@query
def _only_imports(project: Project, path: Path, name: str) -> bool:
    """Return whether a module imports a name and does nothing with it. What a package imports is there for others, who
    install it, or look the name up in it."""
    module = project.module_at(path)
    if module is None or name in module.named or _is_in_text(module, name):
        return False
    if path.name == "__init__.py" and (_is_distributed(project, path.parent) or _is_looked_into(project, path)):
        return False
    aliases = (alias for node in module.syntax.of(ast.ImportFrom) for alias in node.names)
    imported = [alias for alias in aliases if alias.name == name]
    return (
        bool(imported)
        and all(alias.asname in (None, name) for alias in imported)
        and not any(node.attr == name for node in module.syntax.of(ast.Attribute))
    )


@query
def _is_in_text(module: ModuleIndex, name: str) -> bool:
    """Return whether a text of a module has a name in it, other than its documentation and the list of what ``import
    *`` imports."""
    if not any(name in text for text in module.strings):
        return False
    listed = {
        part
        for statement in module.syntax.tree.body
        if isinstance(statement, ast.Assign | ast.AugAssign) and _is_export(statement)
        for part in walk(statement.value)
    }
    listed.update(part.value for part in module.syntax.of(ast.Expr) if isinstance(part.value, ast.Constant))
    texts = (part for part in module.syntax.of(ast.Constant) if isinstance(part.value, str) and part not in listed)
    return any(name in str(part.value) for part in texts)


def _is_export(statement: ast.Assign | ast.AugAssign) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


@query
def _is_distributed(project: Project, folder: Path) -> bool:
    """Return whether a folder is part of a project that others install."""
    parents = (folder, *folder.parents[:MAX_FOLDERS])
    return any(project.exists(parent / name) for parent in parents for name in _BUILDS)


@query
def _is_looked_into(project: Project, path: Path) -> bool:
    """Return whether a module that may know a package looks names up in it (``getattr(models, args.model)``)."""
    users = project.word_index.mentioning(word_of(path.parent.name))
    modules = (project.module_at(user) for user in {path, *users})
    return any(module is None or _looks_up(module, path.parent.name) for module in modules)


@query
def _looks_up(module: ModuleIndex, package: str) -> bool:
    """Return whether a module finds names at run time: its own, or those of a package."""
    if not _LOOKS_UP.isdisjoint(_plain_calls(module)):
        return True
    looked = [node.value for node in module.syntax.of(ast.Attribute) if node.attr == "__dict__"]
    looked += [
        call.args[0]
        for call in module.calls_by_name.get("getattr", ())
        if len(call.args) > 1 and not isinstance(call.args[1], ast.Constant)
    ]
    if any(_may_be_package(module, node, package) for node in looked):
        return True
    calls = (call for name in _IMPORTS for call in module.calls_by_name.get(name, ()))
    return any(_imports(call, package) for call in calls)


def _imports(call: ast.Call, package: str) -> bool:
    """Return whether a call may import a package, or a part of it that is chosen at run time."""
    match call.args[:1]:
        case [ast.Constant(value=str(name))]:
            return name.rpartition(".")[2] == package
        case [name] if any(isinstance(part, ast.Constant) for part in walk(name)):
            return package in ast.unparse(name)
    return True


def _may_be_package(module: ModuleIndex, node: ast.expr, package: str) -> bool:
    """Return whether a value may be a package, going by what it was imported as; ``sys.modules[__name__]`` may."""
    match node:
        case ast.Name(id=name):
            bindings = module.scope(node).lookup(name)
            imported = [one.target.rpartition(".")[2] for one in bindings if one.kind is BindingKind.IMPORT]
            return package in imported or not bindings
        case ast.Attribute(value=base, attr=name):
            return name == package and last_name(base) not in RECEIVERS
    return True


@query
def _means_another(project: Project, home: Path, path: Path, name: str) -> bool:
    """Return whether a module that mentions a name of the module ``home`` does not use that: it only imports it, or has
    its own function or class of the name and no import from ``home``."""
    if _only_imports(project, path, name):
        return True
    if path in project.files_using(home, name):
        return False
    module = project.module_at(path)
    return module is not None and any(
        isinstance(part, (*FUNCTIONS, ast.ClassDef)) and part.name == name for part in module.syntax.tree.body
    )


@query
def _is_used(project: Project, module: ModuleIndex, owner: ast.ClassDef | FunctionNode, depth: int) -> bool:
    name = owner.name
    if not depth or owner.decorator_list or "globals" in module.calls_by_name:
        return True
    others = [path for path in project.word_index.mentioning(word_of(name)) if path != module.path]
    meant = [path for path in others if not _means_another(project, module.path, path, name)]
    if _is_in_text(module, name) or any(_is_used_in(project, path, name, depth) for path in meant):
        return True
    for node in module.named.get(name, ()):
        user = _owner(module, node)
        if user is None or (user is not owner and _is_used(project, module, user, depth - 1)):
            return True
    return project.is_in_other_files(word_of(name))


def _is_used_in(project: Project, path: Path, name: str, depth: int) -> bool:
    """Return whether another module uses a name outside of classes and functions that nothing uses; in a tree without
    programs, whether it uses the name at all."""
    module = project.module_at(path)
    if module is None or _is_in_text(module, name) or not project.python_files_with(b"__main__"):
        return True
    attributes = (node for node in module.syntax.of(ast.Attribute) if node.attr == name)
    users = [_owner(module, node) for node in (*module.named.get(name, ()), *attributes)]
    return not users or any(
        user is None or user.name == name or _is_used(project, module, user, depth - 1) for user in users
    )
