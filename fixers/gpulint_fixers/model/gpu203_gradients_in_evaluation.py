"""Switches gradients off around evaluation: a decorator on its function, or a ``with`` block around its loop."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from gpulint_rules.model.kept_graphs import keeps_graphs

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.package_names import package_name
from gpulint.source import Span
from gpulint.training.differentiation import takes_gradients
from gpulint.training.inference_loops import InferenceLoop, trains_as_well
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, last_name
from gpulint_fixers.edits.imports import import_torch
from gpulint_fixers.edits.structural import wrap
from gpulint_fixers.edits.versions import has_newer_neighbours, predates_device_argument
from gpulint_fixers.model.differentiating_calls import may_differentiate
from gpulint_fixers.model.evaluating_calls import around_calls
from gpulint_fixers.model.gradient_blocks import put_under, smallest_loop, unpacked_nothing

_EXPLAINING = regex.compile(
    r"(^|_)(grad_?)?cam(_|$)|saliency|attribut|explain|(^|_)shap(_|$)|GradCAM|hessian|jacobian", re.I
)

_LONG = 120
"""Lines from which on a function with a loop in it is taken for a program."""
_SHORT = 20
"""Lines of a program that may run without gradients as a whole."""
_PROGRAMS = frozenset({"main", "main_worker", "cli"})
_TRAINS = regex.compile(r"^_?(train|fit|training)$", re.I)
"""Names of functions that are there to train, though the training may be commented out."""
_DIFFERENTIATES = frozenset({"backward", "grad", "enable_grad"})


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    assert isinstance(found, InferenceLoop)
    if (torch := package_name(found.module, "torch")) is not None:
        return _fix(finding, project, found, torch)
    if (imports := import_torch(found.module)) is not None:
        made = _fix(finding, project, found, "torch")
        return replace(made, edits=(*imports, *made.edits)) if isinstance(made, Fix) else made
    if (torch := package_name(found.module, "torch", found.loop or found.forward)) is None:
        return Declined("the module does not import `torch` itself, and could not be made to")
    return _fix(finding, project, found, torch, decorates=False)


def _fix(
    finding: Finding, project: Project, found: InferenceLoop, torch: str, *, decorates: bool = True
) -> Fix | Declined:
    """Return the fix with the name by which the module knows PyTorch; a decorator needs it outside of the function."""
    if predates_device_argument(found.module) and not has_newer_neighbours(project, found.module):
        return Declined("the code is for PyTorch before 0.4, which has no `torch.no_grad`")
    function = found.function
    if found.trains_too:
        return around_calls(project, found, f"with {torch}.no_grad():")
    if explains := _explains(found, function or found.loop or found.forward):
        return Declined(f"`{explains}` may need gradients")
    if (name := unpacked_nothing(project, found)) is not None:
        return Declined(f"`{name}` returns nothing, and what it returns is unpacked, which fails before")
    if (
        function is not None
        and not trains_as_well(project, found.module, function)
        and not (found.loop is not None and takes_gradients(project, found.module, function))
    ):
        if _suspends(function):
            return Declined("neither a decorator nor a block covers generators and coroutines")
        if decorates:
            return _decorate(finding, project, found, function, torch)
    return _wrap(project, found, torch)


def _suspends(function: FunctionNode) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) for node in walk(function))


def _explains(found: InferenceLoop, region: ast.AST) -> str | None:
    """Return what looks into the model by its gradients (class activation maps, attributions), as far as names tell."""
    calls = (call for call in _explaining(found.module) if region in found.module.syntax.ancestors(call))
    return next((ast.unparse(call.func) for call in calls), None)


@query
def _explaining(module: ModuleIndex) -> list[ast.Call]:
    return [call for call in module.calls if _EXPLAINING.search(last_name(call.func))]


def _decorate(
    finding: Finding, project: Project, found: InferenceLoop, function: FunctionNode, torch: str
) -> Fix | Declined:
    syntax = found.module.syntax
    head = syntax.head(function)
    indent = syntax.source.line(function.lineno)[: head.column - 1]
    if indent.strip():
        return Declined("the function does not start its line")
    at = Span(head.line, head.column, head.line, head.column, head.cell)
    proved = not (
        keeps_graphs(project, found.module, function)
        or may_differentiate(project, found.module, function)
        or _does_other_work(found, function)
    )
    is_program = _is_program(function, found)
    wraps = _TRAINS.search(function.name) is not None or (is_program and not _indents_much(project, found, function))
    if wraps and isinstance(wrapped := _wrap(project, found, torch), Fix):
        return wrapped
    return Fix(
        f"decorate {function.name!r} with `@{torch}.no_grad()`",
        Safety.SAFE if proved and not is_program else Safety.UNSAFE,
        (Edit(finding.path, at, f"@{torch}.no_grad()\n{indent}"),),
    )


def _does_other_work(found: InferenceLoop, function: FunctionNode) -> bool:
    """Return whether a function runs the model while it goes on with something else (``while True:`` of a simulation),
    or has loops of its own beside the evaluation, in which anything may happen."""
    if isinstance(found.loop, ast.While):
        return True
    loops = [part for part in walk(function) if isinstance(part, ast.While)]
    return any(found.loop is None or found.loop not in found.module.syntax.ancestors(loop) for loop in loops)


def _is_program(function: FunctionNode, found: InferenceLoop) -> bool:
    """Return whether a function is a whole program, of which the evaluation is a part."""
    loop = found.loop
    if loop is None:
        return False
    lines = (function.end_lineno or 0) - function.lineno
    most = _SHORT if getattr(function, "name", "") in _PROGRAMS else _LONG
    return lines > most and 2 * ((loop.end_lineno or 0) - loop.lineno) < lines


def _indents_much(project: Project, found: InferenceLoop, function: FunctionNode) -> bool:
    """Return whether a block around the loop would be long, in a function that certainly takes no gradients."""
    return smallest_loop(project, found) is None and not may_differentiate(project, found.module, function)


def _wrap(project: Project, found: InferenceLoop, torch: str) -> Fix | Declined:
    if found.loop is None:
        return Declined("the function around it trains as well")
    if any(isinstance(part, ast.Call) and last_name(part.func) in _DIFFERENTIATES for part in walk(found.loop)):
        return Declined("the loop around it trains as well")
    if _is_detached_at_once(found):
        return Declined("what the model returns is detached in the next statement, which frees the graph")
    document = project.document(found.module.path)
    assert document is not None
    header = f"with {torch}.no_grad():"
    if (loop := smallest_loop(project, found)) is None:
        made = put_under(project, document, found, header)
        return made if isinstance(made, Declined) else Fix(made[0], Safety.UNSAFE, made[1])
    edits = wrap(document, loop, header)
    return edits if isinstance(edits, Declined) else Fix(f"wrap the loop in `{header}`", Safety.UNSAFE, edits)


def _is_detached_at_once(found: InferenceLoop) -> bool:
    """``features = model(x).detach()``, or ``words, text = words.detach(), text.detach()`` right below."""
    module, parents = found.module, found.module.syntax.parents
    if isinstance(up := parents.get(found.forward), ast.Attribute) and up.attr == "detach":
        return True
    place = module.syntax.place(up) if isinstance(up, ast.Assign) and len(up.targets) == 1 else None
    if place is None or not isinstance(up, ast.Assign):
        return False
    names = {part.id for part in walk(up.targets[0]) if isinstance(part, ast.Name)}
    for below in getattr(parents[up], place[0])[place[1] + 1 :]:
        match below:
            case ast.Assign(targets=[target], value=value) if names and names & {
                part.id for part in walk(target) if isinstance(part, ast.Name)
            }:
                values = value.elts if isinstance(value, ast.Tuple) else [value]
                if not all(isinstance(one, ast.Call) and last_name(one.func) == "detach" for one in values):
                    return False
                names -= {part.id for part in walk(target) if isinstance(part, ast.Name)}
            case _:
                break
    return not names


FIXER = Fixer("GPU203", fix)
