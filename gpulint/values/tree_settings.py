"""What the configuration files of a tree hold for ``cfg.train.batch_size`` where no load of a file leads to it.

Programs hand their configuration around, and merge it from several files. If the object's name says that it is one and
two keys or more lead to the value, or one if an object is filled from it, whatever the tree's files hold under these
keys is what it may be.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.config_files import LOADS, step
from gpulint.values.configured import MAX_FILES, in_file, mentioning
from gpulint.workspace.module_index import NodeRef
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.values.constants import Value

_ROOT = regex.compile(r"^_?(cfg|config|configs|conf|hp|hps|hparams?|hyp|opt|opts|options|params|settings|C)$")
_PLACE = regex.compile(r"conf|cfg|hparam|setting|param|option|exp|recipe", 2)
"""Paths of files that hold settings."""


def anywhere(project: Project, ref: NodeRef) -> Iterator[Value]:
    """The values of the tree's files under the keys that lead from a configuration object to ``ref``."""
    from gpulint.values.constants import Constants, Value

    keys, fills = _keys(ref)
    if len(keys) < (1 if fills else 2):
        return
    for path in _files(project, keys[-1]):
        read = project.fact(Constants).configs.read(path)
        grouped = (
            len(keys) > 1 and path.parent.name == keys[0]
        )  # ``train/base.yaml`` is an option of a group of Hydra's
        known = read.get(".".join(keys)) or (read.get(".".join(keys[1:])) if grouped else None)
        if known is not None and not isinstance(known[0], bool):  # rules report switches in the files themselves
            yield Value(known[0], Place(path, known[1], "set here"), "config")


def everywhere(project: Project, ref: NodeRef) -> list[object]:
    """Return what every configuration file of the tree that knows the last key of ``config["gpu"]`` sets it to, in any
    section; nothing if the object is no configuration, by its name or by what loads it."""
    key, base = step(ref.node)
    if base is None or not (_keys(ref)[0] or _is_loaded(project, ref, base)):
        return []
    files = mentioning(project, key)
    return [value for file in files for value in in_file(project, file, key)] if len(files) < MAX_FILES else []


def has_key(project: Project, read: ast.Call) -> bool:
    """Return whether a configuration file of the tree has the key that ``mapping.get("workers", 0)`` or
    ``getattr(args, "workers", 0)`` reads, in whatever section, also with the section in its name
    (``getattr(args, "data_workers", 0)``), so that the default may not be what runs."""
    match read:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(key)), *_]):
            pass
        case ast.Call(func=ast.Attribute(), args=[ast.Constant(value=str(key)), *_]):
            pass
        case _:
            return False
    if not key.isidentifier():
        return False
    return any(in_file(project, file, key) for file in mentioning(project, key)) or _is_joined(project, key)


@query
def _is_joined(project: Project, key: str) -> bool:
    """Return whether a file has a key that is ``key`` if the names of its sections are written before it."""
    from gpulint.values.constants import Constants

    parts = key.split("_")
    ends = ("_".join(parts[start:]) for start in range(1, len(parts)))
    files = dict.fromkeys(file for end in ends if end for file in mentioning(project, end))
    read = project.fact(Constants).configs.read
    return any(name.replace(".", "_") == key for file in files for name in read(file) if "." in name)


def _is_loaded(project: Project, ref: NodeRef, base: ast.expr) -> bool:
    """Return whether a mapping is read from files of settings, whichever they are."""
    resolver = project.fact(Resolver)
    origins = resolver.points_to(ref.module, base)
    return all(
        isinstance(origin.node, ast.Call) and bool(resolver.call_names(origin.module, origin.node) & LOADS)
        for origin in origins
    )


def _keys(ref: NodeRef) -> tuple[tuple[str, ...], bool]:
    """``("train", "lr")`` of ``self.cfg["train"].lr``, and whether an object is filled from the configuration; no keys
    if nothing on the way is one, by its name or because of that."""
    node, fills = ref.node, False
    keys: list[str] = []
    while True:
        fills = fills or node in ref.module.unpacked_items
        if isinstance(node, ast.Name):
            return tuple(keys) if fills or _ROOT.match(node.id) else (), fills
        key, base = step(node)
        if base is None or (keys and _ROOT.match(key)):
            return tuple(keys) if base is not None or fills else (), fills
        keys.insert(0, key)
        node = base


@query
def _files(project: Project, key: str) -> tuple[Path, ...]:
    """The files of settings that mention a key; none if they are too many to be those of one program."""
    found = list(mentioning(project, key))
    word = word_of(key)
    found += [
        path for path in project.word_index.mentioning(word) if path.suffix == ".py" and not project.is_test(path)
    ]
    found = [path for path in found if _PLACE.search(project.place(path))]
    return tuple(found) if len(found) < MAX_FILES else ()
