"""How much a list of tensors would keep on the GPU, as far as names tell."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex, dotted, last_name

_LARGE = regex.compile(
    r"segment|unet|dice|mask|recon|image|img|video|frame|voxel|volume|pixel|depth|mel|audio|wave|spec|embed|feat|latent"
    r"|logits|hidden|point|flow|box"
)
"""Words of what has too much for each sample to keep all of it on the GPU."""
_SCORES = frozenset({"logits"})
"""Words of what has a number for each class, be it of a sample, a pixel or a token."""
_LABELS = regex.compile(r"^(?:y|lbls?|labels?|targets?|classes|gt_labels?)(?:_\w+)?$|_(?:y|labels?|targets?)$")
_LOSSES = regex.compile(r"criterion|cross_entropy|loss")
_LIBRARIES = frozenset({"torch", "F", "torch.nn.functional"})
"""Modules whose functions take a tensor first."""
_DENSE = regex.compile(
    r"segment|unet|dice|\biou|miou|mask|pixel|vocab|token|input_ids|lm_|causallm|caption|seq2seq|decode"
)
"""Words of functions whose scores are those of pixels or tokens."""
_MODEL = regex.compile(r"(^|_)(model|net|network|encoder|generator|backbone|transformer|u_?net)$", re.IGNORECASE)


def is_large(module: ModuleIndex, tensor: ast.expr, name: str) -> bool:
    """Return whether all that a loop lists under a name may be too much to keep on the GPU. A sum of all elements is
    not; of classes that ``argmax`` picks, their scores say nothing."""
    words = {*_LARGE.findall(f"{module.syntax.text(tensor)} {name} {module.path.stem}".lower())}
    match tensor:
        case ast.Call(func=ast.Attribute(attr="sum" | "mean"), args=[], keywords=[]):
            return False
        case ast.Call(func=ast.Attribute(attr="argmax"), args=[_] | []):
            words -= _SCORES
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="argmax"), args=[ast.Name(), *_]):
            words -= _SCORES
    large = bool(words) and not (words <= _SCORES and _is_of_samples(module, tensor))
    return large or _is_input(module, tensor)


def _is_input(module: ModuleIndex, tensor: ast.expr) -> bool:
    """Return whether a model is given a tensor first: an epoch of its inputs is the whole data set."""
    while isinstance(tensor, ast.Call | ast.Attribute):
        tensor = tensor.func if isinstance(tensor, ast.Call) else tensor.value
    if not isinstance(tensor, ast.Name):
        return False
    ups = [module.syntax.parents.get(use) for use in module.uses.get(tensor.id, ())]
    return any(
        isinstance(up, ast.Call)
        and any(isinstance(one, ast.Name) and one.id == tensor.id for one in up.args[:1])
        and module.function(up) is module.function(tensor)
        and _MODEL.search(last_name(up.func)) is not None
        for up in ups
    )


def _is_of_samples(module: ModuleIndex, tensor: ast.expr) -> bool:
    """Return whether scores are for whole samples: a loss compares them with labels as they are, and the function
    speaks neither of pixels nor of tokens."""
    while isinstance(tensor, ast.Call | ast.Attribute | ast.Subscript):
        if not isinstance(tensor, ast.Call):
            tensor = tensor.value
        elif isinstance(tensor.func, ast.Attribute) and dotted(tensor.func.value) in _LIBRARIES and tensor.args:
            tensor = tensor.args[0]
        else:
            tensor = tensor.func
    if not isinstance(tensor, ast.Name) or tensor.id not in _compared(module):
        return False
    return not _is_dense(module, module.function(tensor) or module.syntax.tree)


@query
def _is_dense(_module: ModuleIndex, function: ast.AST) -> bool:
    """Return whether a function has names of what belongs to pixels or tokens."""
    names = (
        getattr(part, "id", None) or getattr(part, "attr", None) or getattr(part, "arg", None)
        for part in walk(function)
    )
    return any(isinstance(name, str) and _DENSE.search(name.lower()) for name in names)


@query
def _compared(module: ModuleIndex) -> frozenset[str]:
    """The variables that losses of a module compare with labels: ``criterion(logits, y)``"""
    found = set[str]()
    for call in module.calls_where(lambda name: _LOSSES.search(name.lower())):
        match call.args[:2]:
            case [ast.Name(id=scores), ast.Name(id=labels)] if _LABELS.search(labels):
                found.add(scores)
    return frozenset(found)
