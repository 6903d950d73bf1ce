"""How long the write of a checkpoint may take, by where it goes and how large its models may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.loop_roles import Role
from gpulint.training.model_sizes import models_in
from gpulint.transfers.checkpoints import Save
from gpulint.transfers.storage import Location
from gpulint.workspace.module_index import NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

_TPU = regex.compile(r"(^|_|\b)(tpu|xla|xm)(_|\b)", re.IGNORECASE)
_LARGE = regex.compile(
    r"from_pretrained|torchvision\.models|\bmodels\.[a-z]+_?\d|\btimm\b|open_clip|transformers|diffusers|FSDP|FullySharded"
    r"|deepspeed|fairscale|megatron"
)
"""Libraries whose models have a hundred megabytes and more."""


def is_quick(contexts: Sequence[LoopContext], location: Location) -> bool:
    """Return whether a file of a few megabytes is no wait worth a word: on any disk, and once per epoch on a mount."""
    if not location.is_remote:
        return True
    return "://" not in location.text and bool(contexts) and all(one.role is Role.EPOCH for one in contexts)


def may_be_large(project: Project, save: Save) -> bool:
    """Return whether the models may have a hundred megabytes and more: their classes are not known to be the program's
    own, or make a part of those of a library."""
    module = save.call.module
    models = models_in(project, module, save.node.args[0]) if save.node.args else []
    owners = [project.fact(Resolver).classes_of(where, model) for where, model in models]
    if not owners or not all(owners):
        return True
    return any(_LARGE.search(where.syntax.text(owner)) for found in owners for where, owner in found)


def is_for_tpu(at: NodeRef) -> bool:
    """A function or branch for TPUs."""
    function = at.module.function(at.node)
    tests = [ast.unparse(test) for test, holds in conditions(at.module, at.node) if holds]
    return any(_TPU.search(text) for text in (*tests, function.name if function is not None else ""))
