"""Telling a model or data set of a hub (``org/name``, ``bert-base-cased``) from a folder on disk."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from gpulint import regex

_PART = r"[A-Za-z0-9][\w.-]*"
_ID = regex.compile(rf"(?P<owner>{_PART})/(?P<name>{_PART}|[\w.-]*\{{\}}[\w.{{}}-]*)(@[\w.-]+)?")
_BARE = regex.compile(_PART)
_LOCAL_OWNER = regex.compile(
    r"(out(put)?s?|check_?points?|ckpts?|models?|data|data_?sets?|results?|runs?|logs?|saved?(_\w+)?|"
    r"weights?|tmp|temp|cache|"
    r"exps?|experiments?|work_?dirs?|tests?|path|paths|local\w*|my\w*|your\w*|([\w-]+[-_])?pretrained[\w-]*|"
    r"trained\w*|src|assets|resources|"
    r"artifacts?|mnt|home|root|examples?|configs?|lora\w*|adapters?|\w*_(dir|path|models?|checkpoints?|output))",
    re.IGNORECASE,
)
_LOCAL_RUN = regex.compile(
    r"(out(put)?s?|check_?points?|ckpts?|results?|runs?|logs?|experiments?)[_-][^/]*/.*"
    r"|[^/]+/(checkpoint|ckpt|epoch|step|iter|version|fold)[-_=]?\d+",
    re.IGNORECASE,
)
"""What a training of one's own has written: ``outputs_base/checkpoint-900``."""
_FILE = regex.compile(
    r"\.(pt|pth|bin|ckpt|json|ya?ml|txt|csv|tsv|py|model|safetensors|gguf|onnx|h5|nemo|pkl|gz|zip|arrow|parquet)$"
)
_FAMILY = regex.compile(
    r"(bert|roberta|gpt-?2|gpt-?neo|gpt-?j|^t5-|^t5\b|mt5|xlnet|albert|electra|bart\b|bart-|distil|"
    r"deberta|xlm|longformer|clip|^vit[-_]|"
    r"wav2vec2|whisper|opus-mt|pegasus|bloom|opt-\d|falcon|camembert|flaubert|ctrl$|openai-gpt|"
    r"transfo-xl|reformer|mpnet|minilm|ada-)",
    re.IGNORECASE,
)
_SINGLE = frozenset({"gpt2", "distilgpt2", "ctrl"})


def is_model_id(text: str, near: tuple[Path, ...] = (), exists: Callable[[Path], bool] = Path.exists) -> bool:
    """Return whether ``text`` names a model of a hub. Not if it exists as a folder below one of ``near``."""
    if _FILE.search(text) or any(exists(folder / text) for folder in near):
        return False
    if match := _ID.fullmatch(text):
        return not (_LOCAL_OWNER.fullmatch(match["owner"]) or _LOCAL_RUN.fullmatch(text))
    return bool(_BARE.fullmatch(text) and _FAMILY.search(text) and ("-" in text or text.lower() in _SINGLE))


def is_data_set_id(text: str, near: tuple[Path, ...] = (), exists: Callable[[Path], bool] = Path.exists) -> bool:
    """Return whether ``text`` names a data set of a hub. A bare name does: a folder would be written as a path."""
    if _FILE.search(text) or any(exists(folder / text) for folder in near):
        return False
    if match := _ID.fullmatch(text):
        return not (_LOCAL_OWNER.fullmatch(match["owner"]) or _LOCAL_RUN.fullmatch(text))
    return bool(_BARE.fullmatch(text)) and not _LOCAL_OWNER.fullmatch(text)
