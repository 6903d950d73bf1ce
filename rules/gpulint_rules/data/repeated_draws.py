"""Samples that a data set takes twice from another one, which decodes them each time: ``self.rows[i]["image"]`` and
``self.rows[i]["label"]``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.inner_sets import GETTERS
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.workload.library_sets import of_library
from gpulint.workspace.module_index import ModuleIndex, NodeRef
from gpulint_rules.data.exclusive_branches import exclude

_KEY = regex.compile(r"(^|_)(image|img|picture|photo|audio|speech|video|jpe?g|png)s?(_|$|\d)", re.IGNORECASE)
"""Columns of Hugging Face's data sets that are decoded when a row is read."""
_LOADS = frozenset({"datasets.load_dataset", "datasets.load_from_disk", "datasets.load.load_dataset"})
_DECODES = frozenset({"image", "audio", "video", "volume"})
"""Kinds of data sets of libraries that decode a file for each sample."""
_STEPS = 4
"""Most expressions that a data set is followed through."""


@dataclass(frozen=True, slots=True)
class RepeatedDraw:
    """The uses of one sample in a method, the first one first."""

    method: ast.FunctionDef
    uses: tuple[ast.Subscript, ...]
    text: str


def repeated_draws(project: Project, module: ModuleIndex) -> Iterator[RepeatedDraw]:
    """Yield the samples of a module that a method of a data set takes several times, for different parts."""
    for method in module.functions:
        if method.name not in GETTERS or not isinstance(method, ast.FunctionDef) or module.class_of(method) is None:
            continue
        taken: dict[str, list[ast.Subscript]] = {}
        for part in walk(method):
            if _is_drawn(module, part):
                assert isinstance(part, ast.Subscript)
                taken.setdefault(ast.unparse(part), []).append(part)
        for text, uses in taken.items():
            uses.sort(key=lambda use: (use.lineno, use.col_offset))
            uses = [use for use in uses if use is uses[0] or not exclude(module, uses[0], use)]
            if _is_repeated(module, method, uses) and _decodes(project, module, uses):
                yield RepeatedDraw(method, tuple(uses), text)


def _is_drawn(module: ModuleIndex, part: ast.AST) -> bool:
    """``self.rows[index]`` of ``self.rows[index]["image"]``"""
    match part:
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), slice=ast.Name(), ctx=ast.Load()):
            return _key(module, part) is not None
    return False


def _key(module: ModuleIndex, use: ast.AST) -> str | int | None:
    match module.syntax.parents.get(use):
        case ast.Subscript(value=value, slice=ast.Constant(value=str() | int() as key), ctx=ast.Load()):
            return key if value is use else None
    return None


def _is_repeated(module: ModuleIndex, method: ast.FunctionDef, uses: list[ast.Subscript]) -> bool:
    """Return whether a sample is surely taken twice: for different parts (two views of one part may be meant), by an
    index that nothing sets in between."""
    index = uses[0].slice
    assert isinstance(index, ast.Name)
    sets = [name for name in walk(method) if isinstance(name, ast.Name) and name.id == index.id]
    keys = [_key(module, use) for use in uses]
    return (
        len(uses) > 1
        and len(set(keys)) == len(keys)
        and not any(isinstance(name.ctx, ast.Store) and name.lineno >= uses[0].lineno for name in sets)
    )


def _decodes(project: Project, module: ModuleIndex, uses: list[ast.Subscript]) -> bool:
    """Return whether a data set of a library decodes a file each time: rows with a column of images or sounds, or a
    folder of images."""
    made = list(_origins(project, NodeRef(module, uses[0].value)))
    if not made:
        return False
    keys = [key for use in uses if isinstance(key := _key(module, use), str)]
    of_rows = bool(keys) and any(map(_KEY.search, keys))
    return all(
        (of_rows and not _LOADS.isdisjoint(project.fact(Resolver).call_names(one.module, one.node)))
        or (not keys and not _DECODES.isdisjoint(of_library(project, one)))
        for one in made
        if isinstance(one.node, ast.Call)
    )


def _origins(project: Project, node: NodeRef, steps: int = _STEPS) -> Iterator[NodeRef]:
    """Yield the calls that make a data set, also of its splits and of what its methods return: ``sets["train"]``."""
    for ref in project.fact(Resolver).points_to(node.module, node.node):
        match ref.node:
            case ast.Call(func=ast.Attribute(value=owner, attr="train_test_split" | "shuffle" | "select" | "filter")):
                yield from _origins(project, NodeRef(ref.module, owner), steps - 1) if steps else ()
            case ast.Subscript(value=owner, slice=ast.Constant(value=str())):
                yield from _origins(project, NodeRef(ref.module, owner), steps - 1) if steps else ()
            case ast.Call():
                yield ref
