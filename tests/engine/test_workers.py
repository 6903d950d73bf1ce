"""Several processes find the same as one, however they are started and whatever becomes of them."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulint import disk, engine, plugins, workers
from gpulint.config import Config
from gpulint.documents import Document
from gpulint.engine import Report
from gpulint.finding import Finding
from gpulint.project import Project
from gpulint.rule import Rule
from gpulint.source import Span
from tests.trees import PLACE, TRAINER

JOB = "#!/bin/bash\n#SBATCH --gres=gpu:2\npython train_0.py\nsleep infinity\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = []
    for name, text in {
        "helper.py": PLACE,
        "job.sh": JOB,
        **{f"train_{number}.py": TRAINER for number in range(6)},
    }.items():
        (tmp_path / name).write_text(text)
        found.append(tmp_path / name)
    return found


def scan(files: list[Path], jobs: int | None, rules: list[Rule] | None = None) -> Report:
    loaded = plugins.load()
    project = Project(files[0].parent, files, Config(base=files[0].parent))
    return engine.run(project, files, rules or loaded.rules, fixers=loaded.fixers, jobs=jobs)


def shape(report: Report) -> list[Any]:
    return [(str(item.finding.path), item.finding.span, item.finding.message, item.fix) for item in report.results]


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_every_start_method_finds_the_same(method: str, files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    alone = scan(files, 1)
    assert len(alone.results) > 12
    monkeypatch.setattr(workers, "start_method", lambda: method)
    monkeypatch.setattr(engine.Run, "unit", _not_here(os.getpid(), engine.Run.unit))
    for jobs in (2, 3):
        assert shape(scan(files, jobs)) == shape(alone)


def _not_here(parent: int, real: Any) -> Any:
    def unit(self: Any, unit: Any) -> Report:
        assert os.getpid() != parent
        found: Report = real(self, unit)
        return found

    return unit


def test_text_that_is_not_on_disk_reaches_workers_that_start_afresh(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "start_method", lambda: "spawn")
    project = Project(files[0].parent, files, Config(base=files[0].parent))
    project.provide(files[2], b"x = 1\n")
    report = engine.run(project, files, plugins.load().rules, jobs=2)
    assert files[2] not in {item.finding.path for item in report.results}
    assert files[3] in {item.finding.path for item in report.results}


def test_what_cannot_be_told_to_a_process_is_done_here(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No process that starts afresh has a rule that only this one knows."""
    monkeypatch.setattr(workers, "start_method", lambda: "spawn")
    rules = [_rule(lambda path: None)]
    assert shape(scan(files, 2, rules)) == shape(scan(files, 1, rules))


def test_without_another_process_the_work_is_done_here(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", refused)
    assert len(scan(files, 2).results) > 12


def _rule(harm: Any) -> Rule:
    def check(document: Document, project: Project) -> Iterator[Finding]:
        harm(document.path)
        yield RULE.finding(document.path, Span(1, 1, 1, 2), "found")

    rule = next(rule for rule in plugins.load().rules if rule.code == "GPU207")
    RULE = dataclasses.replace(rule, code="TST207", check=check, kinds=frozenset(rule.kinds), tokens=(), may_fire=None)
    return RULE


def test_the_files_of_a_worker_that_is_killed_are_checked_again(
    files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    mark = files[0].parent / "killed"

    def harm(path: Path) -> None:
        if path.name == "train_3.py" and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    report = scan(files, 2, [_rule(harm)])
    assert {item.finding.path for item in report.results} == {path for path in files if path.suffix == ".py"}
    assert report.problems == []
    assert "a worker process was killed by SIGKILL; its files are checked again" in capsys.readouterr().err


def test_workers_end_where_the_program_handles_the_signal_that_ends_them(files: list[Path]) -> None:
    mark = files[0].parent / "killed"

    def harm(path: Path) -> None:
        if path.name == "train_3.py" and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    handler = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        report = scan(files, 2, [_rule(harm)])
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert {item.finding.path for item in report.results} == {path for path in files if path.suffix == ".py"}


def test_a_file_that_kills_every_worker_is_the_only_one_lost(files: list[Path]) -> None:
    def harm(path: Path) -> None:
        if path.name == "train_3.py":
            os.kill(os.getpid(), signal.SIGKILL)

    report = scan(files, 3, [_rule(harm)])
    lost = next(path for path in files if path.name == "train_3.py")
    assert {item.finding.path for item in report.results} == {path for path in files if path.suffix == ".py"} - {lost}
    assert [(problem.path, problem.is_error) for problem in report.problems] == [(lost, True)]
    assert "killed by SIGKILL, twice" in report.problems[0].message


def test_contents_that_are_not_held_are_read_again(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    alone = scan(files, 1)
    read = []
    real = disk.read
    monkeypatch.setattr(disk, "read", lambda path, **more: (read.append(path), real(path, **more))[1])
    monkeypatch.setattr("gpulint.workspace.files.MAX_HELD", 600)
    assert shape(scan(files, 1)) == shape(alone)
    assert len(read) > len(set(read))


def test_processes_are_started_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "cpus", lambda: 4)
    assert workers.worker_count(None, 149) == 1
    assert workers.worker_count(None, 150) == 2
    assert workers.worker_count(None, 100_000) == 4
    assert workers.worker_count(16, 5) == 5


def test_a_container_has_the_cpus_of_its_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(workers, "_QUOTA", tmp_path / "cpu.max")
    for text, expected in (("max 100000\n", 64), ("250000 100000\n", 2), ("50000 100000\n", 1)):
        (tmp_path / "cpu.max").write_text(text)
        assert workers.cpus() == expected
