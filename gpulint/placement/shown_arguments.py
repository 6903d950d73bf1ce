"""What calls that print, log or show something turn into text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_SETS_LEVEL = ("basicConfig", "setLevel")
_SETS_ALL = (b"dictConfig", b"fileConfig")
_ABOVE_DEBUG = frozenset({"INFO", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL"})
_EAGER = (ast.JoinedStr, ast.BinOp, ast.Call)
"""Messages that are made before a logger asks for its level."""


def shown(project: Project, module: ModuleIndex, call: ast.Call, second: bool) -> Iterator[ast.expr]:
    """Expressions whose value a call turns into text or, where the ``second`` argument is a value, into a number for a
    log."""
    values = [*call.args[1:2]] if second else [*call.args, *(keyword.value for keyword in call.keywords)]
    if last_name(call.func) == "debug" and _is_quiet(project, module, call):
        values = [value for value in values[:1] if isinstance(value, _EAGER)]
    while values:
        value = values.pop()
        if isinstance(value, ast.JoinedStr):
            values += [part.value for part in value.values if isinstance(part, ast.FormattedValue)]
        elif (
            isinstance(value, ast.BinOp)
            and isinstance(value.op, ast.Mod)
            and isinstance(value.left, ast.Constant | ast.BinOp)
        ):
            values.append(value.right)
        elif isinstance(value, ast.Tuple | ast.List):
            values += value.elts
        elif isinstance(value, ast.Dict):
            values += value.values
        elif isinstance(value, ast.Starred):
            values.append(value.value)
        elif isinstance(value, ast.Call) and _converts(value):
            values += [*value.args, *(keyword.value for keyword in value.keywords)]
        else:
            yield value


def _converts(call: ast.Call) -> bool:
    """``"...".format(x)``, ``str(x)``, ``dict(loss=x)``: what matters are the arguments."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr == "format"
    return last_name(call.func) in ("dict", "str", "round", "float")


def _is_quiet(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a logger of the standard library formats nothing: ``log.debug("loss %s", loss)`` in a program that
    shows no messages of that level."""
    if not isinstance(call.func, ast.Attribute):
        return False
    resolver = project.fact(Resolver)
    made = resolver.points_to(module, call.func.value)
    names = (resolver.call_names(one.module, one.node) for one in made if isinstance(one.node, ast.Call))
    known = "logging.debug" in resolver.call_names(module, call) or any("logging.getLogger" in one for one in names)
    return known and not _shows_debugging(project)


@query
def _shows_debugging(project: Project) -> bool:
    """Return whether the tree may set a level of logging that shows messages for debugging, by an option too."""
    if any(project.word_index.mentioning(word) for word in _SETS_ALL):
        return True
    paths = {path: None for name in _SETS_LEVEL for path in project.word_index.mentioning(name.encode())}
    modules = (module for module in map(project.module_at, paths) if module is not None)
    calls = (call for module in modules for name in _SETS_LEVEL for call in module.calls_by_name.get(name, ()))
    return not all(map(_is_above_debugging, calls))


def _is_above_debugging(call: ast.Call) -> bool:
    """``basicConfig()``, ``basicConfig(level=logging.INFO)``, ``setLevel("WARNING")``"""
    if any(keyword.arg is None for keyword in call.keywords):
        return False
    given = [keyword.value for keyword in call.keywords if keyword.arg == "level"] or call.args[:1]
    match given:
        case []:
            return True
        case [ast.Constant(value=str(name))] | [ast.Attribute(attr=name)] | [ast.Name(id=name)]:
            return name.upper() in _ABOVE_DEBUG
        case [ast.Constant(value=int(level))]:
            return level > 10
    return False
