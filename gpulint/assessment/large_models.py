"""Models of which a step takes long, as far as the code names them: those that run by default, not each one that an
option offers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.assessment.choices import is_known_other
from gpulint.libraries.names import matches
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, dotted

if TYPE_CHECKING:
    from gpulint.libraries.operations import LargeModel
    from gpulint.project import Project

MAX_USERS = 4
"""Most importing modules that are asked which model they make."""
MAX_NAME = 100
"""Longer texts are no names of models."""
LEAST = 2
"""Entries of a table from which on they are choices."""
_Place = tuple[str, ast.AST]


@query
def has_large_model(project: Project, module: ModuleIndex, most: int = MAX_USERS) -> bool:
    """Return whether a module, or one of those that import it, of which so many are asked at most, makes a model of
    which a step takes long."""
    rows = project.models.rows("large-model")
    users = (project.module_at(path) for path in islice(project.fact(GpuPrograms).users(module.path), most))
    return any(_names_one(project, user, rows) for user in (module, *users) if user is not None)


@query
def _names_one(project: Project, module: ModuleIndex, rows: tuple[LargeModel, ...]) -> bool:
    """Return whether the code of a module names a model of the rows; comments do not count, nor do models that a known
    option does not choose."""
    if any(not module.packages.isdisjoint(row.packages) for row in rows):
        return True
    calls = tuple(name for row in rows for name in row.calls)
    names = tuple(name for row in rows for name in row.names)
    called = ((part, call) for call in module.calls for part in dotted(call.func).split("."))
    places = [*_matching(calls, names, called), *(node for text, node in _texts(module) if matches(names, [text]))]
    return any(not _is_unchosen(project, module, node) for node in places)


def _matching(calls: tuple[str, ...], names: tuple[str, ...], called: Iterator[_Place]) -> Iterator[ast.AST]:
    return (node for part, node in called if matches(calls, [part]) or matches(names, [part.lower()]))


def _texts(module: ModuleIndex) -> Iterator[_Place]:
    """Yield the short texts of a module that may name models."""
    for node in module.syntax.nodes:
        match node:
            case ast.Constant(value=str(text)) if len(text) < MAX_NAME and not text[-1:].isspace():
                yield text.lower(), node
                yield text.rpartition("/")[2].lower(), node


def _is_unchosen(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a model is one of several, and the known values of what chooses among them are others."""
    return (
        is_known_other(project, module, node)
        or _is_other_entry(project, module, node)
        or _is_other_value(project, module, node)
        or _is_for_other_number(project, module, node)
    )


def _is_for_other_number(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """``elif depth == 101: net = resnet101()`` after ``depth = 50``"""
    for test, holds in conditions(module, node):
        match test:
            case ast.Compare(
                left=ast.Name() as left, ops=[ast.Eq()], comparators=[ast.Constant(value=int(wanted))]
            ) if holds and type(wanted) is int:
                known = project.fact(Constants).of(module, left)
                numbers = [one.value for one in known.values if type(one.value) is int]
                if known.complete and numbers and len(numbers) == len(known.values) and wanted not in numbers:
                    return True
    return False


def _is_other_entry(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """``{"small": resnet18, "large": "vit_l_16"}[args.size]``"""
    inner = node
    for up in module.syntax.ancestors(node):
        if isinstance(up, ast.Dict) and len(up.keys) >= LEAST:
            keys = [key for key, value in zip(up.keys, up.values, strict=True) if inner in (key, value)]
            chosen = {text for index in _indices(module, up) for text in _known(project, module, index)}
            return bool(chosen) and all(isinstance(key, ast.Constant) and key.value not in chosen for key in keys)
        if isinstance(up, ast.stmt):
            return False
        inner = up
    return False


def _indices(module: ModuleIndex, table: ast.Dict) -> list[ast.expr]:
    """The keys under which a module looks into a table; none if it may look at others."""
    up = module.syntax.parents.get(table)
    match up:
        case ast.Subscript(value=value, slice=index) if value is table:
            return [index]
        case ast.Assign(targets=[ast.Name(id=name)]):
            found = list[ast.expr]()
            for use in module.uses.get(name, ()):
                above = module.syntax.parents.get(use)
                call = module.syntax.parents.get(above) if above is not None else None
                match above, call:
                    case ast.Subscript(value=value, slice=index), _ if value is use:
                        found.append(index)
                    case ast.Attribute(attr="get"), ast.Call(args=[index, *_]):
                        found.append(index)
            return found
    return []


def _is_other_value(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a text is one of the values of an option, of which another one is the default:
    ``add_argument("--arch", default="resnet18", choices=["resnet18", "vit_l_16"] + more)``."""
    listed = module.syntax.parents.get(node)
    keyword = module.syntax.parents.get(listed) if isinstance(listed, ast.List | ast.Tuple | ast.Set) else None
    while isinstance(keyword, ast.BinOp) and isinstance(keyword.op, ast.Add):
        keyword = module.syntax.parents.get(keyword)
    call = module.syntax.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
    if not isinstance(node, ast.Constant) or not isinstance(keyword, ast.keyword) or keyword.arg != "choices":
        return False
    options = [part.value for part in getattr(call, "args", ()) if isinstance(part, ast.Constant)]
    names = {str(option).lstrip("-").replace("-", "_") for option in options}
    chosen = (
        value for use in module.syntax.of(ast.Attribute) if use.attr in names for value in _known(project, module, use)
    )
    first = next(chosen, None)
    return first is not None and node.value not in (first, *chosen)


def _known(project: Project, module: ModuleIndex, node: ast.expr) -> list[str]:
    """The texts that an expression is known to be: of an option, its default and what commands pass."""
    return [value for value in project.fact(Constants).of(module, node).constants if isinstance(value, str)]
