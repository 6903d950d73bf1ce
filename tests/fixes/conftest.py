"""Jobs that are repaired as ``gpulint fix --apply`` would, and run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gpulint import edits, engine, plugins
from gpulint.config import Config
from gpulint.fix import Declined, Fix, Safety
from gpulint.project import Project
from gpulint.selection import select

LOADED = plugins.load()
_ROUNDS = 10


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

    def scan(self, *codes: str) -> list[engine.Result]:
        files = sorted(path for path in self.root.rglob("*") if path.suffix in (".py", ".sh", ".yaml", ".ipynb"))
        files += sorted(self.root.rglob("Dockerfile*"))
        rules = select(LOADED.rules, codes, (), ())
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

    def repair(self, *codes: str, safeties: frozenset[Safety] = frozenset({Safety.SAFE, Safety.UNSAFE})) -> int:
        """Apply all fixes until there are none; how many there were."""
        done = 0
        for _ in range(_ROUNDS):
            offered = [result.fix for result in self.scan(*codes)]
            fixes = edits.disjoint(fix for fix in offered if isinstance(fix, Fix) and fix.safety in safeties)
            if not fixes:
                return done
            for (name, cell), changes in edits.by_file(fixes).items():
                assert cell is None
                path = Path(name)
                path.write_bytes(edits.apply(path.read_bytes().decode(), changes).encode())
            for file in {file for fix in fixes for file in fix.files}:
                assert not file.path.exists()
                file.path.write_text(file.text)
            done += len(fixes)
        raise AssertionError("fixes do not come to an end")

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
