"""Loops of Python over each point of a cloud or each pixel of an image, which have thousands of rounds."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

_POINTS = regex.compile(r"(^|_)(point_?cloud|pcd?|points?|point_?set|pts|xyz|normals?|vertices)(_|$)")
"""Names of arrays of points."""
_OTHERS = regex.compile(r"batch|box|key|corner|anchor|(^|_)(b|num|n)_")
"""Names of arrays with few rows: of several clouds, or of what is found in one."""
_OF_CLOUDS = regex.compile(r"[Pp]oint[ _]?[Cc]loud|point_set|ModelNet|ShapeNet|S3DIS|ScanNet|[Ll]idar|LiDAR")
"""Words of modules whose points are many; those of a polygon are few."""
_FARTHEST = regex.compile(r"farthest_?point|furthest_?point|(^|_)fps(_|$)", re.IGNORECASE)
"""Functions that choose points by their distance from all that are chosen, one in each round."""
_IMAGES = regex.compile(r"(^|_)(img|image|mask|depth|label_?map|gray|grey|rgb|pixels?|seg|frame)\d?(_|$)")


def goes_through_elements(module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop has a round for each point of a cloud (``for i in range(points.shape[0])``), for each that
    is chosen by its distance from the others, or for each pixel of an image."""
    if not isinstance(loop, ast.For):
        return False
    if _is_of_each(module, loop, 0, _POINTS) and _computes(loop) and regex.occurs(_OF_CLOUDS, _text(module)):
        return True
    if _chooses_farthest(module, loop):
        return True
    inner = [part for part in loop.body if isinstance(part, ast.For)]
    return any(
        _is_of_each(module, loop, axis, _IMAGES) and _is_of_each(module, one, 1 - axis, _IMAGES)
        for one in inner
        for axis in (0, 1)
    )


def _text(module: ModuleIndex) -> str:
    return module.syntax.source.text


def _computes(loop: ast.For) -> bool:
    """Return whether each round calls something or computes."""
    return any(isinstance(part, ast.Call | ast.BinOp) for statement in loop.body for part in walk(statement))


def _chooses_farthest(module: ModuleIndex, loop: ast.For) -> bool:
    function = module.function(loop)
    if not isinstance(function, FUNCTIONS) or not _FARTHEST.search(function.name) or _counted(loop) is None:
        return False
    return any(
        isinstance(part, ast.Call) and last_name(part.func) in ("argmax", "max")
        for statement in loop.body
        for part in walk(statement)
    )


def _counted(loop: ast.For) -> ast.expr | None:
    """``n`` of ``for i in range(n)``, ``range(0, n)`` and ``tqdm(range(n))``"""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[count]):
            return count
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=0 | 1), count]):
            return count
    return None


def _is_of_each(module: ModuleIndex, loop: ast.For, axis: int, names: re.Pattern[str]) -> bool:
    """Return whether a loop counts to the length of an array with such a name along an axis."""
    count = _counted(loop)
    if isinstance(count, ast.Name):
        return _is_length(module, count, axis, names)
    return count is not None and _of_array(count, axis, names)


def _is_length(module: ModuleIndex, count: ast.Name, axis: int, names: re.Pattern[str]) -> bool:
    """Return whether a name is all that such a length is set to (``height, width = mask.shape``)."""
    bindings = module.scope(count).lookup(count.id)
    if len(bindings) != 1 or (value := bindings[0].value) is None:
        return False
    if not bindings[0].path:
        return _of_array(value, axis, names)
    match value:
        case ast.Attribute(value=array, attr="shape") | ast.Subscript(value=ast.Attribute(value=array, attr="shape")):
            return bindings[0].path == (axis,) and _is_called(array, names)
        case ast.Attribute(value=array, attr="size"):  # of Pillow: width and height
            return names is _IMAGES and bindings[0].path == (1 - axis,) and _is_called(array, names)
    return False


def _of_array(length: ast.expr, axis: int, names: re.Pattern[str]) -> bool:
    match length:
        case ast.Subscript(value=ast.Attribute(value=array, attr="shape"), slice=ast.Constant(value=number)):
            return number == axis and _is_called(array, names)
        case ast.Call(func=ast.Name(id="len"), args=[array]):
            return axis == 0 and names is _POINTS and _is_called(array, names)
    return False


def _is_called(array: ast.expr, names: re.Pattern[str]) -> bool:
    name = last_name(array).lower()
    return bool(names.search(name)) and not _OTHERS.search(name)
