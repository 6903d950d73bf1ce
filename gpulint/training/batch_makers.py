"""Calls that make the training and the validation batches at once (fastai's ``ImageDataLoaders.from_folder``)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from gpulint import regex
from gpulint.libraries import Models
from gpulint.libraries.frameworks import BatchMaker
from gpulint.libraries.names import matches
from gpulint.workspace.module_index import ModuleIndex, last_name

_NO_BATCHES = regex.compile(
    r"^(add_argument|field|Option|option|print|dict|map|filter|map_batches)$|(dataset|sampler|config)$", re.IGNORECASE
)


@lru_cache(maxsize=10_000)
def takes_size_alone(name: str) -> bool:
    """Return whether calls of this name take a batch size without making batches."""
    return _NO_BATCHES.search(name) is not None


def makes_batches(models: Models, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the rows know the call as one that makes batches."""
    return any(_makes(row, call) for row in _used(models, module))


def calls(models: Models, module: ModuleIndex) -> Iterator[ast.Call]:
    """All such calls of a module."""
    rows = _used(models, module)
    yield from (call for call in module.calls if any(_makes(row, call) for row in rows)) if rows else ()


def _makes(row: BatchMaker, call: ast.Call) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute):
        return False
    return func.attr in row.methods or (
        matches(row.owners, (last_name(func.value),)) and matches(row.factories, (func.attr,))
    )


def _used(models: Models, module: ModuleIndex) -> list[BatchMaker]:
    return [row for row in models.rows("batch-maker") if not module.packages.isdisjoint(row.packages)]
