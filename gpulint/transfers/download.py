"""One download: what is fetched, where from, and by which call."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.finding import Place
from gpulint.libraries.downloads import LABELS
from gpulint.records import dataclass
from gpulint.workspace.module_index import CallSite, last_name

_SAMPLE = regex.compile(r"\.(wav|flac|mp3|ogg|m4a|mp4|jpe?g|png|gif|webp|bmp|obj|[ot]tf|ttc|woff2?)$", re.IGNORECASE)
_SOURCE = regex.compile(
    r"\.(py|ipynb|c|cc|cpp|cu|cuh|h|hpp|ya?ml|toml|cfg|ini|md|sh)$|/Makefile$|^https?://raw\.githubusercontent\.com/.*\{\}$"
)
"""Files of code; unknown files among a repository's own are not known to be more."""
_SETTINGS = regex.compile(r"(^|_)config\.json$")


@dataclass(frozen=True, slots=True)
class Download(CallSite):
    """One call that fetches ``what`` (empty when unknown) ``origin``; ``kind``: ``data``, ``weights``, ``metric``."""

    name: str
    """The callee as a reader knows it (``AutoModel.from_pretrained``)."""
    what: str
    origin: str
    kind: str
    place: Place | None = None
    """Where ``what`` is set, if that is elsewhere."""


def callee(call: ast.Call) -> str:
    """The last two components of what is called."""
    func = call.func
    if isinstance(func, ast.Attribute) and (owner := last_name(func.value)) and owner != "__dict__":
        return f"{owner}.{func.attr}"
    if isinstance(func, ast.Subscript | ast.Call):
        return "the model factory"
    return last_name(func)


def is_small(url: str) -> bool:
    """One picture or recording, to try a model on, a font, the names of its classes, its settings, or a file of
    code."""
    path = url.partition("?")[0]
    name = path.rpartition("/")[2]
    return bool(_SAMPLE.search(path) or _SOURCE.search(path) or LABELS.search(name) or _SETTINGS.search(name))
