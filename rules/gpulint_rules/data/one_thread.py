"""What it costs that Keras has one thread prepare the batches, and what to do about it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.impact import Cost
from gpulint.workload.image_datasets import ImageSet
from gpulint.workload.item_work import ItemWorks
from gpulint.workload.keras_workers import draws_in_one_thread, is_sequence, warps
from gpulint.workload.sample_preprocessing import IMAGES, PreprocessingStep
from gpulint.workspace.module_index import ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

OF_GENERATOR = (
    "read the files with `image_dataset_from_directory` and `prefetch`, and augment them with Keras layers "
    "(`RandomRotation`, `RandomZoom`), which run on the GPU; before Keras 3, `workers=` of `fit` helps as well"
)
OF_SEQUENCE = (
    "prepare the batches in several workers: pass `workers=8, use_multiprocessing=True` to `fit`, or since Keras 3 to "
    "the constructor (`super().__init__(workers=8, use_multiprocessing=True)`)"
)
_READS = frozenset({"image", "video", "volume", "audio", "elastic", "each", "tokens"})
"""Kinds of work for a sample that take a millisecond or more."""
_COST = Cost("in-process-loading", basis="one thread of Python decodes and transforms images")


def of_call(project: Project, module: ModuleIndex, made: ImageSet) -> Cost | None:
    """Return what an ``ImageDataGenerator`` costs that resamples each image in the one thread that Keras starts;
    None for other data sets."""
    alone = made.name == "ImageDataGenerator" and warps(made.call) and draws_in_one_thread(project, module)
    return _COST if alone else None


def of_method(
    project: Project, module: ModuleIndex, owner: ast.ClassDef | None, heavy: PreprocessingStep
) -> Cost | None:
    """Return what the batches of a ``Sequence`` cost in the one thread that Keras starts; None for other classes.
    Images that are in memory, and only resampled there, cost little."""
    if owner is None or not is_sequence(project, module, owner) or not draws_in_one_thread(project, module):
        return None
    kinds = project.fact(ItemWorks).of_method(NodeRef(module, heavy.function), NodeRef(module, owner))
    if _READS.isdisjoint(kinds):
        return Cost("sample-work", basis=f"one thread of Python {heavy.work} that are in memory")
    return _COST if heavy.work == IMAGES else Cost(_COST.kind, basis=f"one thread of Python {heavy.work}")


def is_in_one_thread(project: Project, module: ModuleIndex, owner: ast.ClassDef | None) -> bool:
    """Return whether Keras has one thread make the batches of a class."""
    return owner is not None and is_sequence(project, module, owner) and draws_in_one_thread(project, module)
