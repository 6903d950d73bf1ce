"""Which commands draw from a loader: ``main.py --eval --num_workers 0`` says nothing of the workers of a training that
is behind ``if args.eval: return``, and a command for the CPU nothing of those that a GPU waits for."""

from __future__ import annotations

import ast
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.launch.job_index import JobIndex
from gpulint.placement.batch_flow import BatchFlow
from gpulint.programs.cpu_starts import is_without_gpu
from gpulint.programs.import_chains import may_lead_to
from gpulint.query import query
from gpulint.semantic.callers import is_on_each_way
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.values.constants import Constants, ConstantSet, Value, values_key
from gpulint.values.option_calls import declaring_calls, flags
from gpulint.workspace.module_index import ModuleIndex, NodeRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.finding import Place
    from gpulint.launch.job import Launched
    from gpulint.project import Project

MAX_CALLS = 4
"""Calls between a loop over a loader and the test of an option that are followed."""
_ON = frozenset({"true", "1", "yes", "on"})
_OFF = frozenset({"false", "0", "no", "off"})


def settings_of(project: Project, loader: Loader, argument: NodeRef) -> ConstantSet:
    """Return what is known of an argument of a loader, without what only commands pass that do not draw from it, or
    keep the program on the CPU; all of it if nothing else is known."""
    known = _of_makers(project, loader, argument) or project.fact(Constants).of(argument.module, argument.node)
    if not any(value.source == "launcher" for value in known.values):
        return known
    left = [used for value in known.values if (used := _in_use(project, loader, value)) is not None]
    return ConstantSet(tuple(left), known.unknown) if left else known


def _of_makers(project: Project, loader: Loader, argument: NodeRef) -> ConstantSet | None:
    """Return what is known of an option that several programs declare, of which the likeliest never imports the module
    that makes a loader (``self.workers = args.workers`` of a base class): by those that do; None where that does not
    apply."""
    (ref, *more) = project.fact(Resolver).points_to(argument.module, argument.node) or [argument]
    if more or ref.path:
        return None
    values = project.fact(Constants).options.of_programs(ref, lambda home: may_lead_to(project, home, loader.module))
    if values is None:
        return None
    return ConstantSet(tuple(dict.fromkeys(values_key(values))), () if values else (ref,))


def _in_use(project: Project, loader: Loader, value: Value) -> Value | None:
    """Return a value with the place of a command that draws from a loader on a GPU, if a command passes it; None if all
    that do draw from none."""
    starts = [*_passing(project, value)] if value.source == "launcher" else []
    for start, place in starts:
        if not is_without_gpu(project, start.job, start.start) and not _passes_by(project, loader, start):
            return Value(value.value, place, value.source)
    return None if starts else value


def _passing(project: Project, value: Value) -> Iterator[tuple[Launched, Place]]:
    """Yield the commands that pass a value for the same option as the one that is known to."""
    index = project.fact(JobIndex)
    for first in index.launches_in(value.place.path):
        words = first.start.launch.args
        at = next((number for number, word in enumerate(words) if word.span == value.place.span), None)
        if at is None:
            continue
        name = words[at].text.partition("=")[0] if "=" in words[at].text else words[max(at - 1, 0)].text
        given = [text for text, _ in first.option((name,))]
        for start in index.launches_of(first.start.program) if first.start.program is not None else ():
            yield from ((start, place) for text, place in start.option((name,)) if [text] == given)


def _passes_by(project: Project, loader: Loader, start: Launched) -> bool:
    """Return whether the options of a command keep its program from all loops over a loader, or from making it."""
    reads = [read.where for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)]
    is_ruled_out = partial(_is_ruled_out, project, start)
    return is_on_each_way(project, loader.call, is_ruled_out, MAX_CALLS) or (
        bool(reads) and all(is_on_each_way(project, read, is_ruled_out, MAX_CALLS) for read in reads)
    )


def _is_ruled_out(project: Project, start: Launched, module: ModuleIndex, node: ast.AST) -> bool:
    parts = chain.from_iterable(parts_of(test, holds) for test, holds in conditions(module, node))
    return any(_contradicts(project, start, module, part, wanted) for part, wanted in parts)


def _contradicts(project: Project, start: Launched, module: ModuleIndex, part: ast.expr, wanted: bool) -> bool:
    """Return whether a command passes an option with which a test (``not args.eval``, ``args.mode == "train"``) turns
    out otherwise."""
    match part:
        case ast.Compare(
            left=left, ops=[ast.Eq() | ast.NotEq() as compares], comparators=[ast.Constant(value=str(text))]
        ):
            passed = _passed(project, start, module, left)
            return passed is not None and (passed == text) is not (isinstance(compares, ast.Eq) is wanted)
        case ast.Attribute() | ast.Name() | ast.Subscript():
            passed = (_passed(project, start, module, part) or "").lower()
            return passed in _OFF if wanted else passed in _ON
    return False


def _passed(project: Project, start: Launched, module: ModuleIndex, node: ast.expr) -> str | None:
    """Return what a command passes for the option that an expression reads; None if nothing, or what is unknown."""
    name = _option_of(module, node)
    if name is None:
        return None
    found = start.option((f"--{name}", *_flags(project, start, name)))
    return found[-1][0] if found else None


def _option_of(module: ModuleIndex, node: ast.expr) -> str | None:
    """Return the name of the option in ``args.eval``, ``args["eval"]`` or a variable that holds one."""
    if isinstance(node, ast.Name):
        bound = module.scope(node).lookup(node.id)
        value = bound[0].value if len(bound) == 1 and not bound[0].path else None
        return _option_of(module, value) if isinstance(value, ast.Attribute | ast.Subscript) else None
    match node:
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return None


def _flags(project: Project, start: Launched, name: str) -> tuple[str, ...]:
    """The strings by which a program, or a module that it imports, declares an option (``-e``, ``--evaluate``)."""
    program = start.start.program
    return _declared(project, program).get(name, ()) if program is not None else ()


@query
def _declared(project: Project, program: Path) -> dict[str, tuple[str, ...]]:
    modules = [project.module_at(path) for path in (program, *sorted(project.imported(program)))]
    found: dict[str, tuple[str, ...]] = {}
    for module in modules:
        for name, calls in declaring_calls(module).items() if module is not None else ():
            found[name] = (*found.get(name, ()), *chain.from_iterable(flags(one) for one in calls if not _negates(one)))
    return found


def _negates(option: ast.Call) -> bool:
    """``parser.add_argument("--no-eval", dest="eval", action="store_false")``"""
    action = keyword_value(option, "action")
    return isinstance(action, ast.Constant) and action.value == "store_false"
