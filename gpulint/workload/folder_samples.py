"""How many samples a data set finds in a folder of the tree: ``glob(os.path.join(root, "*.png"))``."""

from __future__ import annotations

import ast
import fnmatch
import os
import posixpath
import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.patterns import NamePatterns, readable
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workload.image_datasets import IMAGE_SETS
from gpulint.workspace.module_index import NodeRef, last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

    Given = Callable[[NodeRef], NodeRef]
    """What a call that makes an object passes for a name of its constructor, else the name itself."""

MAX_FILES = 2_000
"""Most files that are counted; a folder with more holds no few samples."""
_EXAMPLES = 4
"""Files of each class from which on they are a data set, and no examples of what belongs into its folders."""
MAX_DEPTH = 6
"""Most expressions that lead from a list of files to the text of a folder, and most folders below it."""
_WRAPS = frozenset({"sorted", "list", "tuple", "set", "natsorted", "tqdm"})
_LISTS = frozenset({"listdir", "scandir", "iterdir", "glob", "iglob", "rglob", "walk"})
_PATHS = frozenset({"Path", "PurePath", "str", "abspath", "realpath", "expanduser", "resolve", "as_posix"})
_FOLDERS = IMAGE_SETS & {"ImageFolder", "DatasetFolder"}
_ALL = "*"
_MODULES = frozenset({"os", "glob", "datasets", "torchvision", "tv"})
_MAGIC = regex.compile(r"[*?\[]")
_STANDS_IN = regex.compile(
    r"\.(git)?(keep|ignore|placeholder)|placeholder.*|\.dvc.*|.*\.(dvc|zip|tar|t?gz|7z|rar|parquet|tfrecords?|part)|readme.*|.*\.(md|txt)$",
    re.IGNORECASE,
)
"""Files that say that the samples come from elsewhere, or hold many."""
_NOTES = regex.compile(r"readme(\.\w{1,4})?", re.IGNORECASE)
_FILLS = regex.compile(r"download|unzip|extract|unpack|\bput\b|\bplace\b|\bcopy\b|\badd\b|organi[sz]e", re.IGNORECASE)


def files_of(project: Project, listing: NodeRef, given: Given = lambda ref: ref, depth: int = MAX_DEPTH) -> int | None:
    """Return the most files that an expression lists of a folder of the tree; None if that is unknown, or the folder
    is said to be filled later."""
    module, node = listing.module, listing.node

    def count(part: ast.expr) -> int | None:
        return files_of(project, NodeRef(module, part), given, depth - 1)

    match node:
        case _ if not depth or listing.path:
            return None
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = count(left), count(right)
            return first + second if first is not None and second is not None else None
        case ast.ListComp(generators=[one]):
            return count(one.iter)
        case ast.Call(func=ast.Name(id=name), args=[inner, *_]) if name in _WRAPS:
            return count(inner)
        case ast.Call(func=func) as call if last_name(func) in _LISTS or last_name(func) in _FOLDERS:
            return _of_call(project, NodeRef(module, call), call, given, depth)
        case ast.Attribute(value=ast.Name(id="self")) if (value := _property(module, node)) is not None:
            return count(value)
        case ast.Name():
            origins = project.fact(Resolver).points_to(module, node)
            if len(origins) == 1 and origins[0].node is not node:
                return files_of(project, origins[0], given, depth - 1)
    return None


def files_below(project: Project, loops: Sequence[ast.stmt], module: ModuleIndex, given: Given) -> int | None:
    """Return the most files that loops in each other go over, the inner one first, each of which lists a folder:
    ``for name in os.listdir(root): for file in os.listdir(os.path.join(root, name)):``, or which are ``os.walk``'s."""
    if not loops or not all(isinstance(loop, ast.For) for loop in loops):
        return None
    *inner, outer = (loop for loop in loops if isinstance(loop, ast.For))
    if not inner and (files := files_of(project, NodeRef(module, _without_numbers(outer.iter)), given)):
        return files
    listing = _listing(outer.iter)
    names = {part.id for part in walk(outer.target) if isinstance(part, ast.Name)}
    for loop in inner:
        walked = isinstance(loop.iter, ast.Name) and loop.iter.id in names
        if not _listing(loop.iter) and not (walked and listing is not None and last_name(listing.func) == "walk"):
            return None
    if listing is None:
        return None
    return _of_call(project, NodeRef(module, listing), listing, given, MAX_DEPTH, deep=True)


def _without_numbers(node: ast.expr) -> ast.expr:
    """``names`` of ``enumerate(names)``"""
    match node:
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]):
            return inner
    return node


def _property(module: ModuleIndex, node: ast.Attribute) -> ast.expr | None:
    """Return what a property of the class around returns, where that is all that it does."""
    owner = module.class_of(node)
    for method in owner.body if owner is not None else ():
        match method:
            case ast.FunctionDef(
                name=node.attr, decorator_list=[ast.Name(id="property")], body=[*_, ast.Return() as last]
            ):
                others = [one for one in method.body if one is not last and not _is_text(one)]
                return last.value if not others else None
    return None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _listing(node: ast.expr) -> ast.Call | None:
    """``os.listdir(root)`` of ``enumerate(sorted(os.listdir(root)))``"""
    while isinstance(node, ast.Call) and last_name(node.func) in (*_WRAPS, "enumerate") and node.args:
        node = node.args[0]
    return node if isinstance(node, ast.Call) and last_name(node.func) in _LISTS else None


def _of_call(
    project: Project, ref: NodeRef, call: ast.Call, given: Given, depth: int, *, deep: bool = False
) -> int | None:
    name, pattern, folder = last_name(call.func), _ALL, call.args[0] if call.args else None
    if isinstance(call.func, ast.Attribute) and last_name(call.func.value) not in _MODULES:
        folder = call.func.value  # of pathlib
        if call.args:
            match call.args[0]:
                case ast.Constant(value=str(pattern)):
                    pass
                case _:
                    return None
    elif (below := keyword_value(call, "root_dir")) is not None:
        match folder or keyword_value(call, "pathname"):
            case ast.Constant(value=str(pattern)):
                folder = below
            case _:
                return None
    elif folder is None:
        folder = keyword_value(call, "root")
    if folder is None:
        return None
    texts = texts_of(project, NodeRef(ref.module, folder), given, depth)
    deep = deep or name in (*_FOLDERS, "rglob", "walk")
    counts = [_count(project, ref, f"{text}/{pattern}" if pattern != _ALL else text, deep=deep) for text in texts]
    known = [count for count in counts if count is not None]
    return max(known) if known and len(known) == len(counts) else None


def texts_of(project: Project, ref: NodeRef, given: Given, depth: int = MAX_DEPTH) -> list[str]:
    """Return what the text of a path may be; empty if a part of it is unknown."""
    if not depth:
        return []
    parts: list[ast.expr]
    match ref.node:
        case (
            ast.BinOp(left=left, op=ast.Div() as step, right=right)
            | ast.BinOp(left=left, op=ast.Add() as step, right=right)
        ):
            parts, between = [left, right], "/" if isinstance(step, ast.Div) else ""
        case ast.Call(func=func, args=[_, *_] as parts, keywords=[]) if last_name(func) in ("join", *_PATHS):
            between = "/"
        case ast.JoinedStr(values=pieces):
            parts, between = [one.value if isinstance(one, ast.FormattedValue) else one for one in pieces], ""
        case ast.Attribute(value=ast.Name(id="self")) if (value := _property(ref.module, ref.node)) is not None:
            return texts_of(project, NodeRef(ref.module, value), given, depth - 1)
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            owner = ref.module.class_of(ref.node)
            kept = ref.module.attributes.get((owner, attr), ()) if owner is not None else ()
            values = [one.value for one in kept]
            if len(values) != 1 or values[0] is None:
                return []
            return texts_of(project, NodeRef(ref.module, values[0]), given, depth - 1)
        case _:
            passed = given(ref)
            known = project.fact(Constants).of(passed.module, passed.node)
            texts = [value for value in known.constants if isinstance(value, str)]
            return texts if known.complete and len(texts) == len(known.constants) else []
    found = [texts_of(project, NodeRef(ref.module, part), given, depth - 1) for part in parts]
    return [between.join(one) for one in product(*found)] if all(len(one) == 1 for one in found) else []


def _count(project: Project, ref: NodeRef, text: str, *, deep: bool) -> int | None:
    """Return the files that a path with wildcards names in the tree."""
    parts = posixpath.normpath(text).split("/")
    if text.startswith(("/", "~")) or ".." in parts:
        return None
    fixed = next((at for at, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    below, pattern = parts[fixed:], parts[-1] if fixed < len(parts) else _ALL
    if not fixed:
        return None  # files of wherever the program is started
    folder = _folder(project, ref.module.path.parent, parts[:fixed])
    files = _files(project, folder, MAX_DEPTH if deep or len(below) > 1 else 1) if folder is not None else None
    if folder is None or not files or is_filled(project, folder, files[0].suffix):
        return None
    folders = {path.parent for path in files}
    if len(folders) > 1 and len(files) < _EXAMPLES * len(folders):
        return None
    return sum(1 for path in files if fnmatch.fnmatchcase(path.name, pattern))


def _folder(project: Project, start: Path, parts: list[str]) -> Path | None:
    """Return the folder of the tree that a path means in a program that starts in its own folder or one above."""
    while True:
        folder = Path(os.path.normpath(start.joinpath(*parts)))
        if folder != project.root and project.is_dir(folder):
            return folder
        if start == project.root or not start.is_relative_to(project.root):
            return None
        start = start.parent


@query
def _files(project: Project, folder: Path, depth: int) -> tuple[Path, ...] | None:
    """Return the files of a folder and of those in it; None if there are too many or others are to come."""
    found, folders = list[Path](), [(folder, depth)]
    while folders:
        where, left = folders.pop()
        for name in sorted(project.entries(where)):
            path = where / name
            if _STANDS_IN.fullmatch(name) or len(found) > MAX_FILES:
                return None
            if project.is_file(path):
                found.append(path)
            elif left > 1 and project.is_dir(path):
                folders.append((path, left - 1))
            elif not project.is_dir(path):
                return None  # a link out of the tree, or one that leads nowhere
    return tuple(found)


@query
def is_filled(project: Project, folder: Path, ending: str) -> bool:
    """Return whether git ignores such files in a folder, or the project's description says to put files there."""
    sample = folder / f"0{ending}"
    for above in folder.parents:
        if not above.is_relative_to(project.root):
            break
        if ".gitignore" in project.entries(above):
            lines = project.data(above / ".gitignore").decode("utf-8", "replace").splitlines()
            if NamePatterns(readable(lines)[0]).include(sample.relative_to(above).as_posix()):
                return True
    place = folder.relative_to(project.root).as_posix()
    notes = [project.root / name for name in project.entries(project.root) if _NOTES.fullmatch(name)]
    texts = [project.data(path).decode("utf-8", "replace") for path in sorted(notes)]
    top = place.split("/")[0]
    return any(top in line and _FILLS.search(line) is not None for text in texts for line in text.splitlines())
