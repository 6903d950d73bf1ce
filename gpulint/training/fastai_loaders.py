"""fastai's ``DataLoaders``: one call makes the training and the validation batches (``ImageDataLoaders.from_folder``,
``DataBlock.dataloaders``).

Source: https://docs.fast.ai/vision.data.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.workspace.module_index import ModuleIndex, last_name

_PACKAGES = frozenset({"fastai", "fastbook"})


def makes_batches(module: ModuleIndex, call: ast.Call) -> bool:
    """Does the call make fastai's ``DataLoaders``?"""
    func = call.func
    if not isinstance(func, ast.Attribute) or not _is_used(module):
        return False
    if func.attr in ("dataloaders", "databunch"):
        return True
    owner = last_name(func.value)
    return owner.endswith(("DataLoaders", "DataBunch")) and func.attr.startswith("from_")


def calls(module: ModuleIndex) -> Iterator[ast.Call]:
    """All calls of a module that make fastai's ``DataLoaders``."""
    if _is_used(module):
        yield from (call for call in module.calls if makes_batches(module, call))


def _is_used(module: ModuleIndex) -> bool:
    return not _PACKAGES.isdisjoint(module.packages)
