"""Parameters that set the batch size of one split (``eval_batch_size``), and which functions of a tree have one."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import stored
from gpulint.workload.data_split import Split, split_of
from gpulint.workspace.module_index import FunctionNode, ModuleIndex
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

ANY = "*"
"""Stands for a callable of any name."""
_SIZE = r"batch_?size|loader_(?:kwargs|opts|options|args)"
_SETS_SIZE = regex.compile(rf"(?:{_SIZE}|_bs$)", re.IGNORECASE)
_IN_WORD = regex.compile(rf"{_SIZE}|_bs\n".encode(), re.IGNORECASE)


@lru_cache(maxsize=10_000)
def sized_split(parameter: str) -> Split | None:
    """Return the split whose batch size a parameter sets; None if it sets none, or nobody can tell for which."""
    return split_of(parameter) if _SETS_SIZE.search(parameter) else None


@stored("callables that take sizes of splits")
def split_size_takers(project: Project) -> tuple[str, ...]:
    """Return what calls name that may reach a function of the tree with such a parameter: functions, and classes whose
    constructors have one; :data:`ANY` if that may be anything. Few files are parsed to find out."""
    files = project.word_index.like(_IN_WORD)
    found = {name for path in files if _may_have(project, path) for name in _takers(project, path)}
    return tuple(sorted(found))


def _may_have(project: Project, path: Path) -> bool:
    vocabulary = project.word_index.vocabulary(path)
    for match in _IN_WORD.finditer(vocabulary):
        word = vocabulary[vocabulary.rfind(b"\n", 0, match.start()) + 1 : vocabulary.find(b"\n", match.end() - 1)]
        if sized_split(word.decode()) is not None:
            return True
    return False


@stored("callables of a file that take sizes of splits")
def _takers(project: Project, path: Path) -> tuple[str, ...]:
    module = project.module_at(path)
    names = (
        _called(project, module, function)
        for function in (module.functions if module is not None else ())
        if any(sized_split(arg.arg) is not None for arg in (*function.args.posonlyargs, *function.args.args))
    )
    return tuple(dict.fromkeys(names))


def _called(project: Project, module: ModuleIndex, function: FunctionNode) -> str:
    """The name under which a function is called."""
    owner = module.syntax.parents.get(function)
    if not isinstance(owner, ast.ClassDef) or (not function.name.startswith("__") and function.name != "forward"):
        return function.name
    inherited = function.name != "__init__" or project.word_index.subclass_files(word_of(owner.name))
    return ANY if inherited else owner.name
