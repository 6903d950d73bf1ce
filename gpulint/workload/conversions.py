"""Transforms that only convert a sample: to a tensor, or to numbers of another type."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, LOOPS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    import re

    from gpulint.project import Project

CHEAP = frozenset(
    (
        "len int float tensor as_tensor from_numpy rand randn zeros ones randint items keys values dict item long "
        "Tensor LongTensor FloatTensor clone detach IntTensor DoubleTensor BoolTensor squeeze unsqueeze view reshape "
        "astype asarray type_as cat stack full arange pad zeros_like ones_like min max abs range sum is_tensor tolist "
        "transpose permute swapaxes moveaxis contiguous Generator manual_seed randperm type"
    ).split()
)
"""What data sets call that takes next to no time."""
_CONVERTS = regex.compile(
    r"^((torchvision\.transforms|albumentations)\.(\w+\.)*(ToTensor|ToTensorV2|ConvertImageDtype|ToDtype)"
    r"|(torch|numpy)\.(tensor|as_tensor|from_numpy|Tensor|FloatTensor|LongTensor|asarray|float32|float64))$"
)
"""What makes tensors of arrays that are in memory, or changes the type of their numbers."""
_SAME_EACH_TIME = regex.compile(
    r"^(torchvision\.transforms|albumentations)\.(\w+\.)*(CenterCrop|ConvertImageDtype|Crop|FromFloat|Grayscale|LongestMaxSize"
    r"|NoOp|Normalize|PILToTensor|Pad|PadIfNeeded|Resize|SmallestMaxSize|ToDtype|ToFloat|ToImage|ToPILImage|ToTensor"
    r"|ToTensorV2)$"
    r"|^torchvision\.transforms\.(v2\.)?functional\.(?!gaussian_noise$)\w+$"
    r"|^torch\.nn\.functional\.(?!\w*dropout|gumbel_softmax$|rrelu)\w+$"
    r"|^(cv2|scipy\.ndimage|skimage\.transform)\.(?!rand|set(RNG|UseO))\w+$|^numpy\.(flip(lr|ud)?|rot90)$"
)
"""Transforms that take no random numbers: those of functions are given what they do."""
CHAINS = frozenset({"Compose", "Sequential"})
_FUNCTION = "Lambda"
"""torchvision's transform that calls a function."""
_DEPTH = 4


def only_converts(project: Project, transform: NodeRef) -> bool:
    """Return whether calling a transform, or each of those that a value may be, only converts what it is given."""
    return _is_one_of(project, transform, _CONVERTS, _DEPTH)


def draws_nothing(project: Project, transform: NodeRef) -> bool:
    """Return whether calling a transform, or each of those that a value may be, takes no random numbers."""
    return _is_one_of(project, transform, _SAME_EACH_TIME, _DEPTH)


def _is_one_of(project: Project, transform: NodeRef, wanted: re.Pattern[str], depth: int) -> bool:
    resolver = project.fact(Resolver)
    if any(map(wanted.match, resolver.names(transform.module, transform.node))):
        return True
    found = [ref for ref in resolver.points_to(transform.module, transform.node) if not _is_none(ref)]
    return bool(found) and all(not ref.path and _is_made_of(project, ref, wanted, depth) for ref in found)


def _is_none(ref: NodeRef) -> bool:
    return isinstance(ref.node, ast.Constant) and ref.node.value is None


def _is_made_of(project: Project, made: NodeRef, wanted: re.Pattern[str], depth: int) -> bool:
    match made.node:
        case ast.Lambda() | ast.FunctionDef():
            return wanted is _CONVERTS and _is_short(made.node)
        case ast.Call() as call if depth:
            names = project.fact(Resolver).call_names(made.module, call)
            if any(map(wanted.match, names)):
                return True
            called = last_name(call.func)
            if called in CHAINS:
                return _are_made_of(project, made.module, call, wanted, depth - 1)
            if called == _FUNCTION and call.args:
                return _is_one_of(project, NodeRef(made.module, call.args[0]), wanted, depth - 1)
    return False


def _are_made_of(project: Project, module: ModuleIndex, chain: ast.Call, wanted: re.Pattern[str], depth: int) -> bool:
    """Return whether all steps of a chain are so, as far as its list is written out and stays as it is."""
    steps = chain.args[0] if chain.args else keyword_value(chain, "transforms")
    if steps is None or len(chain.args) > 1 or (isinstance(steps, ast.Name) and _grows(module, steps)):
        return False
    lists = project.fact(Resolver).points_to(module, steps)
    return bool(lists) and all(
        isinstance(held.node, ast.List | ast.Tuple)
        and not held.path
        and all(_is_one_of(project, NodeRef(held.module, step), wanted, depth) for step in held.node.elts)
        for held in lists
    )


def _grows(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether methods of a list are called, or something is added to it (``steps.append(flip)``)."""
    bound = module.scope(name).lookup(name.id)
    return any(
        isinstance(module.syntax.parents.get(use), ast.Attribute | ast.AugAssign)
        for use in module.uses.get(name.id, ())
        if module.scope(use).lookup(name.id) is bound
    ) or any(isinstance(binding.node, ast.AugAssign) for binding in bound)


def _is_short(function: ast.Lambda | ast.FunctionDef) -> bool:
    """Return whether a function calls nothing that takes time, and has no loop."""
    return all(
        last_name(part.func) in CHEAP
        if isinstance(part, ast.Call)
        else not isinstance(part, (*LOOPS, *COMPREHENSIONS, ast.MatMult, *FUNCTIONS)) or part is function
        for part in walk(function)
    )
