"""How long the write of a checkpoint may take, by where it goes and how large its models may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.loop_roles import Role
from gpulint.training.model_sizes import models_in
from gpulint.transfers.checkpoints import Save
from gpulint.transfers.storage import Location
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_TPU = regex.compile(r"(^|_|\b)(tpu|xla|xm)(_|\b)", re.IGNORECASE)
_LARGE = regex.compile(
    r"from_pretrained|torchvision\.models|\bmodels\.[a-z]+_?\d|\btimm\b|open_clip|transformers|diffusers|FSDP|FullySharded"
    r"|deepspeed|fairscale|megatron"
)
"""Libraries whose models have a hundred megabytes and more."""

_MAKES_ADAPTER = ("get_peft_model", "add_adapter")
SECONDS_OF_ADAPTER = (0.2, 5.0)
"""Seconds that the checkpoint of an adapter takes over the network: 20 to 500 MB at 100 MB/s (assumed)."""


def is_quick(contexts: Sequence[LoopContext], location: Location) -> bool:
    """Return whether a file of a few megabytes is no wait worth a word: on any disk, and once per epoch on a mount."""
    if not location.is_remote:
        return True
    return "://" not in location.text and bool(contexts) and all(one.role is Role.EPOCH for one in contexts)


def may_be_large(project: Project, save: Save, at: NodeRef | None = None) -> bool:
    """Return whether the models may have a hundred megabytes and more: their classes are not known to be the program's
    own, or make a part of those of a library. A method that saves its own object (``model.save(path)``) saves that of
    the call ``at``."""
    module = save.call.module
    models = models_in(project, module, save.node.args[0]) if save.node.args else []
    match at.node if at is not None and at.node is not save.node else None:
        case ast.Call(func=ast.Attribute(value=owner)):
            models = [
                (at.module, owner) if at is not None and _is_self(model) else (where, model) for where, model in models
            ]
    owners = [project.fact(Resolver).classes_of(where, model) for where, model in models]
    if not owners or not all(owners):
        return True
    return any(_LARGE.search(where.syntax.text(owner)) for found in owners for where, owner in found)


def _is_self(model: ast.expr) -> bool:
    return isinstance(model, ast.Name) and model.id == "self"


def is_for_tpu(at: NodeRef) -> bool:
    """A function or branch for TPUs."""
    function = at.module.function(at.node)
    tests = [ast.unparse(test) for test, holds in conditions(at.module, at.node) if holds]
    return any(_TPU.search(text) for text in (*tests, function.name if function is not None else ""))


@query
def trains_adapter(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module makes an adapter of PEFT, or hands the settings of one to a trainer: checkpoints then
    hold its weights alone."""
    if any(module.calls_by_name.get(name) for name in _MAKES_ADAPTER):
        return True
    given = [one.value for one in module.syntax.of(ast.keyword) if one.arg == "peft_config"]
    return any(not (isinstance(value, ast.Constant) and value.value is None) for value in given)


def writes_adapter(project: Project, save: Save) -> bool:
    """Return whether the model is one that PEFT made, of which only the small adapter is written."""
    func = save.node.func
    if not isinstance(func, ast.Attribute) or func.attr != "save_pretrained":
        return False
    made = project.fact(Resolver).points_to(save.call.module, func.value)
    calls = [ref.node for ref in made if isinstance(ref.node, ast.Call)]
    return any(last_name(call.func) == "get_peft_model" for call in calls)
