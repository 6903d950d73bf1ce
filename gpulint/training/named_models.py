"""Models that a program picks from a table by a name that says how large they are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.training.model_sizes import models_in
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.transfers.checkpoints import Save

_SMALL = regex.compile(
    r"(?i)(pre_?act_?)?resnet_?(8|10|14|18|20|26|32|34|38|44|56|110|116)(x\d)?|(wrn|wide_?resnet)_?\d\d_?[1248]|lenet\d?"
    r"|mobilenet_?v?\d(_\w+)?|shufflenet\w*|shuffle_?v\d(_\w+)?|squeezenet\w*|efficientnet_b0|densenet_?(40|100|121)"
)
"""Networks of which a file holds less than 100 MB."""
_LARGE = regex.compile(r"(?i)large|huge|giant|xl|\d\s?b\b|vit|swin|bert|llama|gpt|resne\w*_?1(01|52)(?!\d)")
_TINY = regex.compile(r"(?i)(pre_?act_?)?resnet_?(8|14|20|32|38|44|56|110|116)(x\d)?|vgg_?8|lenet\d?|wrn_?\d\d_?[12]")
"""Networks that are only made for images of 32 pixels, so that the others of a table are too."""


def is_named_small(project: Project, save: Save) -> bool:
    """Return whether all models that a checkpoint holds are taken from a table by an option of which the default, or
    what launchers pass, names small networks (``MODELS[args.model]()`` of ``resnet20``)."""
    if not save.node.args:
        return False
    picks = [_pick(where, model) for where, model in models_in(project, save.call.module, save.node.args[0])]
    return bool(picks) and all(pick is not None and _names_small(project, *pick) for pick in picks)


def _pick(module: ModuleIndex, model: ast.expr) -> tuple[ModuleIndex, ast.expr] | None:
    """Return the name under which a table has the class of a model (``args.model`` of ``MODELS[args.model]()``), if
    nothing else makes the model."""
    if isinstance(model, ast.Attribute) and model.attr == "module":
        model = model.value
    if not isinstance(model, ast.Name):
        return None
    names = list[ast.expr]()
    for binding in module.scope(model).lookup(model.id):
        match _unmoved(binding.value):
            case ast.Call(func=ast.Subscript(value=ast.Name() | ast.Attribute(), slice=name)):
                names.append(name)
            case ast.Call() as wrapped if any(
                isinstance(part, ast.Name) and part.id == model.id for part in walk(wrapped)
            ):
                pass  # `model = model.cuda()`, `model = DataParallel(model)`
            case _:
                return None
    return (module, names[0]) if len(names) == 1 else None


def _unmoved(made: ast.expr | None) -> ast.expr | None:
    """Return what is moved to a device: ``Net()`` of ``Net().cuda()``."""
    while (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Attribute)
        and made.func.attr in ("to", "cuda", "train", "half")
    ):
        if not isinstance(made.func.value, ast.Call):
            break
        made = made.func.value
    return made


def _names_small(project: Project, module: ModuleIndex, name: ast.expr) -> bool:
    names = [str(value.value) for value in project.fact(Constants).of(module, name).values]
    if not names or any(map(_LARGE.search, names)):
        return False
    return all(map(_SMALL.fullmatch, names)) or any(map(_TINY.fullmatch, names))
