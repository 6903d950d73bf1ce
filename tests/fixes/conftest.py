"""Jobs that are repaired as ``gpulint fix --apply`` would, and run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gpulint import engine, fixing, plugins
from gpulint.config import Config
from gpulint.fix import Declined, Fix
from gpulint.outcomes import State
from gpulint.project import Project
from gpulint.report import Result
from gpulint.selection import select
from gpulint.writing import write

LOADED = plugins.load()


class Job:
    """Files of one job in a folder of their own."""

    def __init__(self, root: Path, files: dict[str, str], config: Config) -> None:
        self.root, self.config = root, config
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))

    def text(self, name: str) -> str:
        return (self.root / name).read_text()

    def files(self) -> list[Path]:
        files = sorted(path for path in self.root.rglob("*") if path.suffix in (".py", ".sh", ".yaml", ".ipynb"))
        return files + sorted(self.root.rglob("Dockerfile*"))

    def scan(self, *codes: str) -> list[Result]:
        files, rules = self.files(), select(LOADED.rules, codes, (), ())
        report = engine.run(Project(self.root, files, self.config), files, rules, fixers=LOADED.fixers)
        assert report.errors == []
        return report.results

    def offer(self, *codes: str) -> Fix:
        """The only fix that is offered."""
        (fix,) = [result.fix for result in self.scan(*codes)]
        assert isinstance(fix, Fix), fix
        return fix

    def refusal(self, *codes: str) -> str:
        """Why the only finding is left alone."""
        (fix,) = [result.fix for result in self.scan(*codes)]
        assert isinstance(fix, Declined), fix
        return fix.reason

    def repair(self, *codes: str, unsafe: bool = True) -> int:
        """Apply all fixes until there are none; how many there were."""
        files, rules = self.files(), select(LOADED.rules, codes, (), ())
        fixed = fixing.fix(Project(self.root, files, self.config), files, rules, LOADED.fixers, unsafe=unsafe)
        assert fixed.report.errors == []
        assert fixed.of(State.DROPPED) == []
        for group in fixed.groups:
            write(group, self.root)
        return len(fixed.of(State.APPLIED))

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Start a program of the job."""
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=self.root,
            env={**os.environ, "TMPDIR": str(self.root), "OMP_NUM_THREADS": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, **environment: str) -> tuple[str, str]:
        """(stdout, stderr) of a program that must succeed."""
        process = self.start(*command, **environment)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return out, err


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Job]:
    """``job({"train.py": ...})``; ``remote`` names a folder, relative to the job's, that counts as remote storage."""

    def make(files: dict[str, str], remote: str | None = None) -> Job:
        prefixes = (str(tmp_path / remote),) if remote is not None else ()
        return Job(tmp_path, files, Config(base=tmp_path, remote_paths=prefixes))

    return make
