"""Bytes of the images that data sets return, where each step from the file to the sample is understood."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.image_shapes import Image
from gpulint.assessment.image_transforms import transformed
from gpulint.assessment.image_values import Getter, image_of
from gpulint.documents.call_syntax import passed_as
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.loader_calls import loader_argument
from gpulint.workload.dataset_work import parts_of
from gpulint.workspace.module_index import BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_PHOTO = Image(channels=3, item=1, loaded=True)
_BUILT_IN = {
    **dict.fromkeys(("ImageFolder", "ImageNet", "Food101", "Places365", "Flowers102", "StanfordCars"), (_PHOTO, 1)),
    **dict.fromkeys(("CIFAR10", "CIFAR100", "SVHN"), (dataclasses.replace(_PHOTO, height=32, width=32), 2)),
    "STL10": (dataclasses.replace(_PHOTO, height=96, width=96), 3),
    **dict.fromkeys(
        ("MNIST", "FashionMNIST", "KMNIST"), (dataclasses.replace(_PHOTO, height=28, width=28, channels=1), 2)
    ),
}
"""Data sets of torchvision: their images, and the place of ``transform`` among the arguments."""
_NUMBER = regex.compile(r"label|target|class|cls|idx|index|(^|_)(id|ids|name|path|y)$")
"""Names of parts of a sample that are a number or a text."""
_MAKES_NUMBER = frozenset("int float str tensor as_tensor array asarray LongTensor FloatTensor Tensor int64".split())
_OF_NUMBER = frozenset({"long", "float", "item", "int", "bool"})
_DEPTH = 3
"""Most methods, and tuples within each other, that are followed from what a data set returns."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The bytes of the largest image of each sample, and whether nothing else in it is large."""

    bytes: int
    whole: bool = True


@query
def sample_of(project: Project, loader: Loader) -> Sample | None:
    """Return what each sample of a loader surely holds; None where a step on its way is not understood."""
    if not loader_argument(project, loader, "collate_fn").is_absent:
        return None
    found = {_of_source(project, source) for source in parts_of(project, loader)}
    return found.pop() if len(found) == 1 else None


def _of_source(project: Project, source: NodeRef) -> Sample | None:
    """Return what is known of a sample by the call that makes its data set."""
    call = source.node
    if not isinstance(call, ast.Call):
        return None
    resolver = project.fact(Resolver)
    names = resolver.call_names(source.module, call)
    if any(name.startswith("torchvision.datasets.") for name in names):
        image, place = _BUILT_IN.get(last_name(call.func), (None, 0))
        given = passed_as(call, "transform", place)
        made = transformed(project, source.module, given, image) if image is not None and given is not None else None
        return _as_sample(made)
    classes = resolver.classes_of(source.module, call)
    if len(classes) != 1:
        return None
    method = resolver.method(*classes[0], "__getitem__")
    if method is None or not isinstance(method.node, ast.FunctionDef):
        return None
    return _of_method(Getter(project, method.module, classes[0][1]), method.node, _DEPTH)


def _as_sample(image: Image | None) -> Sample | None:
    return Sample(image.bytes) if image is not None and image.bytes else None


def _of_method(getter: Getter, method: ast.FunctionDef, depth: int) -> Sample | None:
    """Return what all ``return`` of a method have in common."""
    values = getter.project.fact(Resolver).returns(method)
    found = {_of_value(getter, value, depth) for value in values} if depth else set()
    return found.pop() if len(found) == 1 else None


def _of_value(getter: Getter, value: ast.expr, depth: int) -> Sample | None:
    if not depth:
        return None
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            found = [_of_value(getter, part, depth - 1) for part in parts]
            images = [one for one in found if one is not None]
            if not images:
                return None
            whole = len(images) == 1 and all(
                one is not None or _is_number(part) for one, part in zip(found, parts, strict=True)
            )
            return Sample(max(one.bytes for one in images), whole and images[0].whole)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if (
            called := _own_method(getter, name)
        ) is not None:
            return _of_method(dataclasses.replace(getter, module=called[0]), called[1], depth - 1)
        case ast.Name(id=name):
            bound = reaching(getter.module, getter.module.scope(value).lookup(name), value)
            if len(bound) == 1 and bound[0].kind is BindingKind.ASSIGN and bound[0].value is not None:
                made = bound[0].value
                if not bound[0].path and isinstance(made, ast.Tuple | ast.List | ast.Dict):
                    return _of_value(getter, made, depth - 1) if not _is_changed(getter.module, value) else None
    return _as_sample(image_of(getter, value))


def _is_changed(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether the function of a variable sets parts of what it holds, or hands it to a call."""
    function = module.function(name)
    used = [part for part in module.uses.get(name.id, ()) if module.function(part) is function]
    return any(not isinstance(module.syntax.parents.get(part), ast.Return | ast.Assign) for part in used)


def _is_number(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) or bool(_NUMBER.search(_named(part).lower()))


def _named(part: ast.expr) -> str:
    """``labels`` of ``torch.tensor(self.labels[index])``; empty for the result of another call."""
    while isinstance(part, ast.Call | ast.Subscript):
        if isinstance(part, ast.Subscript):
            part = part.value
        elif last_name(part.func) in _MAKES_NUMBER and part.args:
            part = part.args[0]
        elif last_name(part.func) in _OF_NUMBER and isinstance(part.func, ast.Attribute):
            part = part.func.value
        else:
            return ""
    return last_name(part)


def _own_method(getter: Getter, name: str) -> tuple[ModuleIndex, ast.FunctionDef] | None:
    found = getter.project.fact(Resolver).method(getter.module, getter.owner, name)
    return (found.module, found.node) if found is not None and isinstance(found.node, ast.FunctionDef) else None
