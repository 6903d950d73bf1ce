"""``gpulint fleet`` as its users run it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")
pq = pytest.importorskip("pyarrow.parquet")

from tests.fleet.conftest import commit, tree  # noqa: E402

Fleet = Callable[..., Any]


def _rows(run: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(run / f"{name}.parquet").to_pylist()
    return rows


def _sources(folder: Path, count: int) -> list[Path]:
    return [tree(folder / f"team{number % 3}" / f"net{number}") for number in range(count)]


def test_scan_report_and_compare(fleet: Fleet, tmp_path: Path) -> None:
    cloned, plain = _sources(tmp_path, 2)
    commit(cloned)
    repos = f"{cloned.as_uri()} team=vision\n{plain} team=speech\n{tmp_path.as_uri()}/missing\n"
    Path("repos.txt").write_text(repos)
    code, out, err = fleet("scan", "repos.txt", "-o", "first", "--jobs", 2, "--patches", "--attempts", 1)
    assert (code, out) == (1, "")
    assert "3 repositories" in err
    assert f"gpulint: warning: {tmp_path}/missing: git clone: " in err
    assert "2 scanned, 1 failed" in err
    rows = {row["repository"]: row for row in _rows(Path("first"), "repositories")}
    assert {row["team"] for row in rows.values() if not row["failure"]} == {"vision", "speech"}
    patches = [row["patch"] for row in rows.values() if row["patch"]]
    assert len(patches) == 2
    assert all((Path("first") / name).is_file() for name in patches)

    code, out, _ = fleet("scan", "repos.txt", "-o", "first", "--jobs", 2, "--patches", "--attempts", 1)
    assert code == 1
    assert _rows(Path("first"), "repositories") == list(rows.values())

    _report(fleet, tmp_path, plain)
    _compare(fleet, plain)


def _report(fleet: Fleet, tmp_path: Path, plain: Path) -> None:
    jobs = [
        {"repository": f"ssh://git@h{tmp_path}", "workdir": f"{plain}/sub", "gpu_hours": 10.0, "wasted_gpu_hours": 4.0},
        {"repository": "", "workdir": "/home/a/net0/runs/7", "gpu_hours": 5.0, "wasted_gpu_hours": 0.5},
        {"repository": "https://github.com/acme/other", "workdir": "", "gpu_hours": 7.0, "wasted_gpu_hours": 1.0},
    ]
    Path("audit.json").write_text(json.dumps({"format": "gpulint-audit", "jobs": jobs}))
    code, out, err = fleet("report", "first", "--audit", "audit.json", "--output-format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["totals"]["failed"] == 1
    assert found["audit"] == {
        "file": "audit.json", "repositories": 2, "gpu_hours": 15.0, "wasted_gpu_hours": 4.5, "other_gpu_hours": 7.0
    }  # fmt: skip
    teams = {row["team"]: row for row in found["teams"]}
    assert teams["speech"]["wasted_gpu_hours"] == 4.0
    assert teams["vision"]["gpu_hours"] == 5.0
    assert teams["vision"]["findings"] == teams["speech"]["findings"] > 0
    rules = {row["code"]: row for row in found["rules"]}
    assert (rules["GPU105"]["repositories"], rules["GPU105"]["gpu_hours"]) == (2, 15.0)

    code, out, _ = fleet("report", "first", "--audit", "audit.json")
    assert code == 0
    assert "2 repositories scanned with 4 files, 1 failed" in out
    assert "15.0 audited GPU-hours of 2 repositories, 4.5 of them wasted" in out
    code, out, _ = fleet("report", "first", "-o", "report.html")
    page = Path("report.html").read_text()
    assert "<h2>By team</h2>" in page
    assert "wasted" not in page
    assert "<script" not in page


def _compare(fleet: Fleet, plain: Path) -> None:
    (plain / "job.sh").unlink()
    (plain / "more.sh").write_text("#!/bin/bash\n#SBATCH --gres=gpu:8\npython train.py\n")
    assert fleet("scan", plain, "-o", "second", "--jobs", 1)[0] == 0
    code, out, _ = fleet("compare", "first", "second", "--output-format", "json")
    assert code == 0
    found = json.loads(out)
    changed = {row["code"]: (row["new"], row["fixed"]) for row in found["rules"]}
    assert found["compared"] == 1
    assert changed["GPU105"] == (0, 1)
    assert changed["GPU413"] == (1, 0), changed
    assert [row["run"] for row in found["runs"]] == ["first", "second"]
    assert f"{found['new']} new finding" in fleet("compare", "first", "second")[1]
    assert "Changes by rule" in fleet("compare", "first", "second", "--output-format", "html")[1]


def test_mistakes(fleet: Fleet, tmp_path: Path) -> None:
    source = tree(tmp_path / "net")
    Path("full").mkdir()
    Path("full/file").touch()
    cases = [
        (["scan", "nowhere", "-o", "run"], "nowhere: neither a git address, a folder nor a list"),
        (["scan", source, "-o", "full"], "full: the folder is not empty and holds no run"),
        (["scan", source, "-o", "run", "--select", "NOPE1"], "NOPE1"),
        (["scan", source, "-o", "run", "--address", "127.0.0.1:1"], "Ray cannot be used"),
        (["report", "full"], "full: no run of 'gpulint fleet scan'"),
        (["report", "run"], "run: the run was not finished"),
        (["compare", "run"], "name at least two runs"),
    ]
    for words, message in cases:
        code, out, err = fleet(*words)
        assert (code, out) == (2, ""), words
        assert message in err
    code, _, err = fleet("scan", source, "-o", "run", "--patches")
    assert (code, "use another --output" in err) == (2, True)


def _start(sources: list[Path], run: Path) -> subprocess.Popen[str]:
    scratch = run.with_name("scratch")  # what a killed run cannot delete
    scratch.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "gpulint", "fleet", "scan", *map(str, sources), "-o", str(run), "--jobs", "1"]
    return subprocess.Popen([*command, "--scratch", str(scratch)], stderr=subprocess.PIPE, text=True)


def _done(run: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return (run / "journal.jsonl").read_bytes().count(b"\n")
    return 0


def _wait_until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _kill_workers(parent: int) -> bool:
    """Kill the workers that scan at this moment; between two repositories there is none."""
    killed = False
    for child in psutil.Process(parent).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "ray::scan" in " ".join(child.cmdline()):
                child.kill()
                killed = True
    return killed


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    sources, run = _sources(tmp_path, 12), tmp_path / "run"
    with _start(sources, run) as process:
        _wait_until(lambda: _done(run) >= 2)
        _wait_until(lambda: _kill_workers(process.pid))
        _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    rows = _rows(run, "repositories")
    assert sorted(row["repository"] for row in rows) == sorted(source.name for source in sources)
    assert not [row["failure"] for row in rows if row["failure"]]


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    sources, run = _sources(tmp_path, 6), tmp_path / "run"
    with _start(sources, run) as process:
        _wait_until(lambda: _done(run) >= 2)
        os.kill(process.pid, signal.SIGKILL)
    before = (run / "journal.jsonl").read_bytes()
    with (run / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"repository": {"key": "torn')
    with _start(sources, run) as process:
        _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert f"{len(before.splitlines())} done earlier" in err
    assert (run / "journal.jsonl").read_bytes().startswith(before)
    assert sorted(row["repository"] for row in _rows(run, "repositories")) == sorted(path.name for path in sources)
