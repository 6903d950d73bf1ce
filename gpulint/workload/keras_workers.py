"""Images that Keras has one thread decode and augment, as it does unless workers are set."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_FITS = frozenset({"fit", "fit_generator"})
_SPREADS = (b"workers", b"use_multiprocessing", b"from_generator")
"""Words of what has other threads or processes draw the batches, in calls of `fit` or of the constructor."""
_AFFINE = frozenset({"rotation_range", "width_shift_range", "height_shift_range", "shear_range", "zoom_range"})
"""Arguments of ``ImageDataGenerator`` for which SciPy resamples each image, channel by channel."""


def warps(generator: ast.Call) -> bool:
    """Return whether an ``ImageDataGenerator`` resamples each image."""
    return any(
        keyword.arg in _AFFINE and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
        for keyword in generator.keywords
    )


@query
def draws_in_one_thread(project: Project, module: ModuleIndex) -> bool:
    """Return whether a program trains with Keras on what a module makes, and neither sets workers."""
    paths = (module.path, *project.fact(GpuPrograms).users(module.path))
    if any(project.contains(path, word) for path in paths for word in _SPREADS):
        return False
    users = (project.module_at(path) for path in paths if project.contains(path, b"keras"))
    return any(user is not None and not _FITS.isdisjoint(user.calls_by_name) for user in users)


def is_sequence(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether a class makes batches for Keras: it inherits ``Sequence``, or ``PyDataset`` since Keras 3."""
    resolver = project.fact(Resolver)
    return any(
        "keras" in name and name.endswith((".Sequence", ".PyDataset"))
        for where, one in resolver.mro(module, owner)
        for base in one.bases
        if isinstance(base, ast.Name | ast.Attribute)
        for name in resolver.names(where, base)
    )
