"""fastai's ``DataLoaders``: one call makes the training and the validation batches (``ImageDataLoaders.from_folder``,
``DataBlock.dataloaders``).

Source: https://docs.fast.ai/vision.data.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.facts.scopes import ModuleScopes, last_name

_PACKAGES = frozenset({"fastai", "fastbook"})


def makes_batches(scopes: ModuleScopes, call: ast.Call) -> bool:
    """Does the call make fastai's ``DataLoaders``?"""
    func = call.func
    if not isinstance(func, ast.Attribute) or not _is_used(scopes):
        return False
    if func.attr in ("dataloaders", "databunch"):
        return True
    owner = last_name(func.value)
    return owner.endswith(("DataLoaders", "DataBunch")) and func.attr.startswith("from_")


def calls(scopes: ModuleScopes) -> Iterator[ast.Call]:
    """All calls of a module that make fastai's ``DataLoaders``."""
    if _is_used(scopes):
        yield from (call for call in scopes.calls if makes_batches(scopes, call))


def _is_used(scopes: ModuleScopes) -> bool:
    return not _PACKAGES.isdisjoint(scopes.packages)
