"""Pass ``non_blocking=True`` to the transfers of a statement, and pin the loaders that feed them."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu302_blocking_transfer import Blocking

from gpulint.documents.python import PythonModule
from gpulint.facts.devices import Device, Transfer
from gpulint.facts.loaders import Loader
from gpulint.facts.resolve import Ref
from gpulint.facts.scopes import FunctionNode, last_name
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.calls import set_keyword
from gpulint_fixers.pinning import pin


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Make the copies asynchronous. Safe if all their loaders pin memory, or do so after the same fix."""
    payload = finding.payload
    assert isinstance(payload, Blocking)
    if reason := next(filter(None, (_obstacle(project, transfer) for transfer in payload.transfers)), None):
        return Declined(reason)
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


def _obstacle(project: Project, transfer: Transfer) -> str | None:
    """Why the option cannot be passed at all."""
    call, scopes = transfer.node, transfer.call.scopes
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(arg, ast.Starred) for arg in call.args):
        return "the call passes on options of its callers, which may have `non_blocking` among them"
    function = scopes.function(call)
    if _parameter(function, transfer.value) is None or not isinstance(call.func, ast.Attribute):
        return None
    target = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "device")]
    device = _parameter(function, target[0]) if target and call.func.attr == "to" else None
    if device is not None and function is not None and _reaches_cpu(project, Ref(scopes, target[0])):
        return (
            f"`{getattr(function, 'name', 'the function')}` also moves tensors to the CPU, where a copy that nobody "
            "waits for is read too early"
        )
    return None


def _parameter(function: FunctionNode | None, value: ast.expr) -> str | None:
    """The parameter of the function that a value is, or is taken out of."""
    if function is None:
        return None
    own = function.args
    names = {arg.arg for arg in (*own.posonlyargs, *own.args, *own.kwonlyargs)}
    return next((part.id for part in ast.walk(value) if isinstance(part, ast.Name) and part.id in names), None)


def _reaches_cpu(project: Project, device: Ref) -> bool:
    """Does some caller, or a default, name the CPU alone (not where there is no GPU)?"""
    if Device.CPU in (named := project.devices.of(device.scopes, device.node)) and Device.CUDA not in named:
        return True
    for ref in project.resolver.origins(device.scopes, device.node):
        parent = ref.scopes.module.parents.get(ref.node)
        passed = isinstance(parent, ast.Call | ast.keyword | ast.arguments)
        if passed and project.devices.of(ref.scopes, ref.node) == {Device.CPU}:
            return True
    return False


def _may_be_an_object(project: Project, transfer: Transfer) -> bool:
    """Is a whole batch moved that a ``collate_fn`` made, perhaps neither a tensor nor anything of PyTorch's?"""
    draw, value = transfer.draw, transfer.value
    if draw is None or not isinstance(value, ast.Name) or not isinstance(draw.where.node, ast.For | ast.AsyncFor):
        return False
    argument = project.feeding.argument
    if all(argument(loader, "collate_fn", 6).is_absent for loader in draw.loaders):
        return False
    target = draw.where.node.target
    if isinstance(target, ast.Tuple) and last_name(draw.where.node.iter) == "enumerate":
        target = target.elts[-1]
    return (isinstance(target, ast.Name) and target.id == value.id) or _strict_class(project, transfer)


def _strict_class(project: Project, transfer: Transfer) -> bool:
    """Has the program a class whose own method of that name takes no ``non_blocking``?"""
    name = last_name(transfer.node.func)
    for scopes in project.gpu_use.of(transfer.call.scopes.path).modules:
        for owner in scopes.classes:
            for method in owner.body:
                if isinstance(method, ast.FunctionDef) and method.name == name and method.args.kwarg is None:
                    taken = (*method.args.args, *method.args.kwonlyargs)
                    if all(arg.arg != "non_blocking" for arg in taken):
                        return True
    return False


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
