"""Parameters that set the batch size of one split (``eval_batch_size``), and which functions of a tree have one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query, stored
from gpulint.workload.data_split import Split, split_of
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

ANY = "*"
"""Stands for a callable of any name."""
BATCH_PARAMETERS = ("batch_size", "bsz", "batchsize", "bs", "batch_sz", "minibatch_size", "mini_batch_size")
_SIZE = r"batch_?size|loader_(?:kwargs|opts|options|args)"
_SETS_SIZE = regex.compile(rf"(?:{_SIZE}|_bs$)", re.IGNORECASE)
_IN_WORD = regex.compile(rf"{_SIZE}|_bs\n".encode(), re.IGNORECASE)


@lru_cache(maxsize=10_000)
def sized_split(parameter: str) -> Split | None:
    """Return the split whose batch size a parameter sets; None if it sets none, or nobody can tell for which."""
    return split_of(parameter) if _SETS_SIZE.search(parameter) else None


def may_take_size(project: Project, module: ModuleIndex, call: ast.Call, *, of_split: bool) -> bool:
    """Return whether what a call names may be a function of the tree with such a parameter, or with one of
    :data:`BATCH_PARAMETERS`. Most calls name none, and nobody need find out what they call."""
    takers = _in_module(project, module, of_split)
    return last_name(call.func) in takers or ANY in takers


@query
def _in_module(project: Project, module: ModuleIndex, of_split: bool) -> frozenset[str]:
    """The names of these functions, and what else the module calls them."""
    names = frozenset(_all_takers(project, of_split))
    return names.union(*(found for name, found in module.aliases.items() if name in names))


@stored("callables that take batch sizes")
def _all_takers(project: Project, of_split: bool) -> tuple[str, ...]:
    """Return what calls of these functions name; few files are parsed to find out."""
    words = project.word_index
    if of_split:
        files = [path for path in words.like(_IN_WORD) if _may_have(project, path)]
    else:
        files = [path for name in BATCH_PARAMETERS for path in words.mentioning(word_of(name))]
    return tuple(sorted({name for path in files for name in _takers(project, path, of_split)}))


def _may_have(project: Project, path: Path) -> bool:
    vocabulary = project.word_index.vocabulary(path)
    for match in _IN_WORD.finditer(vocabulary):
        word = vocabulary[vocabulary.rfind(b"\n", 0, match.start()) + 1 : vocabulary.find(b"\n", match.end() - 1)]
        if sized_split(word.decode()) is not None:
            return True
    return False


@stored("callables of a file that take batch sizes")
def _takers(project: Project, path: Path, of_split: bool) -> tuple[str, ...]:
    module = project.module_at(path)
    found: dict[str, None] = {}
    for function in module.functions if module is not None else ():
        names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        if any(sized_split(name) is not None if of_split else name in BATCH_PARAMETERS for name in names):
            assert module is not None
            found |= dict.fromkeys(_called(project, module.syntax.parents.get(function), function.name))
    return tuple(found)


def _called(project: Project, owner: ast.AST | None, name: str) -> Iterable[str]:
    """Return what calls of a function, perhaps a method, name."""
    if not isinstance(owner, ast.ClassDef):
        return (name,)
    if name == "__init__":
        return (name, *_with_subclasses(project, owner.name))
    # A model runs on a batch, and makes none.
    return {"__call__": (ANY,), "forward": ()}.get(name, (name,))


def _with_subclasses(project: Project, owner: str) -> list[str]:
    """A class, and those that by their names derive from it."""
    found = [owner]
    for name in found:
        subclasses = (subclass.decode() for _, subclass in project.word_index.subclasses(word_of(name)))
        found += [subclass for subclass in dict.fromkeys(subclasses) if subclass not in found]
    return found
