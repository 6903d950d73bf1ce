"""The edit that makes a data loader pin its memory; used by every fixer whose repair needs pinned batches."""

from __future__ import annotations

import ast

from gpulint.facts.devices import Device
from gpulint.facts.loaders import Loader
from gpulint.fix import Declined, Edit
from gpulint.project import Project
from gpulint_fixers.calls import add_keyword


def pin(project: Project, loader: Loader) -> Edit | Declined:
    """Pass ``pin_memory``: ``True``, or a test for a GPU where the program may run without one."""
    module = loader.scopes.module
    value = "True"
    if _may_lack_gpu(project, loader) and _torch_is_imported(loader):
        value = "torch.cuda.is_available()"
    argument = project.loaders.feeding.argument(loader, "pin_memory", 7)
    if not argument.refs:
        return add_keyword(module, loader.node, f"pin_memory={value}")
    passed = argument.refs[0].node
    own = [*loader.node.args, *(keyword.value for keyword in loader.node.keywords)]
    if isinstance(passed, ast.Constant) and any(passed is argument for argument in own):
        return Edit(module.path, module.span(passed), value)
    return Declined("pin_memory is set elsewhere: turn it on there")


def _may_lack_gpu(project: Project, loader: Loader) -> bool:
    transfers = list(project.devices.transfers_of(loader))
    return not transfers or any(transfer.devices != {Device.CUDA} for transfer in transfers)


def _torch_is_imported(loader: Loader) -> bool:
    return any(binding.target == "torch" for binding in loader.scopes.top.bindings.get("torch", []))
