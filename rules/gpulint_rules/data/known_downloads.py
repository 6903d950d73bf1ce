"""Downloads that repeat another one of their module, or find what they fetch on the disk."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries.downloads import HUB
from gpulint.semantic.path_conditions import conditions
from gpulint.transfers.download import Download
from gpulint.workspace.module_index import ModuleIndex, last_name

_EXISTS = frozenset({"isdir", "isfile", "exists", "is_dir", "is_file"})
_MANY = 3
"""Other classes that a function picks from."""
_PARTS = regex.compile(r"(Tokenizer\w*|Processor|Extractor|Config)\.from_pretrained$")
"""Calls for the small files of a repository of the hub."""
_SETTINGS = regex.compile(r"(?<!Peft)(?<!Lora)Config\.from_pretrained$")
_HALVES = frozenset({"train", "transform", "target_transform", "download"})
"""Arguments of a data set that make no other archive of it."""
_SPLIT_ARCHIVES = frozenset({"USPS"})
"""Classes with ``train`` that fetch an archive for either half."""


def told_once(found: list[Download]) -> Iterator[Download]:
    """Yield the downloads without those that fetch nothing more: settings alone, the words of a model that the module
    loads too, and the other half of a data set."""
    models = {item.what for item in found if _is_of_hub(item) and not _PARTS.search(item.name)}
    seen = set[tuple[str, ...]]()
    for item in found:
        if _is_of_hub(item) and _SETTINGS.search(item.name):
            continue  # a file of about 1 kB
        if _is_of_hub(item) and _PARTS.search(item.name):
            key: tuple[str, ...] = (item.what,)
            if item.what in models:
                continue
        else:
            key = _archive(item)
        if key and key in seen:
            continue
        seen.add(key)
        yield item


def _is_of_hub(item: Download) -> bool:
    return HUB in item.origin and item.kind == "weights" and bool(item.what)


def _archive(item: Download) -> tuple[str, ...]:
    """Return what stands for the archive of a data set with ``train=``, whose other half lies in the same folder; empty
    for other downloads."""
    given = {keyword.arg: keyword.value for keyword in item.node.keywords}
    if item.kind != "data" or item.name in _SPLIT_ARCHIVES or None in given or "train" not in given:
        return ()
    rest = {name: ast.unparse(value) for name, value in given.items() if name and name not in _HALVES}
    if item.node.args[1:] or not (item.node.args or "root" in rest):
        return ()
    root = rest.pop("root", "") or ast.unparse(item.node.args[0])
    return (ast.unparse(item.node.func), root, *(f"{name}={text}" for name, text in sorted(rest.items())))


def is_kept(module: ModuleIndex, item: Download) -> bool:
    """Return whether a file is fetched in an ``except`` of a function that has looked for it: once, not in each run."""
    if not any(isinstance(up, ast.ExceptHandler) for up in module.syntax.ancestors(item.node)) or HUB in item.origin:
        return False
    function = module.function(item.node)
    return function is not None and any(
        isinstance(part, ast.Call) and last_name(part.func) in _EXISTS and part.lineno < item.node.lineno
        for part in walk(function)
    )


def stands_on_disk(module: ModuleIndex, item: Download) -> bool:
    """Return whether the function stops if its folder is missing (``if not os.path.isdir(path): raise``)."""
    for test, holds in conditions(module, item.node):
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=asked)) if not holds:
                pass
            case ast.Compare(left=ast.Call(func=asked), comparators=[ast.Constant(value=False)]) if not holds:
                pass
            case _:
                continue
        if last_name(asked) in _EXISTS:
            return True
    return False


def distinct(downloads: tuple[Download, ...]) -> Iterator[Download]:
    """Without the workers' own construction of a data set that the main process has fetched, and once for a function
    that picks one of many classes for an id that it is given."""
    seen: dict[tuple[str, str], Download] = {}
    told = list[Download]()
    for item in sorted(downloads, key=lambda item: item.call.module.function(item.node) is not None):
        others = [other for other in downloads if _excludes(item, other)] if item.place is not None else []
        if len(others) >= _MANY:
            if any(other in told for other in others):
                continue
            told.append(item)
        function = item.call.module.function(item.node)
        key = (item.name, item.call.module.syntax.text(item.node.args[0]) if item.node.args else "")
        first = seen.setdefault(key, item)
        if (
            first is item
            or item.kind != "data"
            or function is None
            or first.call.module.function(first.node) is not None
        ):
            yield item


def _excludes(one: Download, other: Download) -> bool:
    """Return whether two downloads of the same thing are branches of one choice."""
    module = one.call.module
    if one.what != other.what or module.function(one.node) is not module.function(other.node):
        return False
    tests = {id(test): holds for test, holds in conditions(module, one.node)}
    return any(tests.get(id(test), holds) is not holds for test, holds in conditions(module, other.node))
