"""What transforms make of an image: chains of torchvision and Albumentations in which each part is known."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gpulint.assessment.image_shapes import Image, number, pair, square
from gpulint.documents.call_syntax import passed_as
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LIBRARIES = ("torchvision.transforms", "albumentations")
_CHAINS = frozenset({"Compose", "Sequential"})
_CUTS = frozenset({"CenterCrop", "RandomCrop", "RandomResizedCrop", "RandomSizedCrop", "RandomSizedBBoxSafeCrop"})
_MAYBE = frozenset({"RandomApply", "RandomChoice", "RandomOrder", "OneOf", "SomeOf"})
"""What applies some of its parts."""
_KEEPS = frozenset(
    (
        "RandomHorizontalFlip RandomVerticalFlip ColorJitter RandomGrayscale RandomRotation RandomAffine RandomErasing "
        "RandomPerspective GaussianBlur RandomAdjustSharpness RandomAutocontrast RandomEqualize RandomSolarize "
        "RandomPosterize RandomInvert AutoAugment RandAugment TrivialAugmentWide AugMix ToPILImage ElasticTransform "
        "HorizontalFlip VerticalFlip Flip RandomBrightnessContrast HueSaturationValue ShiftScaleRotate Affine Blur "
        "MedianBlur MotionBlur GaussNoise CLAHE RandomGamma RGBShift CoarseDropout Cutout ToGray Sharpen Solarize "
        "ChannelShuffle ImageCompression Rotate Perspective GridDistortion OpticalDistortion ISONoise RandomFog "
        "RandomRain RandomShadow GlassBlur Equalize Posterize RandomToneCurve ChannelDropout Emboss Identity"
    ).split()
)
"""What keeps the size of an image."""
_MAX_DEPTH = 4
"""Most chains within each other."""
MOST = 4
"""Most chains that an attribute may hold."""


def transformed(
    project: Project, module: ModuleIndex, transform: ast.expr, image: Image, depth: int = _MAX_DEPTH
) -> Image | None:
    """Return what a transform makes of an image; None if a part of it is unknown, or it may be several that differ."""
    refs = project.fact(Resolver).points_to(module, transform)
    made = [ref for ref in refs if not (isinstance(ref.node, ast.Constant) and ref.node.value is None)]
    if not made or len(made) > MOST or depth <= 0:
        return None
    found = {_by_one(project, ref, image, depth) for ref in made}
    return found.pop() if len(found) == 1 else None


def _by_one(project: Project, ref: NodeRef, image: Image, depth: int) -> Image | None:
    call = ref.node
    if not isinstance(call, ast.Call):
        return None
    names = project.fact(Resolver).call_names(ref.module, call)
    name = last_name(call.func)
    if name in _CHAINS or name in _MAYBE:
        parts = _parts(project, ref.module, call)
        return _by_all(project, parts, image, depth, name in _CHAINS) if parts is not None else None
    if not any(one.startswith(_LIBRARIES) for one in names):
        return None
    if name in _KEEPS:
        return image
    if name == "Resize" or name in _CUTS:
        return _resized(project, ref.module, call, image)
    return _converted(project, ref.module, call, name, image)


def _parts(project: Project, module: ModuleIndex, call: ast.Call) -> list[NodeRef] | None:
    """The parts of a chain, as far as it is a literal."""
    given = passed_as(call, "transforms", 0)
    if last_name(call.func) == "Sequential":
        return [NodeRef(module, part) for part in call.args]
    refs = project.fact(Resolver).points_to(module, given) if given is not None else ()
    if len(refs) != 1 or not isinstance(refs[0].node, ast.List | ast.Tuple):
        return None
    return [NodeRef(refs[0].module, part) for part in refs[0].node.elts]


def _by_all(project: Project, parts: list[NodeRef], image: Image, depth: int, in_turn: bool) -> Image | None:
    """Return what a chain makes of an image, or what each of several parts leaves as it is."""
    found: Image | None = image
    for part in parts:
        if not isinstance(part.node, ast.expr) or found is None:
            return None
        made = transformed(project, part.module, part.node, found, depth - 1)
        if not in_turn and made != image:
            return None
        found = made
    return found


def _resized(project: Project, module: ModuleIndex, call: ast.Call, image: Image) -> Image:
    """The image in the size that a transform gives it: of one number, a crop is a square, and the shorter side of what
    is resized gets it."""
    size = passed_as(call, "size", 0)
    height, width = passed_as(call, "height", 0), passed_as(call, "width", 1)
    both = number(project, module, height), number(project, module, width)
    if all(both) and not isinstance(size, ast.Tuple | ast.List):
        return image.sized(both)
    if last_name(call.func) != "Resize":
        return image.sized(square(project, module, size))
    is_square = bool(image.height) and image.height == image.width
    return image.sized(square(project, module, size) if is_square else pair(project, module, size))


def _converted(project: Project, module: ModuleIndex, call: ast.Call, name: str, image: Image) -> Image | None:
    match name:
        case "ToTensor" | "ToFloat":
            return image.of_numbers(4)
        case "PILToTensor" | "ToImage" | "ToImageTensor" | "ToTensorV2":
            return image.of_numbers(image.item)
        case "ConvertImageDtype" | "ToDtype" | "ConvertDtype":
            told = ast.unparse(call.args[0]) if call.args else ""
            return image.of_numbers(4 if told in ("torch.float", "torch.float32") else 0)
        case "Grayscale":
            given = passed_as(call, "num_output_channels", 0)
            return dataclasses.replace(image, channels=1 if given is None else number(project, module, given))
        case "Normalize":
            means = passed_as(call, "mean", 0)
            several = len(means.elts) if isinstance(means, ast.List | ast.Tuple) and len(means.elts) > 1 else 0
            channels = image.channels or several
            return dataclasses.replace(image, channels=channels, item=4, loaded=False)
    return None
