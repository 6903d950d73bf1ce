"""A report is there whole or not at all, and an older one stays where a new one cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpulint_probe.export import write_csv
from gpulint_probe.recording import Recording, RecordingError
from gpulint_probe.replacing import replacing

from tests.probe.test_reports import job

FORMATS = {"html": "--html", "json": "--json", "gpu.csv": "--csv", "jsonl": "-o"}


@pytest.fixture(autouse=True)
def usual_rights() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "report"
    with replacing(path) as file:
        file.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_an_older_file_stays_if_anything_goes_wrong(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("old")
    path.chmod(0o600)
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with pytest.raises((RecordingError, KeyboardInterrupt)), replacing(path) as file:
            file.write_text("half")
            raise error
    assert path.read_text() == "old"
    with replacing(path) as file:
        file.write_text("new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with replacing(link) as file:
        file.write_text("new")
    assert link.is_symlink() and target.read_text() == "new"


def test_devices_are_written_to_and_pipes_without_a_reader_are_not(tmp_path: Path) -> None:
    with replacing(Path(os.devnull)) as file:
        file.write_text("x")
    assert Path(os.devnull).is_char_device()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecordingError, match="nobody reads"), replacing(tmp_path / "pipe"):
        raise AssertionError("not reached")


def _probe(*words: object, limit: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpulint", "probe", "--source", "none", "--no-findings", *map(str, words)]
    limited = ["bash", "-c", f'{limit or ":"}; exec "$@"', "bash", *command]
    kept = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # the limit would cut compiled modules short
    return subprocess.run(limited, capture_output=True, text=True, timeout=120, env=kept)


@pytest.mark.parametrize("exists", [False, True])
def test_a_full_disk_leaves_no_half_report_and_the_jobs_exit_code(tmp_path: Path, exists: bool) -> None:
    report = tmp_path / "run.html"
    if exists:
        report.write_text("old")
    done = _probe("--html", report, "--", sys.executable, "-c", "raise SystemExit(7)", limit="ulimit -f 4")
    assert done.returncode == 7
    assert "run.html: File too large" in done.stderr
    assert "gpulint probe: " in done.stderr  # the summary is there nevertheless
    assert [path.name for path in tmp_path.iterdir()] == ["run.html"] * exists
    assert not exists or report.read_text() == "old"


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_file_of_a_replay_is_written_whole_or_stays(tmp_path: Path, suffix: str) -> None:
    source, out = tmp_path / "source.jsonl", tmp_path / "out"
    job().write(source)
    out.mkdir()
    report = out / f"run.{suffix}"
    report.write_text("old")
    target = out / "run" if suffix == "gpu.csv" else report
    done = _probe("--replay", source, FORMATS[suffix], target, limit="ulimit -f 1")
    assert done.returncode == 2
    assert "File too large" in done.stderr and report.name in done.stderr
    assert report.read_text() == "old"
    assert not [path for path in out.iterdir() if path.suffix == ".tmp"]


def test_one_file_that_cannot_be_written_does_not_cost_the_others(tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    job().write(source)
    good = tmp_path / "good.html"
    done = _probe(
        "--replay", source, "--json", tmp_path / "no/where.json", "--html", good, "--csv", tmp_path / "run.csv"
    )
    assert done.returncode == 2
    assert "no/where.json: No such file" in done.stderr
    assert good.read_text().rstrip().endswith("</html>") and (tmp_path / "run.gpu.csv").exists()
    assert "gpulint probe: " in done.stdout


def test_a_recording_survives_the_death_of_the_probe(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    command = [sys.executable, "-m", "gpulint", "probe", "--source", "none", "--interval", "0.1s", "-o", output, "--"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed probe deletes nothing
    process = subprocess.Popen([*map(str, command), "sleep", "60"], stderr=subprocess.DEVNULL, env=environment)
    try:
        while not output.exists() or output.read_text().count('"line":"host"') < 3:
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    found = Recording.read(output)
    assert len(found.host_samples) >= 3 and found.ended is None


def test_tables_are_named_when_they_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"no/run\.gpu\.csv: No such file"):
        write_csv(job(), tmp_path / "no/run.csv")
