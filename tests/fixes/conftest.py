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
from tests.torch_programs import Running, TorchPython

LOADED = plugins.load()
RUNNER = """\
import os, runpy, socket, sys, tempfile

for path in sys.argv[2:]:
    print(path, flush=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    children, printed = [], []
    for rank in range(ranks := int(sys.argv[1])):
        printed.append(tempfile.TemporaryFile())
        children.append(os.fork())
        if children[-1] == 0:
            os.dup2(printed[rank].fileno(), 1)
            folder, program = os.path.splitext(path)[0], os.path.abspath(path)
            os.makedirs(folder, exist_ok=True)
            os.chdir(folder)
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            runpy.run_path(program, run_name="__main__")
            sys.stdout.flush()
            os._exit(0)
    for child, output in zip(children, printed):
        assert os.waitpid(child, 0)[1] == 0, path
        output.seek(0)
        os.write(1, output.read())
"""
"""Runs programs one after another, each in a fork with a folder of its own; prints what its ranks print, by rank."""


class Job:
    """Files of one job in a folder of their own."""

    def __init__(self, root: Path, files: dict[str, str], config: Config, torch_python: TorchPython) -> None:
        self.root, self.config, self._torch_python = root, config, torch_python
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))

    def text(self, name: str) -> str:
        return (self.root / name).read_text()

    def files(self) -> list[Path]:
        files = sorted(
            path for path in self.root.rglob("*") if path.suffix in (".py", ".sh", ".yaml", ".ipynb", ".sub")
        )
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

    def run(self, *command: str) -> tuple[str, str]:
        """(stdout, stderr) of a program that must succeed."""
        process = subprocess.run(
            [sys.executable, *command],
            cwd=self.root, env={**os.environ, "TMPDIR": str(self.root)}, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        return process.stdout, process.stderr

    def start_training(self, *command: str, **environment: str) -> Running:
        """Start a program that imports torch."""
        return self._torch_python.start(self.root, command, environment)

    def train(self, *command: str, **environment: str) -> tuple[str, str]:
        """(stdout, stderr) of a program that imports torch and must succeed."""
        code, out, err = self.start_training(*command, **environment).communicate()
        assert code == 0, err
        return out, err

    def repaired(self, name: str, *codes: str) -> tuple[int, str, str]:
        """(number of fixes, stdout before, stdout after) of a program that imports torch and nothing that is fixed."""
        before, fixes = self.text(name), self.repair(*codes)
        printed = self.outputs({"before.py": before, "after.py": self.text(name)})
        return fixes, printed["before.py"], printed["after.py"]

    def outputs(
        self, programs: dict[str, str], *, torch: bool = True, ranks: int = 1, **environment: str
    ) -> dict[str, str]:
        """What programs print, by their paths. A program ``a.py`` runs in the folder ``a``, once for each rank."""
        for path, text in {**programs, "runner.py": RUNNER}.items():
            (self.root / path).write_text(dedent(text))
        command = ("runner.py", str(ranks), *programs)
        out, _ = self.train(*command, **environment) if torch else self.run(*command)
        starts = [out.index(f"{path}\n") for path in programs] + [len(out)]
        return {
            path: out[start:end].removeprefix(f"{path}\n")
            for path, start, end in zip(programs, starts, starts[1:], strict=False)
        }


@pytest.fixture
def job(tmp_path: Path, torch_python: TorchPython) -> Callable[..., Job]:
    """``job({"train.py": ...})``; ``remote`` names a folder, relative to the job's, that counts as remote storage."""

    def make(files: dict[str, str], remote: str | None = None) -> Job:
        prefixes = (str(tmp_path / remote),) if remote is not None else ()
        return Job(tmp_path, files, Config(base=tmp_path, remote_paths=prefixes), torch_python)

    return make
