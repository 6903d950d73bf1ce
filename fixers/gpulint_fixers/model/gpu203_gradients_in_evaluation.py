"""Switches gradients off around evaluation: a decorator on its function, or a ``with`` block around its loop."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.facts.inference import Inference
from gpulint.facts.once import once
from gpulint.facts.roles import Role
from gpulint.facts.scopes import LOOPS, FunctionNode, ModuleScopes, last_name
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.source import Span
from gpulint_fixers.structural import wrap

_EXPLAINING = regex.compile(
    r"(^|_)(grad_?)?cam(_|$)|saliency|attribut|explain|(^|_)shap(_|$)|GradCAM|hessian|jacobian", re.I
)


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    assert isinstance(found, Inference)
    if not any(binding.target == "torch" for binding in found.scopes.top.bindings.get("torch", [])):
        return Declined("`torch` is not imported under the name `torch`")
    function = found.function
    if explains := _explains(found, function or found.loop):
        return Declined(f"`{explains}` may need gradients")
    if function is not None and not _trains(project, found, function):
        return _decorate(finding, project, found, function)
    return _wrap(project, found)


def _explains(found: Inference, region: ast.AST) -> str | None:
    """What looks into the model by its gradients (class activation maps, attributions), as far as names tell."""
    calls = (call for call in _explaining(found.scopes) if region in found.scopes.module.ancestors(call))
    return next((ast.unparse(call.func) for call in calls), None)


@once
def _explaining(scopes: ModuleScopes) -> list[ast.Call]:
    return [call for call in scopes.calls if _EXPLAINING.search(last_name(call.func))]


def _trains(project: Project, found: Inference, function: FunctionNode) -> bool:
    """Does the function train as well, so that only the loop may run without gradients?"""
    scopes = found.scopes
    inside = walk(function)
    return any(isinstance(part, ast.Call) and project.loops.is_step(scopes, part) for part in inside) or any(
        isinstance(part, LOOPS) and project.loops.role(scopes, part) in (Role.STEP, Role.EPOCH) for part in inside
    )


def _decorate(finding: Finding, project: Project, found: Inference, function: FunctionNode) -> Fix | Declined:
    if any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) for node in walk(function)):
        return Declined("a decorator does not cover generators and coroutines")
    module = found.scopes.module
    head = module.head(function)
    indent = module.source.line(function.lineno)[: head.column - 1]
    if indent.strip():
        return Declined("the function does not start its line")
    at = Span(head.line, head.column, head.line, head.column, head.cell)
    sites = project.resolver.call_sites(found.scopes, function)
    returns = project.resolver.returns(function)
    training = any(project.loops.in_role(site.scopes, site.node, Role.STEP) for site in sites)
    proved = (bool(sites) and not training) or not returns
    return Fix(
        f"decorate {function.name!r} with `@torch.no_grad()`",
        Safety.SAFE if proved else Safety.UNSAFE,
        (Edit(finding.path, at, f"@torch.no_grad()\n{indent}"),),
    )


def _wrap(project: Project, found: Inference) -> Fix | Declined:
    document = project.document(found.scopes.path)
    assert document is not None
    edits = wrap(document, found.loop, "with torch.no_grad():")
    if isinstance(edits, Declined):
        return edits
    return Fix("wrap the loop in `with torch.no_grad():`", Safety.UNSAFE, edits)


FIXER = Fixer("GPU203", fix)
