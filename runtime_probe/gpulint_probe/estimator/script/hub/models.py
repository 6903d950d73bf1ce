"""Configurations of well-known models, laid out as the folders that the hub would have downloaded."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.script.imports import Action

Note = Callable[[str], None]
# What follows the name of a model that was trained further, with the same configuration.
_TRAINED_FURTHER = re.compile(r"-(hf|instruct|chat|it|base|sft|dpo|instruct-hf|chat-hf)$", re.IGNORECASE)
STYLE = "gpulint_tokenizer.json"


@functools.cache
def _tables() -> dict[str, Any]:
    text = resources.files("gpulint_probe.estimator.script.hub").joinpath("models.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@functools.cache
def _by_name() -> dict[str, tuple[str, str]]:
    """Family and name of each known model, by its name in lower case."""
    families = {name: row for name, row in _tables().items() if "models" in row}
    return {model.lower(): (family, model) for family, row in families.items() for model in row["models"]}


def files_of(name: str) -> dict[str, dict[str, Any]] | None:
    """The JSON files of a model or pipeline of that name on the hub, by path; None where it is not known.

    The owner is not compared: copies of a model under its own name have its configuration.
    """
    tables = _tables()
    short = name.rpartition("/")[2]
    alias = tables["aliases"].get(short, short)
    pipeline, _, part = alias.partition("/")
    if pipeline in tables["pipelines"]:
        parts = _parts(pipeline)
        return _laid_out({"": parts[part]} if part else parts)
    plain = alias.lower()
    while plain not in _by_name() and _TRAINED_FURTHER.search(plain):
        plain = _TRAINED_FURTHER.sub("", plain)
    if plain not in _by_name():
        return None
    family, model = _by_name()[plain]
    row = tables[family]
    values = {
        field: None if value == "null" else value
        for field, value in zip(row["fields"], row["models"][model], strict=True)
    }
    config = {"model_type": family} | row.get("all", {}) | values
    files = {"config.json": config}
    if "processor" in row:
        files["preprocessor_config.json"] = row["processor"]
    if "tokenizer" in row:
        chats = row["tokenizer"] == "qwen" or bool(
            re.search(r"instruct|chat|-it\b|zephyr|vicuna", short, re.IGNORECASE)
        )
        files[STYLE] = {"style": row["tokenizer"], "chats": chats}
    return files


def _parts(pipeline: str) -> dict[str, dict[str, Any]]:
    tables = _tables()
    parts = dict(tables["pipelines"][pipeline])
    source, *names = tables["shared"].get(pipeline, [pipeline])
    return parts | {name: tables["pipelines"][source][name.removesuffix("_2")] for name in names}


def _laid_out(parts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    files = {}
    for part, values in parts.items():
        folder = f"{part}/" if part else ""
        if "style" in values:
            files[f"{folder}config.json"] = {"model_type": "clip_text_model", "vocab_size": values["vocab_size"]}
            files[f"{folder}{STYLE}"] = {"style": values["style"]}
        else:
            files[f"{folder}{'scheduler_config' if part == 'scheduler' else 'config'}.json"] = values
    return files


class Hub:
    """Folders with the files of known models that are not on this machine, made in ``folder`` when they are needed."""

    def __init__(self, folder: Path, note: Note, line: Callable[[], str]) -> None:
        self._folder = folder
        self._note = note
        self._line = line

    def place(self, name: Any) -> Any:
        """Return the folder that answers for a name of the hub; ``name`` where it is at hand, or not known."""
        if not isinstance(name, str) or Path(name).exists() or _is_cached(name):
            return name
        folder = self._folder / name.replace("/", "--")
        if not folder.is_dir():
            files = files_of(name)
            if files is None:
                return name
            for path, content in files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(json.dumps(content))
            self._note(f"{name} is not at hand: its published configuration is assumed{self._line()}")
        return str(folder)

    def actions(self, stack: contextlib.ExitStack) -> dict[str, Action]:
        """Return what is to be done when the libraries that ask the hub are imported."""

        def transformers(module: ModuleType) -> None:
            real = module.cached_files

            def cached_files(path_or_repo_id: Any, filenames: Any, **options: Any) -> Any:
                if options.get("repo_type") in (None, "model"):
                    path_or_repo_id = self.place(path_or_repo_id)
                return real(path_or_repo_id, filenames, **options)

            stack.enter_context(mock.patch.object(module, "cached_files", cached_files))

        def downloads(module: ModuleType) -> None:
            stack.enter_context(mock.patch.object(module, "hf_hub_download", self._download(module.hf_hub_download)))

        return {"transformers.utils.hub": transformers, "huggingface_hub.file_download": downloads}

    def _download(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def download(repo_id: str, filename: str, **options: Any) -> Any:
            place = self.place(repo_id) if options.get("repo_type") in (None, "model") else repo_id
            path = Path(place, options.get("subfolder") or "", filename)
            return str(path) if place != repo_id and path.is_file() else real(repo_id, filename, **options)

        return download


def _is_cached(name: str) -> bool:
    home = os.environ.get("HF_HOME") or str(
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface")
    )
    hub = os.environ.get("HF_HUB_CACHE") or str(Path(home, "hub"))
    return any(Path(hub, f"models--{name.replace('/', '--')}", "snapshots").glob("*/*"))


def unknown(name: str, line: str) -> EstimateError:
    """The error for a model of which no configuration is at hand."""
    return EstimateError(
        f"the configuration of {name} is not known{line}; download it once, or name a folder with its config.json"
    )
