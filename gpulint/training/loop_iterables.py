"""What a loop runs over, as its names tell: the loader inside of what wraps it."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.workspace.module_index import last_name

_LOADER_NAME = regex.compile(
    r"(data_?_?loader|loader|_dl$|^dl$|data_?iter|iterator|batches|dataset|train_data|test_data|val_data)",
    re.IGNORECASE,
)
_ABOUT_DATA = regex.compile(r"_(types?|names?|kinds?|keys?|paths?|files?|configs?|options|opts)$", re.IGNORECASE)
_SEVERAL = regex.compile(r"(loaders|data_?sets|iterators)$", re.IGNORECASE)
"""Names of what holds several loaders, one of which a loop takes at a time."""
_WRAPPERS = frozenset(
    {
        "enumerate", "trange", "track", "iter", "islice", "cycle", "zip", "log_every", "progress_bar", "prefetch",
        "skip_first_batches", "BackgroundGenerator", "progress", "pbar", "auto", "next", "list", "reversed",
        "ProgressBar", "master_bar", "MpDeviceLoader"
    }
)  # fmt: skip

_PARTS = frozenset(
    {
        "items", "keys", "values", "parameters", "named_parameters", "modules", "named_modules", "children",
        "named_children", "buffers", "named_buffers", "range", "split", "splitlines", "listdir", "glob", "rglob",
        "sorted",
    }
)  # fmt: skip
"""What gives the parts of a dictionary, a model, a number or a path."""


def is_of_parts(node: ast.expr) -> bool:
    """Return whether its name shows that something is no loader (``state.items()``, ``model.parameters()``)."""
    return isinstance(node, ast.Call) and last_name(node.func) in _PARTS


def is_loader_name(name: str) -> bool:
    """Return whether a variable's name says that batches come out of it."""
    return bool(_LOADER_NAME.search(name)) and not _ABOUT_DATA.search(name)


def unwrap_iterable(node: ast.expr) -> ast.expr:
    """The loader inside ``enumerate(tqdm(loader))``, ``islice(loader, n)``, ``iter(loader)``, ``loader.batches()``
    and such."""
    while True:
        if isinstance(node, ast.Call) and node.args and _wraps(last_name(node.func)):
            node = node.args[0].value if isinstance(node.args[0], ast.Starred) else node.args[0]
        elif isinstance(node, ast.Call) and "tqdm" in last_name(node.func) and (shown := _iterable(node)) is not None:
            node = shown
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "log_every":
            node = node.args[0] if node.args else node.func.value
        else:
            return node


def _iterable(call: ast.Call) -> ast.expr | None:
    """Return what ``tqdm(iterable=loader)`` shows the progress of."""
    return keyword_value(call, "iterable")


def unwrap_zipped(node: ast.expr) -> list[ast.expr]:
    """The loaders inside ``enumerate(zip(labelled, cycle(unlabelled)))``, ``*loaders`` of ``zip(*loaders)``; of
    anything else the one."""
    while isinstance(node, ast.Call) and node.args and _wraps(last_name(node.func)):
        if last_name(node.func) == "zip":
            parts = [[part] if isinstance(part, ast.Starred) else unwrap_zipped(part) for part in node.args]
            return [source for sources in parts for source in sources]
        if isinstance(node.args[0], ast.Starred):
            break
        node = node.args[0]
    return [unwrap_iterable(node)]


def runs_over_several(node: ast.expr) -> bool:
    """Return whether the name says that a loop takes one of several loaders at a time (``loaders``, not
    ``loaders[phase]``, and not ``zip(*loaders)``, which draws from all)."""
    if any(isinstance(source, ast.Starred) for source in unwrap_zipped(node)):
        return False
    source = unwrap_iterable(node)
    return not isinstance(source, ast.Subscript) and bool(_SEVERAL.search(last_name(source)))


def _wraps(name: str) -> bool:
    return name in _WRAPPERS or "tqdm" in name.lower()
