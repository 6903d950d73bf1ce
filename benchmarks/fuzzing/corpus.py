"""Small jobs that are known to work: what mutation starts from."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpulint.documents import kind_of
from gpulint.rule import Kind

ROOT = Path(__file__).resolve().parents[2]
CANARY = ROOT / "examples" / "half-the-gpus" / "wasteful"
"""A job whose findings must not depend on what else is in the tree."""
MAX_FILE = 16_384
"""Bytes; what reads small files reads large ones as well, and a million large ones would take days."""
SETTINGS = ("gpulint.toml", "pyproject.toml")
_FENCE = re.compile(rb"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Input:
    """A small job: the contents of its files by name (in bytes, as a name need not be text)."""

    files: Mapping[bytes, bytes]
    kind: str = ""
    """What the mutated file is: ``python``, ``shell``, ...; or ``settings``."""
    mutations: tuple[str, ...] = ()
    index: int = -1
    """Which input of the run it is; the seed and the index give it again."""
    origin: str = field(default="", compare=False)

    @property
    def has_settings(self) -> bool:
        return any(os.fsencode(name) in self.files for name in SETTINGS)


def kind_name(name: bytes, data: bytes = b"") -> str:
    """What a file is, in one word."""
    path = Path(os.fsdecode(name))
    if path.name in SETTINGS:
        return "settings"
    kind = kind_of(path, data[:4096])
    return "other" if kind is None else str(kind.value)


def corpus(trees: Sequence[Path] = ()) -> list[Input]:
    """The cases of all specs, the examples, the settings of the documentation and the small files of ``trees``."""
    return [*_specs(), *_examples(), *_settings(), *(found for tree in trees for found in _tree(tree))]


def canary() -> Input:
    """The job that every tree holds unchanged."""
    return Input(_read(CANARY), origin="canary")


def _specs() -> Iterator[Input]:
    from gpulint.testing import read_all

    for case in read_all(ROOT / "tests" / "rules"):
        files = {os.fsencode(name): text.encode() for name, text in case.files.items()}
        yield Input(files, origin=case.id)
        program = next((text for name, text in case.files.items() if name.endswith(".py")), None)
        if program is not None and len(files) == 1:
            yield Input({b"train.ipynb": notebook(program)}, origin=f"{case.id} as a notebook")


def notebook(program: str) -> bytes:
    """A program as a notebook, one cell for each paragraph."""
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": part.splitlines(keepends=True)}
        for part in re.split(r"\n\n(?=\S)", program)
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


def _examples() -> Iterator[Input]:
    for folder in sorted({path.parent for path in (ROOT / "examples").rglob("*.*") if path.is_file()}):
        if "plugin" not in folder.parts and (files := _read(folder)):
            yield Input(files, origin=folder.relative_to(ROOT).as_posix())


def _settings() -> Iterator[Input]:
    program = {b"train.py": (CANARY / "train.py").read_bytes()}
    for number, match in enumerate(_FENCE.finditer((ROOT / "docs" / "configuration.md").read_bytes())):
        name = b"pyproject.toml" if b"[tool." in match.group(1) else b"gpulint.toml"
        yield Input({name: match.group(1), **program}, origin=f"settings {number}")


def _tree(tree: Path) -> Iterator[Input]:
    """Each small file of a tree; a launcher together with the programs beside it that it names."""
    for path in sorted(tree.rglob("*")):
        if ".git" in path.parts or path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_FILE:
            continue
        data = path.read_bytes()
        kind = kind_of(path, data[:4096])
        if kind is None:
            continue
        files = {os.fsencode(path.name): data}
        if kind not in (Kind.PYTHON, Kind.NOTEBOOK):
            for program in sorted(path.parent.glob("*.py")):
                if program.name.encode() in data and program.stat().st_size <= MAX_FILE and len(files) < 4:
                    files[os.fsencode(program.name)] = program.read_bytes()
        yield Input(files, origin=str(path))


def _read(folder: Path) -> dict[bytes, bytes]:
    return {
        os.fsencode(path.name): path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix != ".md" and path.stat().st_size <= MAX_FILE
    }
