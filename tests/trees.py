"""Small trees of programs under test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gpulint.config import Config
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex


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
