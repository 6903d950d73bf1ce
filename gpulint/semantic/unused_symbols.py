"""What no program of the tree uses: classes, functions and methods that nothing names."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.python import PythonDocument, walk
from gpulint.query import query
from gpulint.semantic.called_by_libraries import derives_from_own
from gpulint.semantic.importing_modules import files_with_missing_imports, importing_files, known_as, named
from gpulint.semantic.lookups_by_name import imports_anything, imports_part_of, is_looked_into
from gpulint.semantic.named_methods import family, may_mean
from gpulint.semantic.offered_packages import is_command, is_distributed, is_offered
from gpulint.semantic.path_conditions import is_unreachable
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_OWNERS = 3
"""How many classes and functions of a module may use each other without anybody using the last of them."""

_NOT_TOLD = frozenset({".py", ".pyc", ".md", ".rst"})
"""Suffixes of modules, and of documents: these may name an architecture as a class is named."""

_OTHER_LINES = rb'^(?![ \t]*"[ \t]*(?:from|import|#))[^\n]*?'
"""The start of what is in a line of a notebook that neither imports nor is commented out."""

_PLAIN_DECORATORS = frozenset(
    {"staticmethod", "classmethod", "property", "abstractmethod", "no_grad", "inference_mode", "cached_property"}
)
"""Decorators that hand a method to nobody."""
_MAKES_COMMANDS = frozenset({"Fire", "CLI", "auto_cli"})
"""Functions of libraries that offer the methods of a class on the command line."""


def is_unused(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a node is in a class, in a function of the module, or in a method, that nothing in the tree
    names."""
    if is_in_unused(project, module, node):
        return True
    return is_in_unnamed_method(project, module, node, offered=True)


def is_in_unused(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a node is in a class, or a function of the module, that nothing in the tree names. A framework
    calls methods of others."""
    owner = owner_of(module, node)
    return owner is not None and not _is_used(project, module, owner, MAX_OWNERS)


def is_in_unnamed_method(project: Project, module: ModuleIndex, node: ast.AST, *, offered: bool) -> bool:
    """Return whether a node is in a method that nothing in the tree names; unless ``offered``, also where those who
    install its package may."""
    method = _method(project, module, node)
    return method is not None and not _is_method_named(project, module, method, offered)


def _method(project: Project, module: ModuleIndex, node: ast.AST) -> FunctionNode | None:
    """The method around a node, of a class that neither its bases nor its subclasses nor the command line may call."""
    inner = node
    for outer in module.syntax.ancestors(node):
        if isinstance(inner, FUNCTIONS) and isinstance(outer, ast.ClassDef):
            decorators = {last_name(one.func if isinstance(one, ast.Call) else one) for one in inner.decorator_list}
            hidden = outer.decorator_list or decorators - _PLAIN_DECORATORS or inner.name.startswith("__")
            return inner if not hidden and not _is_opened(project, module, outer, inner.name) else None
        inner = outer
    return None


def is_in_broken_files(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a file that cannot run names the class, function or method around a node."""
    owner = owner_of(module, node)
    names = {one.name for one in (owner, _method(project, module, node)) if one is not None}
    return any(
        cannot_run(project, path) for name in sorted(names) for path in project.word_index.mentioning(word_of(name))
    )


def cannot_run(project: Project, path: Path) -> bool:
    """Return whether a file is a module with a syntax error."""
    document = project.load(path) if project.module_at(path) is None else None
    return isinstance(document, PythonDocument) and document.never_runs


@query
def _is_opened(project: Project, module: ModuleIndex, owner: ast.ClassDef, method: str) -> bool:
    """Return whether a library may call a method of a class by its name: the class or a subclass derives from one of
    the library, or commands are made of its methods."""
    for path, word in family(project, module, owner):
        subclass = project.module_at(path)
        made = subclass.classes_by_name.get(word.decode()) if subclass is not None else None
        if subclass is None or made is None or not derives_from_own(project, subclass, made, method):
            return True
    users = map(project.module_at, project.word_index.mentioning(word_of(owner.name)))
    return any(user is None or not _MAKES_COMMANDS.isdisjoint(user.calls_by_name) for user in users)


@query
def _is_method_named(project: Project, module: ModuleIndex, method: FunctionNode, offered: bool) -> bool:
    """Return whether anything in the tree but definitions and documentation may mean a method by its name, or, where
    ``offered`` counts, whoever installs its package."""
    word = word_of(method.name)
    if (offered and is_offered(project, module.path)) or project.is_in_other_files(word):
        return True
    modules = (project.module_at(path) for path in project.word_index.mentioning(word) if not cannot_run(project, path))
    return any(
        other is None
        or method.name in other.named
        or is_in_text(other, method.name)
        or any(
            node.attr == method.name and may_mean(project, module, method, other, node)
            for node in other.syntax.of(ast.Attribute)
        )
        for other in modules
    )


def owner_of(module: ModuleIndex, node: ast.AST) -> ast.ClassDef | FunctionNode | None:
    """The innermost class around a node, or else the function of the module that it stands in."""
    if (owner := module.class_of(node)) is not None:
        return owner
    functions = [up for up in module.syntax.ancestors(node) if isinstance(up, FUNCTIONS)]
    return functions[-1] if functions else None


@query
def is_in_text(module: ModuleIndex, name: str) -> bool:
    """Return whether a text of a module has a name in it, other than those of what has the name, its documentation and
    the list of what ``import *`` imports."""
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
    return any(name in str(part.value) and not _is_within(module, part, name) for part in texts)


def _is_within(module: ModuleIndex, node: ast.AST, name: str) -> bool:
    """Return whether a node is in a class or function of the module that has a name."""
    return any(isinstance(up, (*FUNCTIONS, ast.ClassDef)) and up.name == name for up in module.syntax.ancestors(node))


def _is_export(statement: ast.Assign | ast.AugAssign) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


@query
def _is_used(project: Project, module: ModuleIndex, owner: ast.ClassDef | FunctionNode, depth: int) -> bool:
    name = owner.name
    if depth <= 0 or owner.decorator_list or "globals" in module.calls_by_name or _makes_commands(module):
        return True
    for node in module.named.get(name, ()):
        bindings, user = module.scope(node).lookup(name), owner_of(module, node)
        if bindings and not any(binding.node is owner for binding in bindings):
            continue  # a variable of the same name
        if is_unreachable(module, node):
            continue
        if user is None or (user is not owner and _is_used(project, module, user, depth - 1)):
            return True
    for find in (importing_files, files_with_missing_imports):
        if any(_is_used_in(project, module.path, path, name, depth) for path in find(project, module.path, name)):
            return True
    return _is_told(project, module, owner)


@query
def _makes_commands(module: ModuleIndex) -> bool:
    """Return whether a library makes commands of all functions of a module (``fire.Fire()``)."""
    calls = (call for name in _MAKES_COMMANDS for call in module.calls_by_name.get(name, ()))
    return any(not call.args for call in calls)


def _is_used_in(project: Project, home: Path, path: Path, name: str, depth: int) -> bool:
    """Return whether another module uses a name of the module ``home`` outside of classes and functions that nothing
    uses; in a tree without programs, whether it uses the name at all."""
    module = project.module_at(path)
    if module is None:
        return not cannot_run(project, path)
    aliases = [one for node in module.syntax.of(ast.ImportFrom) for one in node.names if one.name == name]
    if any(alias.asname not in (None, name) for alias in aliases) or (aliases and _is_offered(project, path)):
        return True
    nodes = (*module.named.get(name, ()), *(node for node in module.syntax.of(ast.Attribute) if node.attr == name))
    nodes = tuple(node for node in nodes if not is_unreachable(module, node))
    users = [owner_of(module, node) for node in nodes if _may_be_imported(project, home, module, node)]
    if users and not project.python_files_with(b"__main__"):
        return True
    return any(user is None or user.name == name or _is_used(project, module, user, depth - 1) for user in users)


def _is_offered(project: Project, path: Path) -> bool:
    """Return whether what a module imports is there for others, who install its package, or look names up in it."""
    return path.name == "__init__.py" and (
        is_distributed(project, path.parent) or is_looked_into(project, path, frozenset({path.parent.name}))
    )


def _may_be_imported(project: Project, home: Path, module: ModuleIndex, node: ast.Name | ast.Attribute) -> bool:
    """Return whether a name, or the first one of ``package.module.name``, may be what a module imports from ``home``,
    perhaps by way of others."""
    first: ast.expr = node
    while isinstance(first, ast.Attribute):
        first = first.value
    if not isinstance(first, ast.Name):
        return False
    bindings = module.scope(first).lookup(first.id)
    targets = [binding.target for binding in bindings if binding.kind is BindingKind.IMPORT]
    if isinstance(node, ast.Attribute) and node.value is first and targets:
        places = [project.module_path(project.absolute(target, module.path), module.path) for target in targets]
        return any(place is None or not _is_namesake(project, home, place, module.path, node.attr) for place in places)
    if first is not node or not targets:
        return bool(targets) or not bindings
    names = known_as(project, home, node.id)
    origins = (project.absolute(target.rpartition(".")[0], module.path) for target in targets)
    files = [project.module_path(origin, module.path) for origin in origins]
    return any(
        path is None or (named(path) in names and not _is_namesake(project, home, path, module.path, node.id))
        for path in files
    )


def _is_namesake(project: Project, home: Path, found: Path, importer: Path, name: str) -> bool:
    """Return whether a module gets a name from the file of its own folder that is called like ``home``, and defines
    it."""
    if found == home or found.name != home.name or found.parent != importer.parent:
        return False
    module = project.module_at(found)
    return module is not None and any(
        isinstance(part, (*FUNCTIONS, ast.ClassDef)) and part.name == name for part in module.syntax.tree.body
    )


def _is_told(project: Project, module: ModuleIndex, owner: ast.ClassDef | FunctionNode) -> bool:
    """Return whether a text or another file may mean a class or a function. A function is meant by its module's name,
    unless names are looked up there."""
    name, word = owner.name, word_of(owner.name)
    paths = project.word_index.mentioning(word)
    packages = frozenset(Path(project.place(module.path)).parts[:-1])
    users = (project.module_at(path) for path in paths if path != module.path)
    if any(user is not None and name in _attributes(user) and imports_part_of(user, packages) for user in users):
        return True
    names = known_as(project, module.path, name)
    if is_command(project, module.path, names, name):
        return True
    looked_into = is_looked_into(project, module.path, names | {module.path.parent.name})
    if isinstance(owner, ast.ClassDef) or looked_into:
        texts = (project.module_at(path) for path in paths if not cannot_run(project, path))
        if any(text is None or is_in_text(text, name) for text in texts):
            return True
        if looked_into or not project.is_in_other_files(word):
            return project.is_in_other_files(word)
        whole = re.compile(rb"\b%b\b" % re.escape(word))
        paths_with = (path for path in project.files_with(word) if path.suffix not in _NOT_TOLD)
        if any(_tells(project, path, whole) for path in paths_with):
            return True
    homes = b"|".join(map(re.escape, map(word_of, sorted(names))))
    pattern = rb"\b(?:%b)[.:]%b\b|\bimport\b[^\n]*\b%b\b" % (homes, word, word)
    return any(_means(project, path, name, pattern.decode()) for path in paths) or (
        project.is_in_other_files(word) and _is_told_elsewhere(project, word, pattern)
    )


@query
def _is_told_elsewhere(project: Project, word: bytes, pattern: bytes) -> bool:
    found = re.compile(pattern)
    paths = (path for path in project.files_with(word) if path.suffix != ".py")
    return any(_tells(project, path, found) for path in paths)


def _tells(project: Project, path: Path, pattern: re.Pattern[bytes]) -> bool:
    """Return whether there is a match in a file; in a notebook outside of the lines that import or comment: what its
    code uses is known from the code."""
    if path.suffix == ".ipynb" and project.module_at(path) is not None:
        pattern = re.compile(_OTHER_LINES + rb"(?:%b)" % pattern.pattern, re.MULTILINE)
    return project.finds(path, pattern)


@query
def _attributes(module: ModuleIndex) -> frozenset[str]:
    return frozenset(node.attr for node in module.syntax.of(ast.Attribute))


def _means(project: Project, path: Path, name: str, pattern: str) -> bool:
    """Return whether a module may import any other and use a name of it, or a text of it names another module's."""
    module = project.module_at(path)
    if module is None or imports_anything(module):
        return not cannot_run(project, path)
    return any(re.search(pattern, text) for text in module.strings if name in text)
