"""Which modules find names at run time: their own, or those of modules that they know (``getattr(models, name)``)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import RECEIVERS
from gpulint.workspace.module_index import BindingKind, FunctionNode, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

_OF_OBJECTS = frozenset({"getmembers", "vars"})
"""Functions that tell all names of what they are given."""
_LOOKS_UP = frozenset({"eval", "exec", "globals", "locals", *_OF_OBJECTS})
"""Functions that find things by their names."""
_IMPORTS = ("import_module", "__import__")
"""Functions that import modules by their names."""
_WORDS = frozenset(map(word_of, (*_LOOKS_UP, *_IMPORTS, "getattr", "__dict__")))
_CALLS = regex.compile(
    rb"(?<![.\w])(%b) ?\(|\b(getmembers|%b) ?\(|__dict__|\bexec [\"']"
    % (b"|".join(map(word_of, sorted({*_LOOKS_UP, "getattr"}))), b"|".join(map(word_of, _IMPORTS)))
)
"""What a module that cannot be parsed may find names with; ``model.eval()`` is no such call."""


@query
def finds_names(module: ModuleIndex) -> bool:
    """Return whether a module calls a function that finds things by their names; a method is none (``model.eval()``),
    other than those of modules (``inspect.getmembers()``)."""
    called = (call.func.id for call in module.calls if isinstance(call.func, ast.Name))
    return not _LOOKS_UP.isdisjoint(called) or "getmembers" in module.calls_by_name


def reader_of_all(module: ModuleIndex, function: FunctionNode | None) -> str | None:
    """The function by which one (or a script) reads all of its variables: ``locals`` in ``text.format(**locals())``."""
    for name in ("locals", "vars") if function is not None else ("locals", "vars", "globals"):
        calls = [call for call in module.calls_by_name.get(name, ()) if isinstance(call.func, ast.Name)]
        if any(not call.args and (name == "globals" or module.function(call) is function) for call in calls):
            return name
    return None


@query
def is_looked_into(project: Project, path: Path, names: frozenset[str]) -> bool:
    """Return whether a module, or one that may know it by one of some names, finds names in it at run time."""
    for name in names:
        users = {path, *project.word_index.mentioning(word_of(name))}
        found = ((user, project.module_at(user)) for user in users if project.word_index.among(user, _WORDS))
        if any(project.finds(user, _CALLS) if module is None else _looks_up(module, name) for user, module in found):
            return True
    return False


@query
def imports_anything(module: ModuleIndex) -> bool:
    """Return whether a module imports others by names that are all chosen at run time."""
    calls = (call for name in _IMPORTS for call in module.calls_by_name.get(name, ()))
    return any(not (call.args and _has_constant(call.args[0])) for call in calls)


@query
def imports_part_of(module: ModuleIndex, packages: frozenset[str]) -> bool:
    """Return whether a module imports one of some packages by a chosen name (``import_module(f"tasks.{x}")``)."""
    calls = (call for name in _IMPORTS for call in module.calls_by_name.get(name, ()))
    named = (call.args[0] for call in calls if call.args and not isinstance(call.args[0], ast.Constant))
    texts = (part.value for name in named for part in walk(name) if isinstance(part, ast.Constant))
    return any(not packages.isdisjoint(text.split(".")) for text in texts if isinstance(text, str))


@query
def _looks_up(module: ModuleIndex, package: str) -> bool:
    """Return whether a module finds names at run time: its own, or those of a package."""
    called = (call for call in module.calls if isinstance(call.func, ast.Name) and call.func.id in _LOOKS_UP)
    called = (call for call in called if not _names_one(module, call))
    if any(not (last_name(call.func) in _OF_OBJECTS and call.args) for call in called):
        return True
    looked = [node.value for node in module.syntax.of(ast.Attribute) if node.attr == "__dict__"]
    looked += [call.args[0] for name in _OF_OBJECTS for call in module.calls_by_name.get(name, ()) if call.args]
    looked += [
        call.args[0]
        for call in module.calls_by_name.get("getattr", ())
        if len(call.args) > 1 and not isinstance(call.args[1], ast.Constant)
    ]
    if any(_may_be_package(module, node, package) for node in looked):
        return True
    calls = (call for name in _IMPORTS for call in module.calls_by_name.get(name, ()))
    return any(_imports(call, package) for call in calls)


def _names_one(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a table of names is only asked for, or given, one that is written out: ``globals()["seed"] = 1``,
    ``"seed" in globals()``."""
    match module.syntax.parents.get(call):
        case ast.Subscript(value=table, slice=ast.Constant()) if table is call:
            return True
        case ast.Compare(left=ast.Constant(), ops=[ast.In() | ast.NotIn()]):
            return True
    return False


def _imports(call: ast.Call, package: str) -> bool:
    """Return whether a call may import a package, or a part of it that is chosen at run time."""
    match call.args[:1]:
        case [ast.Constant(value=str(name))]:
            return name.rpartition(".")[2] == package
        case [name] if _has_constant(name):
            return package in ast.unparse(name)
    return True


def _has_constant(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Constant) for part in walk(node))


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
