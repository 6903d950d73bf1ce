"""Labels of real code and the programs that score gpulint with them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

VERDICTS = Path(__file__).parents[2] / "benchmarks" / "verdicts"
TRAINER = """\
import torch
from torch.utils.data import DataLoader

def train(data, model, optimizer):
    loader = DataLoader(data, batch_size=512, num_workers=4)
    for images, labels in loader:
        loss = model(images.to("cuda"), labels.to("cuda"))
        loss.backward()
        optimizer.step()
        print(loss.item())
"""
PIN, TRANSFER, SYNC = "pin-memory", "blocking-transfer", "host-sync-in-loop"


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in VERDICTS.glob("*/labels.jsonl")), ids=lambda path: path.name
)
def test_labels_are_well_formed(folder: Path) -> None:
    files = {(row["repo"], row["commit"], row["path"]) for row in _rows(folder / "files.jsonl")}
    mapped = {slug for slugs in json.loads((VERDICTS / "slugs.json").read_text()).values() for slug in slugs}
    labels = _rows(folder / "labels.jsonl")
    assert labels
    for row in labels:
        assert (row["repo"], row["commit"], row["path"]) in files
        assert row["slug"] in mapped, row
        assert row["verdict"] in {"issue", "trap"} and row["why"], row
        assert (row["cell"] >= 0 and row["cell_line"] > 0) if "cell" in row else row["line"] > 0, row


def test_sets_share_no_repository() -> None:
    folders = sorted(path.parent for path in VERDICTS.glob("*/files.jsonl"))
    repositories = [{row["repo"] for row in _rows(folder / "files.jsonl")} for folder in folders]
    assert len(set().union(*repositories)) == sum(map(len, repositories))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The programs beside one small set of labels, and the repository ``owner/name`` to clone."""
    home = tmp_path / "verdicts"
    home.mkdir()
    for path in [*VERDICTS.glob("*.py"), VERDICTS / "slugs.json"]:
        shutil.copy(path, home)
    source = tmp_path / "owner" / "name"
    source.mkdir(parents=True)
    (source / "train.py").write_text(TRAINER)
    git = ["git", "-C", str(source), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["rev-parse", "HEAD"]):
        commit = subprocess.run([*git, *command], check=True, capture_output=True, text=True).stdout.strip()
    (source / "train.py").write_text("")
    subprocess.run([*git, "commit", "-qam", "the labels are of the commit before"], check=True)
    file = {"repo": "owner/name", "commit": commit, "path": "train.py"}
    (home / "tiny").mkdir()
    (home / "tiny" / "files.jsonl").write_text(json.dumps(file) + "\n")
    _label(home, file, (5, PIN, "issue"), (7, TRANSFER, "issue"), (1, "external-data", "issue"), (10, SYNC, "trap"))
    return home


def _label(home: Path, file: dict[str, str], *labels: tuple[int, str, str], **more: Any) -> None:
    rows = [
        {**file, "line": line, "slug": slug, "verdict": verdict, "why": "w", **more} for line, slug, verdict in labels
    ]
    (home / "tiny" / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _python(program: Path, *arguments: str | Path) -> str:
    run = subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def _counts(report: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in report.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows}


def test_a_repository_is_cloned_at_its_commit_scanned_and_scored(home: Path, tmp_path: Path) -> None:
    source = str(tmp_path / "{owner}" / "{name}")
    report = _python(home / "run.py", "--checkouts", tmp_path / "co", "--source", source, "--list")
    counts = _counts(report)
    assert (tmp_path / "co" / "owner+name" / "train.py").read_text() == TRAINER
    assert counts[PIN] == ["1", "0", "1", "0", "0", "0", "1.000", "1.000"]
    assert counts["external-data"] == ["1", "0", "0", "1", "0", "0", "", "0.000"]
    assert counts[SYNC] == ["0", "1", "0", "0", "1", "1", "0.000", ""]
    assert "- external-data owner/name/train.py:1 (w)" in report
    assert "- host-sync-in-loop owner/name/train.py:10 GPU305" in report


@pytest.mark.parametrize(
    ("labels", "reported", "expected"),
    [
        ([(10, {})], [13], (1, 0, 0)),
        ([(10, {})], [14], (0, 1, 0)),
        ([(10, {}), (13, {})], [12, 15], (2, 0, 0)),
        ([(10, {}), (13, {})], [10, 7], (2, 0, 0)),
        ([(10, {}), (13, {})], [10, 6], (1, 1, 0)),
        ([(10, {"alt_lines": [40]})], [41], (1, 0, 0)),
        ([(10, {"also": ["other.py:5"]})], [10, 12], (1, 0, 1)),
        ([(10, {})], [10, 12], (1, 1, 0)),
        ([(10, {"unsure": True})], [10], (0, 0, 1)),
        ([(10, {"verdict": "trap"})], [10], (0, 1, 0)),
        ([(10, {"slug": SYNC, "alt_slugs": [PIN]})], [10], (1, 0, 0)),
        ([(10, {"slug": SYNC})], [10], (0, 1, 0)),
        ([(0, {"cell": 2, "cell_line": 10})], [10], (0, 1, 0)),
    ],
)
def test_findings_are_matched_with_labels(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    labels: list[tuple[int, dict[str, Any]]],
    reported: list[int],
    expected: tuple[int, int, int],
) -> None:
    """Found, false and not counted."""
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.delitem(sys.modules, "labelled", raising=False)
    monkeypatch.delitem(sys.modules, "scoring", raising=False)
    import labelled
    import scoring

    file = _rows(home / "tiny" / "files.jsonl")[0]
    rows = [{**file, "line": line, "slug": PIN, "verdict": "issue", "why": "w", **more} for line, more in labels]
    (home / "tiny" / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scan = [
        {"path": "owner+name/train.py", "line": n, "cell": None, "code": "GPU301", "message": "m"} for n in reported
    ]
    result = scoring.score(labelled.load("tiny"), labelled.findings(scan))
    assert (result.total.found, result.total.false, result.uncounted) == expected


def test_two_scans_are_compared(home: Path, tmp_path: Path) -> None:
    def saved(name: str, *rows: tuple[int, str, str]) -> Path:
        path = tmp_path / name
        keys = ("line", "code", "message")
        place = {"path": "owner+name/train.py", "cell": None}
        path.write_text(json.dumps([{**place, **dict(zip(keys, row, strict=True))} for row in rows]))
        return path

    before = saved(
        "before.json", (5, "GPU301", "same"), (7, "GPU302", "moves"), (8, "GPU305", "old"), (9, "GPU203", "gone")
    )
    after = saved(
        "after.json", (5, "GPU301", "same"), (6, "GPU302", "moves"), (8, "GPU305", "now"), (2, "GPU331", "new")
    )
    (tmp_path / "co" / "owner+name").mkdir(parents=True)
    report = _python(home / "compare.py", "--checkouts", tmp_path / "co", before, after)
    assert report.startswith("1 new, 1 gone, 1 moved, 1 reworded, 1 the same\n")
    assert "- GPU331 owner/name/train.py:2 new (**issue**: w)\n" in report
    assert "- GPU203 owner/name/train.py:9 gone\n" in report
    assert "- GPU302 owner/name/train.py:6 moves (was line 7)\n" in report
    assert "- GPU305 owner/name/train.py:8 now (was: old)\n" in report
