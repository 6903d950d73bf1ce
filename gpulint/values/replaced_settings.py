"""Settings that a program writes down and fills with what it reads when it runs: defaults, as those of an option."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.option_fields import is_option
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.finding import Place
    from gpulint.project import Project
    from gpulint.values.constants import Value

MAX_USERS = 10
"""Most modules that are searched for what fills a table of another."""
_TABLES = frozenset({"dict", "SimpleNamespace", "Namespace", "edict", "EasyDict", "ConfigDict", "DictConfig", "Munch"})
_FILLED = frozenset({"BaseSettings"})
"""Classes whose fields are read from the environment."""


def is_default(project: Project, value: Value) -> bool:
    """Return whether an option, a file or the environment may give another value than the one that is known."""
    return value.source != "literal" or is_option(project, value.place) or may_be_replaced(project, value.place)


def may_be_replaced(project: Project, place: Place) -> bool:
    """Return whether the constant at a place is in a table that is merged with what a file or the environment holds
    (``{**DEFAULTS, **json.load(file)}``), is a field of an object that is filled so (``setattr(self, key, value)``), or
    the default of a parameter of its constructor (``Config(**yaml.safe_load(file))``).

    A class attribute counts as well if a subclass has another value for it.
    """
    module = project.module_at(place.path)
    constants = module.syntax.of(ast.Constant) if module is not None else ()
    node = next((part for part in constants if module is not None and module.syntax.span(part) == place.span), None)
    if module is None or node is None:
        return False
    match module.syntax.parents.get(node):
        case ast.arguments() as around:
            function = module.syntax.parents.get(around)
            owner = module.syntax.parents.get(function) if isinstance(function, FUNCTIONS) else None
            return isinstance(owner, ast.ClassDef) and _is_made_of_mapping(project, module, owner.name)
        case ast.Assign() | ast.AnnAssign() as around if isinstance(
            owner := module.syntax.parents.get(around), ast.ClassDef
        ):
            target = around.target if isinstance(around, ast.AnnAssign) else around.targets[0]
            return (
                _is_filled(owner)
                or _is_made_of_mapping(project, module, owner.name)
                or _is_set_by_subclass(project, owner.name, last_name(target))
            )
    name = _table(module, node)
    return bool(name) and any(
        _is_merged(project, where, name) for where in (module, *islice(project.users_of(module, {name}), MAX_USERS))
    )


def _table(module: ModuleIndex, node: ast.AST) -> str:
    """The variable that holds the dictionary in which a constant is, also in one of its sections."""
    up = module.syntax.parents.get(node)
    while (
        isinstance(up, ast.Dict | ast.keyword)
        or (isinstance(up, ast.Call) and last_name(up.func) in _TABLES)
    ):  # fmt: skip
        up = module.syntax.parents.get(up)
    match up:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _holds(part: ast.expr, name: str) -> bool:
    """``DEFAULTS``, ``dict(DEFAULTS)``, ``DEFAULTS.copy()``, ``config.DEFAULTS``"""
    return any(last_name(inner) == name for inner in walk(part) if isinstance(inner, ast.Name | ast.Attribute))


@query
def _is_merged(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether a module merges a table with something that is not written down, or sets keys that are not."""
    return any(_merges(project, module, part, name) for part in _merging(module))


def _merging(module: ModuleIndex) -> Iterator[ast.AST]:
    yield from module.syntax.of(ast.Dict, ast.BinOp)
    yield from module.syntax.of(ast.AugAssign)
    yield from module.calls_by_name.get("update", ())
    yield from module.calls_by_name.get("setattr", ())


def _merges(project: Project, module: ModuleIndex, part: ast.AST, name: str) -> bool:
    match part:
        case ast.Dict(keys=keys, values=values) if None in keys:
            spread = [value for key, value in zip(keys, values, strict=True) if key is None]
            held = [number for number, value in enumerate(spread) if _holds(value, name)]
            return bool(held) and any(_is_unwritten(project, module, value) for value in spread[held[0] + 1 :])
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _holds(left, name) and _is_unwritten(project, module, right)
        case ast.AugAssign(target=target, op=ast.BitOr(), value=right):
            return _is_made_of(module, target, name) and _is_unwritten(project, module, right)
        case ast.Call(func=ast.Attribute(attr="update", value=owner), args=[given]):
            return _is_made_of(module, owner, name) and _is_unwritten(project, module, given)
        case ast.Call(func=ast.Name(id="setattr"), args=[owner, key, _]) if not isinstance(key, ast.Constant):
            return _is_made_of(module, owner, name)
    return False


def _is_made_of(module: ModuleIndex, owner: ast.expr, name: str) -> bool:
    """Return whether an object is the table, or a variable that was made of it (``cfg = dict(DEFAULTS)``)."""
    if last_name(owner) == name:
        return True
    if not isinstance(owner, ast.Name):
        return False
    bound = module.scope(owner).lookup(owner.id)
    return any(one.value is not None and not one.path and _holds(one.value, name) for one in bound)


def _is_unwritten(project: Project, module: ModuleIndex, given: ast.expr) -> bool:
    """Return whether a mapping is not a dictionary that the program writes down."""
    if isinstance(given, ast.Dict):
        return False
    origins = project.fact(Resolver).points_to(module, given)
    return not all(isinstance(one.node, ast.Dict) for one in origins)


def _is_filled(owner: ast.ClassDef) -> bool:
    """Return whether the objects of a class set fields whose names are not written down."""
    if any(last_name(base) in _FILLED for base in owner.bases):
        return True
    for part in walk(owner):
        match part:
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id="self"), key, _]):
                if not isinstance(key, ast.Constant):
                    return True
            case ast.Call(func=ast.Attribute(attr="update", value=ast.Attribute(attr="__dict__"))):
                return True
    return False


@query
def _is_set_by_subclass(project: Project, name: str, field: str) -> bool:
    """Return whether a class that derives from one of that name has another value in a field."""
    for path, subclass in project.word_index.subclasses(word_of(name)):
        module = None if project.is_test(path) else project.module_at(path)
        for owner in module.classes if module is not None else ():
            if owner.name == subclass.decode() and any(_sets(part, field) for part in owner.body):
                return True
    return False


def _sets(part: ast.stmt, field: str) -> bool:
    match part:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return name == field
    return False


@query
def _is_made_of_mapping(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether a class is called with a mapping that is not written down."""
    for where in (module, *islice(project.users_of(module, {name}), MAX_USERS)):
        for call in (*where.calls_by_name.get(name, ()), *where.calls_by_name.get("cls", ())):
            if last_name(call.func) == "cls" and getattr(where.class_of(call), "name", "") != name:
                continue
            if any(one.arg is None and _is_unwritten(project, where, one.value) for one in call.keywords):
                return True
    return False
