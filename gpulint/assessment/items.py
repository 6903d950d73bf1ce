"""How long it takes to install packages and to download models and data sets, by their names."""

from __future__ import annotations

import re

from gpulint import regex
from gpulint.assessment.constants import figure, table
from gpulint.counting import counted
from gpulint.impact import Range

_NAME = regex.compile(r"[A-Za-z][\w.-]*")
_FILE = regex.compile(r"\.(txt|ya?ml|toml|lock|in)$")
_PARAMETERS = regex.compile(r"(?:(?<![\w.])|[-_])(?!(?:19|20)\d\db)(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)
"""Billions of parameters in the id of a model: ``llama-7b``; ``2013b`` is an edition of a year."""
_ARCHIVE = regex.compile(r"\.(?:tar|tgz|tbz2?|txz|zip|gz|bz2|xz|zst|7z|rar)(?:[?#].*)?$", re.IGNORECASE)
"""Names of archives: of data, whose names say nothing of parameters."""
_BITS = regex.compile(
    r"(?<![a-z0-9])(?:(4|8)-?bit|(?:int|fp|nf)(4|8)|awq|gptq|gpt-oss|mxfp4|nvfp4|w4a16|gguf)(?![a-z0-9])", re.IGNORECASE
)
"""Bits of a parameter in the id of a quantised model: ``qwen3-32b-bnb-4bit``; 4 for AWQ, GPTQ and models that are
published in 4 bits."""
_SMALL = regex.compile(
    r"tokenizer|processor|featureextractor|config|scheduler|nltk|evaluate|metric|punkt|stopwords|spacy", re.IGNORECASE
)

_ADAPTER = regex.compile(r"^Peft\w*\.from_pretrained$|load_lora_weights$|load_adapter$")
"""Calls that load adapters, which are small beside the model that their ids name."""

_DATA = regex.compile(r"(^|\.)load_dataset(_builder)?$")
"""Calls that load data sets, whose ids tell how many tokens they hold (``slimpajama-627b``)."""


def install_seconds(items: tuple[str, ...]) -> tuple[Range, str]:
    """Seconds to install packages, requirement files and projects, and what they are in words."""
    known = table()["install"]["known"]
    low = high = 0.0
    for item in items:
        if _FILE.search(item):
            found = figure("install", "file")
        elif _is_project(item):
            found = figure("install", "project")
        else:
            match = _NAME.match(item)
            name = match[0].lower().replace("_", "-") if match is not None else ""
            found = known.get(name, figure("install", "small" if name in figure("install", "light") else "each"))
        low, high = low + found[0], high + found[1]
    return (low, high), _in_words(items)


def _is_project(item: str) -> bool:
    """Return whether an item is a folder or repository, and not a package by its name."""
    return item.startswith((".", "/", "git+", "$"))


def _in_words(items: tuple[str, ...]) -> str:
    """``2 packages and a file of requirements``"""
    files = sum(1 for item in items if _FILE.search(item))
    projects = sum(1 for item in items if _is_project(item) and not _FILE.search(item))
    packages = len(items) - files - projects
    parts = [counted(packages, "package")] if packages else []
    if files:
        parts.append("a file of requirements" if files == 1 else f"{files} files of requirements")
    if projects:
        parts.append("a project" if projects == 1 else f"{projects} projects")
    return " and ".join(parts)


def download_seconds(items: tuple[str, ...]) -> tuple[Range, str] | None:
    """Seconds to download what is named, where its name says how large it is."""
    text = " ".join(item for item in items if not _ARCHIVE.search(item))
    missing = figure("download", "missing")
    if items and _SMALL.search(items[0]):
        low, high = figure("download", "small")
        return (missing * low, missing * high), "a small download"
    match = _PARAMETERS.search(text)
    if match is None or _ADAPTER.search(items[0]) or _DATA.search(items[0]):
        return None
    bits = _BITS.search(text)
    stored = figure("download", "bytes_per_parameter") if bits is None else int(bits[1] or bits[2] or 4) / 8
    size = float(match[1]) * 1e9 * stored
    slow, fast = figure("download", "rate")
    return (missing * size / fast, missing * size / slow), f"about {size / 1e9:.0f} GB where no cache has it"
