"""Parameters that set the batch size of one split (``eval_batch_size``), and whether functions of a tree have any."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import stored
from gpulint.workload.data_split import Split, split_of

if TYPE_CHECKING:
    from gpulint.project import Project

_SIZE = r"batch_?size|loader_(?:kwargs|opts|options|args)"
_SETS_SIZE = regex.compile(rf"(?:{_SIZE}|_bs$)", re.IGNORECASE)
_IN_WORD = regex.compile(rf"{_SIZE}|_bs\n".encode(), re.IGNORECASE)


@lru_cache(maxsize=10_000)
def sized_split(parameter: str) -> Split | None:
    """Return the split whose batch size a parameter sets; None if it sets none, or nobody can tell for which."""
    return split_of(parameter) if _SETS_SIZE.search(parameter) else None


@stored("functions take sizes of splits")
def takes_split_sizes(project: Project) -> bool:
    """Return whether a function of the tree has such a parameter; few files are parsed to find out."""
    files = project.word_index.like(_IN_WORD)
    return any(_has_split_sizes(project, path) for path in files if _may_have(project, path))


def _may_have(project: Project, path: Path) -> bool:
    vocabulary = project.word_index.vocabulary(path)
    for match in _IN_WORD.finditer(vocabulary):
        word = vocabulary[vocabulary.rfind(b"\n", 0, match.start()) + 1 : vocabulary.find(b"\n", match.end() - 1)]
        if sized_split(word.decode()) is not None:
            return True
    return False


@stored("functions of a file take sizes of splits")
def _has_split_sizes(project: Project, path: Path) -> bool:
    module = project.module_at(path)
    parameters = (
        parameter.arg
        for function in (module.functions if module is not None else ())
        for parameter in (*function.args.posonlyargs, *function.args.args)
    )
    return any(sized_split(parameter) is not None for parameter in parameters)
