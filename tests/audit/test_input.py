"""Input that is wrong: what is said, with file and line, and what is still answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.audit.conftest import JOBS, SAMPLES

Audit = Callable[..., tuple[int, Any, str]]


def _samples(folder: Path, *rows: str, head: str = SAMPLES) -> None:
    (folder / "samples.csv").write_text(head + "".join(f"{row}\n" for row in rows))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["1000,a,0,0.5,0", "1015,a,0,55,0"], "samples.csv:3: gpu_utilization goes up to 55"),
        (["1000,a,0,0.5,0", "1015,a,0,55,0"], "pass --percent gpu_utilization"),
        (["1000,a,0,150,0"], "which is no ratio"),
        (["1000000000000,a,0,0.5,0"], "samples.csv:2: time 1000000000000 is too large for Unix seconds"),
        (["2026-05-01T10:00:00,a,0,0.5,0"], "pass --timezone for times without an offset"),
        (["1000,a,0,0.5,0", "1015,a,0"], "samples.csv:3: Expected Number of Columns: 5 Found: 3"),
        ([], "samples.csv: no samples"),
    ],
)
def test_what_makes_all_figures_doubtful_is_refused(folder: Path, audit: Audit, rows: list[str], said: str) -> None:
    _samples(folder, *rows)
    code, answer, error = audit(folder)
    assert (code, answer) == (2, None)
    assert said in error
    assert error.count("\n") == 1


def test_percent_are_understood_when_they_are_named(folder: Path, audit: Audit) -> None:
    _samples(folder, "1000,a,0,50,0", "1015,a,0,50,0")
    _, answer, _ = audit(folder, "--percent", "gpu_utilization")
    assert answer["jobs"][0]["mean_utilization"] == 0.5


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("b,u,q,,900,800,1,,,,", "jobs.csv:3: end 800 is before start 900"),
        ("b,u,q,,-5,800,1,,,,", "jobs.csv:3: start: -5 is a negative time"),
        ("b,u,q,,2026-05-01 10:00,,1,,,,", "has no time zone; pass --timezone"),
        ("b,u,q,,900,950,some,,,,", "jobs.csv:3: gpus is 'some', which is not a number"),
        ("a,u,q,,900,950,1,,,,", "jobs.csv:3: job 'a' is already defined differently"),
    ],
)
def test_a_job_that_is_wrong_is_left_out_and_said(folder: Path, audit: Audit, row: str, said: str) -> None:
    with (folder / "jobs.csv").open("a") as file:
        file.write(f"{row}\n")
    code, answer, error = audit(folder)
    assert (code, answer["partial"], [job["job"] for job in answer["jobs"]]) == (1, True, ["a"])
    assert said in error
    assert any(said in problem for problem in answer["problems"])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("-5,a,0,0.5,0", "samples.csv:2: samples with negative times are left out"),
        ("1000,a,0,-0.5,0", "samples.csv:2: gpu_utilization is negative; such values count as not seen"),
        ("1000,a,0,N/A,0", "samples.csv:2: 1 values of gpu_utilization are no numbers, such as 'n/a'"),
        ("yesterday,a,0,0.5,0", "samples.csv:2: 1 samples without a usable timestamp are left out"),
    ],
)
def test_a_sample_that_is_wrong_is_not_seen(folder: Path, audit: Audit, row: str, said: str) -> None:
    _samples(folder, row, "1300,a,0,1,0", "1315,a,0,1,0")
    code, answer, error = audit(folder)
    assert said.lower() in error.lower()
    assert (code, answer["jobs"][0]["mean_utilization"], answer["jobs"][0]["never_used_gpus"]) == (1, 1.0, 0)


def test_samples_that_contradict_each_other_are_said_and_equal_ones_only_noted(folder: Path, audit: Audit) -> None:
    _samples(folder, "1000,a,0,0.5,0", "1015,a,0,0.5,0", "1015,a,0,0.5,0")
    code, answer, _ = audit(folder)
    assert (code, answer["jobs"][0]["mean_utilization"]) == (0, 0.5)
    assert "samples.csv:4" in answer["notes"][0]
    _samples(folder, "1000,a,0,0,0", "1015,a,0,0.2,0", "1015,a,0,0.6,0")
    code, answer, error = audit(folder)
    assert (code, answer["jobs"][0]["mean_utilization"]) == (1, 0.3)
    assert "samples.csv:4" in error


def test_overlapping_jobs_are_named(folder: Path, audit: Audit) -> None:
    with (folder / "jobs.csv").open("a") as file:
        file.write("b,u,q,,1500,1700,1,,,,\n")
    rows = [f"{1000 + 15 * i},a,0,0.5,0,n1" for i in range(40)] + [f"{1500 + 15 * i},b,0,0.5,0,n1" for i in range(10)]
    _samples(folder, *rows, head=SAMPLES.replace("\n", ",node\n"))
    _, answer, _ = audit(folder)
    assert any("jobs 'a' and 'b' overlap on GPU 0 of node n1" in note for note in answer["notes"])


def test_times_with_offsets_and_in_a_named_zone_are_the_same_moments(folder: Path, audit: Audit) -> None:
    row = "a,u,q,,2026-05-01T10:00:00+02:00,2026-05-01T11:00:00,1,,,,\n"
    (folder / "jobs.csv").write_text(JOBS + row)
    _samples(folder, "2026-05-01 10:00:00.5,a,0,0.5,0", "2026-05-01T08:00:15.5Z,a,0,0.5,0")
    _, answer, _ = audit(folder, "--timezone", "Europe/Berlin")
    (job,) = answer["jobs"]
    assert (job["start"], job["seconds"], job["coverage"]) == (1777622400.0, 3600.0, pytest.approx(30 / 3600))


def test_half_a_parquet_file_is_an_error_alone_and_left_out_among_others(folder: Path, audit: Audit) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (folder / "samples.csv").unlink()
    table = pa.table(
        {"timestamp": [1000.0, 1015.0], "job": ["a", "a"], "gpu": ["0", "0"], "gpu_utilization": [0.5, 0.5]}
    )
    parquet.write_table(table, folder / "samples.parquet")
    whole = (folder / "samples.parquet").read_bytes()
    (folder / "samples.parquet").write_bytes(whole[: len(whole) // 2])
    code, _, error = audit(folder)
    assert (code, "not a whole Parquet file" in error) == (2, True)
    (folder / "samples").mkdir()
    (folder / "samples.parquet").rename(folder / "samples" / "b.parquet")
    (folder / "samples" / "a.parquet").write_bytes(whole)
    code, answer, error = audit(folder)
    assert (code, answer["jobs"][0]["mean_utilization"]) == (1, 0.5)
    assert "b.parquet" in error


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("samples.csv", b"", "samples.csv: empty file"),
        ("samples.csv", b"\xff\xfe\x00\x01", "not a CSV file in UTF-8"),
        ("samples.csv", b"time,job,gpu,gpu_utilization\n1,a,0,1\n", "no column 'timestamp'; it has time, job"),
        ("jobs.csv", b"id,start\n1,2\n", "jobs.csv: no column 'job'; it has id, start"),
        ("jobs.csv", b"job,start\na\n", "jobs.csv:2: fewer values than the header has columns"),
    ],
)
def test_files_that_are_no_such_tables(folder: Path, audit: Audit, name: str, content: bytes, said: str) -> None:
    (folder / name).write_bytes(content)
    code, _, error = audit(folder)
    assert (code, said in error, error.count("\n")) == (2, True, 1), error


def test_other_columns_are_mapped(folder: Path, audit: Audit) -> None:
    (folder / "use.csv").write_text("when,who,duty\n1000,a,50\n1015,a,100\n")
    mapping = folder / "map.toml"
    text = '[samples]\nfiles = "use.csv"\n[samples.columns]\ntimestamp = "when"\njob = "who"\ngpu = {value = "0"}\n'
    mapping.write_text(text + 'gpu_utilization = {column = "duty", scale = 0.01}\n')
    _, answer, _ = audit(folder, "--mapping", mapping)
    assert answer["jobs"][0]["mean_utilization"] == 0.75
    mapping.write_text(text + 'utilisation = "duty"\n')
    assert "map.toml: [samples.columns]: unknown column 'utilisation'" in audit(folder, "--mapping", mapping)[2]
    assert "gpulint ships alibaba-dlrm-v2025" in audit(folder, "--mapping", "nothing")[2]


def test_a_period_cuts_jobs_and_samples(folder: Path, audit: Audit) -> None:
    _, answer, _ = audit(folder, "--since", "1300", "--until", "1500")
    (job,) = answer["jobs"]
    assert (job["seconds"], job["coverage"], job["mean_utilization"], job["never_used_gpus"]) == (200.0, 1.0, 0.0, 2)


def test_other_bounds_give_other_answers(folder: Path, audit: Audit) -> None:
    for bound, slots in ((300, 900.0), (301, 600.0)):
        _, answer, _ = audit(folder, "--idle-slot", bound)
        assert answer["jobs"][0]["idle_slot_seconds"] == slots
    _, answer, _ = audit(folder, "--gpu-memory", "16GB")
    # The busy GPU has 8 of 16 GB to spare for 300 s, and all of it for the next 300 s; the other one for 600 s.
    phases = answer["jobs"][0]["stable_phases"]
    assert (phases["t480_m4"], phases["t480_m8"], phases["t240_m8"]) == (1200.0, 600.0, 900.0)


def test_a_counter_of_energy_that_is_reset_counts_on_from_zero(folder: Path, audit: Audit) -> None:
    head = SAMPLES.replace("\n", ",energy_j\n")
    _samples(folder, "1000,a,0,1,0,500", "1015,a,0,1,0,3500", "1030,a,0,0,0,100", "1045,a,0,0,0,400", head=head)
    _, answer, _ = audit(folder)
    (job,) = answer["jobs"]
    assert job["energy_kwh"] == pytest.approx((3000 + 100 + 300) / 3.6e6)
    assert job["idle_energy_kwh"] == pytest.approx(300 / 3.6e6)


def test_energy_is_power_over_time_and_gaps_have_none(folder: Path, audit: Audit) -> None:
    head = SAMPLES.replace("\n", ",power_w\n")
    _samples(folder, "1000,a,0,1,0,300", "1015,a,0,0,0,100", "1400,a,0,1,0,300", "1415,a,0,1,0,300", head=head)
    _, answer, _ = audit(folder)
    (job,) = answer["jobs"]
    assert job["energy_kwh"] == pytest.approx((300 * 45 + 100 * 15) / 3.6e6)
    assert (job["coverage"], job["idle_at_end_seconds"]) == (pytest.approx(60 / 1200), 0.0)
