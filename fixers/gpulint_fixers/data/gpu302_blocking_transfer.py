"""Pass ``non_blocking=True`` to the transfers of a statement, and pin the loaders that feed them."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu302_blocking_transfer import Blocking

from gpulint.documents.python import PythonModule
from gpulint.facts.devices import Transfer
from gpulint.facts.loaders import Loader
from gpulint.facts.scopes import last_name
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.calls import set_keyword
from gpulint_fixers.pinning import pin


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Make the copies asynchronous. Safe if all their loaders pin memory, or do so after the same fix."""
    payload = finding.payload
    assert isinstance(payload, Blocking)
    loaders = {loader.node: loader for transfer in payload.transfers for loader in _loaders(transfer)}
    pinned = [_pinned(project, loader) for loader in loaders.values()]
    module = payload.transfers[0].call.scopes.module
    edits = [_unblock(module, transfer.node) for transfer in payload.transfers]
    if any(_may_be_an_object(project, transfer) for transfer in payload.transfers):
        note = "a batch of a class of its own (BatchEncoding of an older transformers, say) may not know the option"
        return Fix(f"copy without blocking the host; {note}", Safety.UNSAFE, tuple(edits))
    if pinned and None not in pinned:
        more = [edit for found in pinned if found is not None for edit in found]
        also = " and pin the loader's memory" if more else ""
        return Fix(f"copy without blocking the host{also}", Safety.SAFE, (*edits, *more))
    note = "it takes effect only if the loader pins its memory"
    return Fix(f"copy without blocking the host; {note}", Safety.UNSAFE, tuple(edits))


def _may_be_an_object(project: Project, transfer: Transfer) -> bool:
    """Is a whole batch moved that a ``collate_fn`` made, perhaps neither a tensor nor anything of PyTorch's?"""
    draw, value = transfer.draw, transfer.value
    if draw is None or not isinstance(value, ast.Name) or not isinstance(draw.where.node, ast.For | ast.AsyncFor):
        return False
    target = draw.where.node.target
    if isinstance(target, ast.Tuple) and last_name(draw.where.node.iter) == "enumerate":
        target = target.elts[-1]
    if not isinstance(target, ast.Name) or target.id != value.id:
        return False
    argument = project.feeding.argument
    return any(not argument(loader, "collate_fn", 6).is_absent for loader in draw.loaders)


def _loaders(transfer: Transfer) -> tuple[Loader, ...]:
    return transfer.draw.loaders if transfer.draw is not None else ()


def _pinned(project: Project, loader: Loader) -> list[Edit] | None:
    """Edits after which the loader pins its memory; None if that cannot be told or done."""
    feeding = project.feeding
    state = feeding.is_pinned(loader)
    if state is not False:
        return [] if state else None
    edit = pin(project, loader) if not feeding.yields_gpu_tensors(loader) else Declined("on the GPU already")
    return None if isinstance(edit, Declined) else [edit]


def _unblock(module: PythonModule, call: ast.Call) -> Edit:
    """Set ``non_blocking``, also where a plain False is passed by position."""
    for argument in call.args:
        if isinstance(argument, ast.Constant) and argument.value is False:
            return Edit(module.path, module.span(argument), "True")
    return set_keyword(module, call, "non_blocking", "True")


FIXER = Fixer("GPU302", fix)
