"""The gate of GPU331: what only files that download something hold."""

from __future__ import annotations

import re

from gpulint import regex
from gpulint.gate import Gate
from gpulint.libraries import Models
from gpulint.libraries.downloads import PRETRAINED
from gpulint.transfers import notebook_downloads
from gpulint.transfers.download_table import DownloadTable

_FETCHING = ("ownload", "fetch", "Fetch")
_FETCHES = regex.compile(rb"download|fetch", re.IGNORECASE)
_DOWNLOADS = ("download",)
_ASKS = ("pretrained", "weights", "encoder_weights")
_OWNERS = ("keras", *dict.fromkeys(name.partition(".")[0] for name in PRETRAINED))
_GENERAL = {
    "load": ("hub", "clip", "gensim", "tensorflow_datasets", "tensorflow_hub", "evaluate"),
    "get": ("requests", "httpx"),
    "stream": ("httpx",),
    **dict.fromkeys(("run", "call", "check_call", "check_output", "Popen"), ("subprocess",)),
    **dict.fromkeys(("system", "popen"), ("os",)),
}
"""Names that many things have -> the libraries of which they fetch something."""


def _special(models: Models) -> frozenset[str]:
    """Names of calls that fetch something, without those that many things have."""
    return models.derived(DownloadTable).last_names.difference(_GENERAL)


def may_fetch(gate: Gate) -> bool:
    """Return whether a file may download anything."""
    if gate.path.suffix == ".ipynb" and gate.matches(notebook_downloads.TOOLS):
        return True
    if gate.calls(gate.models.derived(_special)) or gate.has_any(gate.models.derived(DownloadTable).packages):
        return True
    if gate.has_any(_FETCHING) and gate.calls_like(_FETCHES):
        return True
    if gate.sets(_DOWNLOADS):
        return True
    present = filter(gate.has_word, _GENERAL)
    if any(any(map(gate.has_word, _GENERAL[name])) and gate.calls((name,)) for name in present):
        return True
    if gate.has("check_") and (gate.tree_has("download=True") or gate.tree_has("download: bool = True")):
        return True
    owned = gate.has_any(_OWNERS) or any(owner in gate.path.parts for owner in _OWNERS)
    return owned and gate.sets(_ASKS)
