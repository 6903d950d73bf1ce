"""Images that the classes of torchvision, Keras, webdataset and MONAI decode and transform one by one on the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.values.arguments import Arguments
from gpulint.workload.image_transforms import resizes
from gpulint.workload.sample_preprocessing import is_held_out
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

IMAGE_SETS = frozenset(
    (
        "ImageFolder LSUN ImageNet Places365 CelebA Caltech101 Caltech256 Flowers102 Food101 OxfordIIITPet "
        "StanfordCars VOCDetection VOCSegmentation CocoDetection CocoCaptions INaturalist Cityscapes "
        "DatasetFolder Country211 SUN397"
    ).split()
)
_TORCHVISION = "torchvision.datasets."
_DECODES = regex.compile(r"^(pil|torch)?(rgba?|l)?8?$")
"""What webdataset's ``decode`` calls images."""
_LOADS = frozenset({"LoadImage", "LoadImaged", "LoadImageD"})
_WARPS = regex.compile(r"Spacing|Resize|Zoom|Rand|Rotate|Orientation|Affine")
"""MONAI's transforms that resample a volume or pick a part of it."""
_HELD_OUT_FOLDER = regex.compile(r"(val|valid|validation|test|eval)_?(dir|root|path|folder)$", re.IGNORECASE)
"""``valdir``, in one word."""
_APPLIES = ("map", "map_tuple", "map_dict")


@dataclass(frozen=True, slots=True)
class ImageSet:
    """The call that makes a data set or has its images decoded, what to call it, and what it does."""

    call: ast.Call
    name: str
    does: str


def image_sets(module: ModuleIndex, project: Project) -> Iterator[ImageSet]:
    """The data sets of a module that are made for training."""
    if is_held_out(module.path.stem) and not project.fact(LoopContexts).has_training_step(module):
        return  # a program that only evaluates
    yield from _of_torchvision(module, project)
    yield from _of_keras(module)
    yield from _of_webdataset(module, project)
    yield from _of_monai(module, project)


def _of_torchvision(module: ModuleIndex, project: Project) -> Iterator[ImageSet]:
    """``ImageFolder(traindir, transform=Compose([RandomResizedCrop(224), ...]))``."""
    for name, calls in sorted(module.calls_by_name.items()):
        for call in calls:
            if not _is_image_set(module, project, name, call) or _is_held_out(module, call):
                continue
            given = [*project.fact(Arguments).of(module, call, "transform", 1).refs, *_set_later(module, call)]
            if any(resizes(ref.module, project, ref.node) for ref in given):
                yield ImageSet(call, name, f"{name} decodes and transforms its images one by one on the CPU")


def _is_image_set(module: ModuleIndex, project: Project, name: str, call: ast.Call) -> bool:
    """Return whether a call makes one of torchvision's data sets, or of a class of the module that inherits one and
    leaves it to that how samples are made."""
    if name in IMAGE_SETS and any(
        full.startswith(_TORCHVISION) for full in project.fact(Resolver).call_names(module, call)
    ):
        return True
    owner = module.classes_by_name.get(name)
    if owner is None or any(isinstance(part, FUNCTIONS) and part.name == "__getitem__" for part in owner.body):
        return False
    return any(
        isinstance(base, ast.Attribute | ast.Name)
        and last_name(base) in IMAGE_SETS
        and any(full.startswith(_TORCHVISION) for full in project.fact(Resolver).names(module, base))
        for base in owner.bases
    )


def _of_keras(module: ModuleIndex) -> Iterator[ImageSet]:
    name = "ImageDataGenerator"
    for call in module.calls_by_name.get(name, []):
        augments = [
            keyword.arg
            for keyword in call.keywords
            if keyword.arg not in ("rescale", "validation_split", "dtype", "data_format")
        ]
        from_files = {"flow_from_directory", "flow_from_dataframe"} & module.calls_by_name.keys()
        if augments and from_files and not _is_held_out(module, call):
            yield ImageSet(call, name, f"{name} decodes and augments images in Python threads")


def _of_webdataset(module: ModuleIndex, project: Project) -> Iterator[ImageSet]:
    """``wds.decode("pil")`` in a function that hands a transform to ``map_tuple``."""
    for call in module.calls_by_name.get("decode", []) if "webdataset" in module.syntax.source.text else ():
        match call.args[:1]:
            case [ast.Constant(value=str(images))] if images and _DECODES.match(images):
                pass
            case _:
                continue
        function = module.function(call)
        if _is_held_out(module, call) or (function is not None and is_held_out(function.name)):
            continue
        applied = [
            NodeRef(module, part)
            for method in _APPLIES
            for applies in module.calls_by_name.get(method, [])
            if module.function(applies) is function
            for part in (*applies.args, *(keyword.value for keyword in applies.keywords))
        ]
        if any(resizes(ref.module, project, ref.node) for ref in applied):
            yield ImageSet(call, "decode", "webdataset decodes and transforms images one by one on the CPU")


def _of_monai(module: ModuleIndex, project: Project) -> Iterator[ImageSet]:
    """``Dataset(files, Compose([LoadImaged("image"), Spacingd(...), RandFlipd(...)]))``, without a cache."""
    resolver = project.fact(Resolver)
    for call in module.calls_by_name.get("Dataset", []):
        if not any(name.startswith("monai.data.") for name in resolver.call_names(module, call)):
            continue
        given = project.fact(Arguments).of(module, call, "transform", 1).refs
        steps = {
            last_name(part.func)
            for ref in given
            for made in resolver.points_to(ref.module, ref.node)
            if isinstance(made.node, ast.Call)
            for part in walk(made.node)
            if isinstance(part, ast.Call)
        }
        if steps & _LOADS and any(map(_WARPS.match, steps)) and not _is_held_out(module, call):
            yield ImageSet(call, "Dataset", "Dataset reads and transforms its volumes one by one on the CPU")


def _set_later(module: ModuleIndex, call: ast.Call) -> Iterator[NodeRef]:
    """``images.transform = Compose(...)`` after ``images = ImageFolder(root)``."""
    parent = module.syntax.parents.get(call)
    for target in parent.targets if isinstance(parent, ast.Assign) else ():
        for place, value, _ in module.stores.get(last_name(target), []):
            if value is not None and ast.unparse(place) == f"{ast.unparse(target)}.transform":
                yield NodeRef(module, value)


def _is_held_out(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a data set is made for evaluation, by its variable or its arguments."""
    words: list[str] = []
    parent = module.syntax.parents.get(call)
    while isinstance(parent, ast.Call | ast.keyword):  # `val_loader = DataLoader(ImageFolder(root))`
        parent = module.syntax.parents.get(parent)
    if isinstance(parent, ast.Assign):
        words += [last_name(target) for target in parent.targets]
    for argument in [
        *call.args,
        *(keyword.value for keyword in call.keywords if keyword.arg in ("root", "split", "image_set")),
    ]:
        words += [part.id for part in walk(argument) if isinstance(part, ast.Name)]
        words += [part.attr for part in walk(argument) if isinstance(part, ast.Attribute)]
        words += [
            part.value for part in walk(argument) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
    return any(is_held_out(word) or _HELD_OUT_FOLDER.match(word) for word in words)
