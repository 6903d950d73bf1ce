"""Which TensorFlow a program may run on: newer ones prepare and map samples ahead by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.numerals import whole
from gpulint.programs.package_lists import lists_above
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

MAPS_IN_PARALLEL = (2, 7)
"""From this release on, maps of functions without a state run on all cores.

https://www.tensorflow.org/versions/r2.7/api_docs/python/tf/data/experimental/OptimizationOptions
"""
PREFETCHES = (2, 12)
"""From this release on, a pipeline that ends in a synchronous step is prefetched.

https://www.tensorflow.org/versions/r2.12/api_docs/python/tf/data/experimental/OptimizationOptions
"""
AUTOTUNE = (2, 4)
"""The first release with ``tf.data.AUTOTUNE``."""
TUNES = (1, 13)
"""The first release with ``tf.data.experimental.AUTOTUNE``."""

Release = tuple[int, int]

_FIRST = regex.compile(
    r"\b(?:tf|tensorflow)\.(?:contrib|placeholder|(?:Interactive)?Session|ConfigProto|get_variable|variable_scope|app\.run"
    r"|flags\.|global_variables_initializer|enable_eager_execution|train\.\w+(?:Optimizer|Session))\b"
)
"""Names that only TensorFlow 1 has."""
_PIN = regex.compile(
    r"tensorflow(?<![\w-]tensorflow)(?:-gpu|-cpu|_gpu|-macos)?(?:\[[\w,-]+\])?[\"' ]*(?P<how>==|~=|<=|<|=|:)[\"' ]*"
    r"v?(?P<major>\d)(?:\.(?P<minor>\d+))?"
)
"""``tensorflow-gpu==2.3``, ``tensorflow<2.11``, ``FROM tensorflow/tensorflow:2.4.1-gpu``."""


def release(project: Project, module: ModuleIndex) -> Release | None:
    """The newest TensorFlow that the module itself, or the nearest list of packages above it, allows; None if neither
    says."""
    text = module.syntax.source.text
    newest = (1, 15) if regex.occurs(_FIRST, text) else (9, 0)
    if (found := _pinned(text)) is None:
        pinned = (_pinned_in(project, path) for lists in lists_above(project, module.path) for path in lists)
        found = next((found for found in pinned if found is not None), None)
    if found is None:
        return newest if newest < (2, 0) else None
    return min(found, newest)


_CUDA = regex.compile(rb"(?i)\bcuda(?:[-_]?toolkit)?(?:/|-|:|==?)v?(?P<major>\d{1,2})\.\d{1,2}(?!\w)")
"""``module load cuda/10.0``, ``cudatoolkit=10.1``, ``FROM nvidia/cuda:9.0-cudnn7``, ``/usr/local/cuda-10.0``."""
_OLD_CUDA = 11
"""The first CUDA of a TensorFlow with ``tf.data.AUTOTUNE``: https://www.tensorflow.org/install/source#gpu"""


@query
def loads_old(project: Project) -> bool:
    """Return whether the jobs and images of the tree hold only releases of CUDA that no TensorFlow with
    ``tf.data.AUTOTUNE`` is built for."""
    texts = (path for path in project.files if project.kind(path) is not Kind.PYTHON and path.suffix != ".ipynb")
    found = {int(match["major"]) for path in texts for match in _CUDA.finditer(project.data(path))}
    return bool(found) and max(found) < _OLD_CUDA


@query
def _pinned_in(project: Project, path: Path) -> Release | None:
    return _pinned(project.data(path).decode("utf-8", "replace"))


def _pinned(text: str) -> Release | None:
    found = _PIN.search(text)
    if found is None:
        return None
    major, minor = whole(found["major"]), whole(found["minor"] or "0")
    if major is None or minor is None:
        return None
    if found["how"] == "<":
        return (major, minor - 1) if minor else (major - 1, 99)
    return (major, minor) if found["minor"] or found["how"] != "~=" else None
