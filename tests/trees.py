"""Small trees of programs under test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gpulint import engine
from gpulint.config import Config
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex

PLACE = "import torch\n\n\ndef place(batch):\n    return batch.cuda()\n"
"""``helper.py`` of ``TRAINER``."""
TRAINER = """\
import torch
from torch.utils.data import DataLoader
from helper import place


def train(model, data, optimizer):
    loader = DataLoader(data, batch_size=8)
    for batch in loader:
        loss = model(place(batch)).sum()
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()
"""
"""A program with findings that rest on another file."""


class Tree:
    """A project of files given by their text, and its modules by path."""

    def __init__(self, root: Path, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        self.root = root
        self.project = Project(root, sorted(path for path in root.rglob("*") if path.is_file()), Config(base=root))

    def module(self, name: str = "main.py") -> ModuleIndex:
        module = self.project.module_at(self.root / name)
        assert module is not None
        return module


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Tree]:
    """``tree(code)`` for one ``main.py``, ``tree({"a.py": ...})`` for several files."""

    def make(files: str | dict[str, str]) -> Tree:
        return Tree(tmp_path, {"main.py": files} if isinstance(files, str) else files)

    return make


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that this process checks from now on, in order."""
    names: list[str] = []
    document = engine.UNITS["document"]
    compute = document.compute

    def noted(run: engine.Run, path: Path) -> engine.Report:
        names.append(path.name)
        return compute(run, path)  # type: ignore[no-any-return]

    monkeypatch.setattr(document, "compute", noted)
    return names
