"""Images in the code of a data set: how large what an expression holds is, as far as each step is understood."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulint.assessment.image_shapes import Image, pair, square
from gpulint.assessment.image_transforms import transformed
from gpulint.documents.call_syntax import keyword_value, passed_as
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_STEPS = 16
"""Most steps that an image is followed back."""
_KEEPS = frozenset(
    "array asarray ascontiguousarray copy contiguous from_numpy as_tensor tensor clone transpose permute fromarray "
    "div mul sub div_ sub_ mul_ clip clamp".split()
)
"""What keeps the numbers of an image."""
_FLOATS = frozenset({"np.float32", "numpy.float32", "torch.float32", "torch.float", "'float32'"})
_UNKNOWN = Image()


@dataclass(frozen=True, slots=True)
class Getter:
    """The code that makes a sample: its module, and the class of the data set."""

    project: Project
    module: ModuleIndex
    owner: ast.ClassDef


def image_of(getter: Getter, value: ast.expr, steps: int = _STEPS) -> Image | None:
    """Return what is known of the image that an expression holds; None where it is not seen to be one."""
    if not steps:
        return None
    match value:
        case ast.Name(id=name):
            bound = reaching(getter.module, getter.module.scope(value).lookup(name), value)
            if not all(one.kind is BindingKind.ASSIGN and one.value is not None and not one.path for one in bound):
                return None
            return _same([image_of(getter, one.value, steps - 1) for one in bound if one.value is not None])
        case ast.IfExp(body=first, orelse=second):
            return _same([image_of(getter, first, steps - 1), image_of(getter, second, steps - 1)])
        case ast.BinOp(left=image, op=ast.Div() | ast.Mult() | ast.Sub() | ast.Add(), right=ast.Constant()):
            made = image_of(getter, image, steps - 1)
            return made.of_numbers(made.item if made.item != 1 else 0) if made is not None else None
        case ast.Subscript(value=made, slice=ast.Constant(value="image")):
            return _augmented(getter, made, steps - 1)
        case ast.Call():
            return _of_call(getter, value, steps - 1)
    return None


def _same(found: Sequence[Image | None]) -> Image | None:
    """Return what all values that an expression may have are; if there are others, none of Pillow, which no batch can
    hold."""
    kept = [one for one in found if one is None or not one.loaded] or found
    return kept[0] if kept and all(one == kept[0] for one in kept) else None


def _augmented(getter: Getter, made: ast.expr, steps: int) -> Image | None:
    """``self.transform(image=image)["image"]``, as Albumentations gives images back"""
    if isinstance(made, ast.Name):
        bound = reaching(getter.module, getter.module.scope(made).lookup(made.id), made)
        made = bound[0].value if len(bound) == 1 and bound[0].value is not None and not bound[0].path else made
    given = keyword_value(made, "image") if isinstance(made, ast.Call) else None
    if not isinstance(made, ast.Call) or given is None:
        return None
    return transformed(getter.project, getter.module, made.func, image_of(getter, given, steps) or _UNKNOWN)


def _of_call(getter: Getter, call: ast.Call, steps: int) -> Image | None:
    resolver = getter.project.fact(Resolver)
    names = resolver.call_names(getter.module, call)
    if (loaded := _loaded(call, names)) is not None:
        return loaded
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    name = last_name(call.func)
    first = call.args[0] if call.args else None
    if isinstance(owner, ast.Name) and owner.id == "self" and first is not None:
        return _by_attribute(getter, call, first, steps)
    if "cv2.resize" in names and first is not None:
        return _resized(getter, first, _turned(pair(getter.project, getter.module, passed_as(call, "dsize", 1))), steps)
    if name == "resize" and owner is not None and first is not None and len(call.args) <= len(("size", "filter")):
        image = image_of(getter, owner, steps)
        size = _turned(pair(getter.project, getter.module, first))
        return image.sized(size) if image is not None and image.loaded else None
    if any(one.startswith("torchvision.transforms") for one in names) and first is not None:
        return _functional(getter, call, first, name, steps)
    if isinstance(call.func, ast.Name) and first is not None and len(call.args) == 1 and name not in _KEEPS:
        return _by_attribute(getter, call, first, steps)
    return _converted(getter, call, name, names, steps)


def _turned(size: tuple[int, int] | None) -> tuple[int, int] | None:
    """Height and width of a size that OpenCV and Pillow take the other way round."""
    return (size[1], size[0]) if size is not None else None


def _loaded(call: ast.Call, names: frozenset[str]) -> Image | None:
    if "PIL.Image.open" in names:
        return Image(item=1, loaded=True)
    if "cv2.imread" in names:
        return Image(channels=3 if len(call.args) == 1 and not call.keywords else 0, item=1)
    return None


def _resized(getter: Getter, value: ast.expr, size: tuple[int, int] | None, steps: int) -> Image:
    return (image_of(getter, value, steps) or _UNKNOWN).sized(size)


def _by_attribute(getter: Getter, call: ast.Call, given: ast.expr, steps: int) -> Image | None:
    """``self.transform(image)``; the transform may need no image that is known."""
    image = image_of(getter, given, steps)
    return transformed(getter.project, getter.module, call.func, image or _UNKNOWN)


def _functional(getter: Getter, call: ast.Call, given: ast.expr, name: str, steps: int) -> Image | None:
    image = image_of(getter, given, steps)
    if image is None:
        return None
    match name:
        case "to_tensor":
            return image.of_numbers(4)
        case "pil_to_tensor" | "to_image":
            return image.of_numbers(image.item)
        case "resize":
            return image.sized(pair(getter.project, getter.module, passed_as(call, "size", 1)))
        case "center_crop":
            return image.sized(square(getter.project, getter.module, passed_as(call, "output_size", 1)))
        case "hflip" | "vflip" | "to_pil_image" | "adjust_brightness" | "adjust_contrast":
            return image
        case "normalize":
            return image.of_numbers(4)
    return None


def _converted(getter: Getter, call: ast.Call, name: str, names: frozenset[str], steps: int) -> Image | None:
    """Return what a call makes of an image that it gets, or whose method it is."""
    is_function = any(one.startswith(("numpy.", "torch.", "cv2.", "PIL.")) for one in names)
    given = call.args[0] if is_function and call.args else getattr(call.func, "value", None)
    image = image_of(getter, given, steps) if isinstance(given, ast.expr) else None
    if name == "convert" and call.args and isinstance(call.args[0], ast.Constant):
        channels = {"RGB": 3, "L": 1}.get(str(call.args[0].value), 0)
        return dataclasses.replace(image or Image(item=1), channels=channels, loaded=True)
    if image is None:
        return None
    told = [ast.unparse(one) for one in (*call.args[:1], *(keyword.value for keyword in call.keywords))]
    if name == "float" or (name in ("astype", "to", "type") and told and told[0] in _FLOATS):
        return image.of_numbers(4)
    if name == "cvtColor":
        grey = len(call.args) > 1 and ast.unparse(call.args[1]).endswith("2GRAY")
        return dataclasses.replace(image, channels=1 if grey else image.channels)
    if name not in _KEEPS:
        return None
    if name == "fromarray":
        return dataclasses.replace(image, loaded=True)
    dtype = keyword_value(call, "dtype")
    item = image.item if dtype is None else 4 if ast.unparse(dtype) in _FLOATS else 0
    return image.of_numbers(item)
