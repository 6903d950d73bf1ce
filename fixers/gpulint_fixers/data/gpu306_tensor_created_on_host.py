"""Make the tensor on the device instead of moving it there."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu306_tensor_created_on_host import OnHost

from gpulint.documents.python import PythonModule
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import last_name
from gpulint_fixers.calls import add_keyword

_COMPUTED = frozenset({"linspace", "logspace"})


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Pass ``device=`` to the call that makes the tensor and take the transfer away."""
    payload = finding.payload
    assert isinstance(payload, OnHost)
    syntax = payload.transfer.call.module.syntax
    move, made = payload.transfer.node, payload.made
    device = _device(syntax, move)
    if device is None:
        return Declined("the transfer does more than select a device")
    if any(keyword.arg == "requires_grad" for keyword in made.keywords):
        return Declined("creating it on the GPU would make it a leaf tensor")
    start = syntax.offsets(payload.transfer.value)[1]
    tail = syntax.source.text[start : syntax.offsets(move)[1]]
    if "#" in tail or tail.lstrip()[:1] != ".":
        return Declined("there is a comment or a parenthesis between the two calls")
    edits = (
        add_keyword(syntax, made, f"device={device}", wrap=False),
        Edit(syntax.path, syntax.span_at(start, syntax.offsets(move)[1]), ""),
    )
    if payload.random:
        return Fix("create it on the GPU, whose generator draws different numbers", Safety.UNSAFE, edits)
    if last_name(made.func) in _COMPUTED:
        return Fix("create it on the GPU, which may round the last digit differently", Safety.UNSAFE, edits)
    return Fix("create it on the GPU", Safety.SAFE, edits)


def _device(syntax: PythonModule, move: ast.Call) -> str | None:
    """The text of the device of a plain ``.to(device)`` or ``.cuda(index)``; None if it carries anything else."""
    assert isinstance(move.func, ast.Attribute)
    values = [*move.args, *(keyword.value for keyword in move.keywords if keyword.arg == "device")]
    if any(keyword.arg not in ("device", "non_blocking") for keyword in move.keywords) or len(values) > 1:
        return None
    if move.func.attr == "cuda" and not values:
        return '"cuda"'
    return syntax.text(values[0]) if values and move.func.attr in ("to", "cuda") else None


FIXER = Fixer("GPU306", fix)
