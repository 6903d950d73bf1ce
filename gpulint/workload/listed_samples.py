"""How many samples a file of the tree lists, a line for each: ``for line in open("data/train.txt")``."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.folder_samples import MAX_DEPTH, is_filled, texts_of
from gpulint.workspace.module_index import NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workload.folder_samples import Given

_WRAPS = frozenset({"sorted", "list", "tuple", "set", "tqdm", "enumerate", "reader", "DictReader", "map"})
_PASSES_ON = frozenset(
    {"read", "readlines", "splitlines", "split", "strip", "rstrip", "tolist", "read_text", "iterrows"}
)
"""Methods of a file, of its text and of its table that leave a part for each line."""
_OPENS = frozenset({"open", "loadtxt", "genfromtxt", "read_csv", "read_table"})
_LISTS = regex.compile(r".+\.(txt|csv|tsv|lst|list)", re.IGNORECASE)
_DRIVE = regex.compile(r"[A-Za-z]:/")
_MAX_BYTES = 1_000_000
"""Most bytes of a list whose lines are counted; a longer one names no few samples."""
_STANDS_IN = b"version https://git-lfs"


def lines_of(project: Project, listing: NodeRef, given: Given = lambda ref: ref, depth: int = MAX_DEPTH) -> int | None:
    """Return the most lines of a file of the tree that an expression goes over, each of them a sample; None if the file
    is unknown, or is said to be filled later."""
    module, node = listing.module, listing.node

    def count(part: ast.expr) -> int | None:
        return lines_of(project, NodeRef(module, part), given, depth - 1)

    match node:
        case _ if not depth or listing.path:
            return None
        case ast.ListComp(generators=[one]):
            return count(one.iter)
        case ast.Call(func=func, args=[path, *_]) if last_name(func) in _OPENS:
            counts = [
                _count(project, module.path.parent, text) for text in texts_of(project, NodeRef(module, path), given)
            ]
            known = [one for one in counts if one is not None]
            return max(known) if known and len(known) == len(counts) else None
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _PASSES_ON:
            return count(inner)
        case ast.Call(func=func, args=[*_, inner]) if last_name(func) in _WRAPS:
            return count(inner)
        case ast.Name():
            origins = project.fact(Resolver).points_to(module, node)
            if len(origins) == 1 and origins[0].node is not node:
                return lines_of(project, origins[0], given, depth - 1)
    return None


@query
def _count(project: Project, start: Path, text: str) -> int | None:
    """Return how many lines that are not blank the file has that a path means in the tree."""
    path = _file(project, start, text.replace("\\", "/"))
    if path is None or is_filled(project, path.parent, path.suffix):
        return None
    data = project.data(path)
    if len(data) > _MAX_BYTES or data.startswith(_STANDS_IN):
        return None
    return sum(1 for line in data.splitlines() if line.strip()) or None


def _file(project: Project, start: Path, text: str) -> Path | None:
    """Return the file that a path means in a program which starts in its own folder or one above. A path of the
    author's own machine means the one file of that name in these folders and those in them."""
    path = PurePosixPath(text)
    if not _LISTS.fullmatch(path.name):
        return None
    if path.is_absolute() or _DRIVE.match(text):
        same = [one for one in _near(project, start) if one.name == path.name]
        return same[0] if len(same) == 1 else None
    while start.is_relative_to(project.root):
        if project.is_file(found := Path(os.path.normpath(start / text))):
            return found
        start = start.parent
    return None


@query
def _near(project: Project, start: Path) -> tuple[Path, ...]:
    """Return the lists in a folder, in those above it, and in what is right in them."""
    above = [one for one in (start, *start.parents) if one.is_relative_to(project.root)]
    inner = (one / name for one in above for name in sorted(project.entries(one)))
    folders = dict.fromkeys((*above, *(one for one in inner if project.is_dir(one))))
    named = (one / name for one in folders for name in sorted(project.entries(one)) if _LISTS.fullmatch(name))
    return tuple(one for one in named if project.is_file(one))
