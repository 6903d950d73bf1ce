"""Constructors that get the options of a command: ``Data.from_argparse_args(args)``, a class method that Lightning
gives to modules of data and to trainers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.semantic.argument_binding import RECEIVERS, CallbackCall, attribute_of, callback_call, parameters
from gpulint.workspace.module_index import FunctionNode, ModuleIndex
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.semantic.points_to import Resolver

MAKES = "from_argparse_args"
_ADDS = "add_argument"


def calls_with_namespace(
    project: Project, resolver: Resolver, module: ModuleIndex, home: ast.ClassDef, function: FunctionNode
) -> Iterator[tuple[ModuleIndex, CallbackCall]]:
    """Yield the calls that ``Class.from_argparse_args(args)`` makes of a constructor: with each option that the class's
    file or the caller's adds, and the default of the constructor for all others."""
    paths = project.word_index.mentioning(word_of(MAKES))
    if not paths or resolver.method(module, home, MAKES) is not None:
        return
    targets = resolver.names(module, home)
    for where in map(project.module_at, paths):
        for call in where.calls_by_name.get(MAKES, ()) if where is not None else ():
            assert where is not None
            func = call.func
            if not isinstance(func, ast.Attribute) or not call.args or not resolver.names(where, func.value) & targets:
                continue
            added = _added(where) | _added(module)
            held, names = call.args[0], sorted(parameters(function) - {*RECEIVERS})
            named = {name: attribute_of(where, held, name) for name in names if name in added}
            given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
            yield where, callback_call(where, call, func.value, [], {**named, **given}, shifted=False)


def _added(module: ModuleIndex) -> frozenset[str]:
    """Return the names under which a module adds options to a parser."""
    calls = module.calls_by_name.get(_ADDS, ())
    flags = (part.value for call in calls for part in call.args if isinstance(part, ast.Constant))
    return frozenset(flag.lstrip("-").replace("-", "_") for flag in flags if isinstance(flag, str))
