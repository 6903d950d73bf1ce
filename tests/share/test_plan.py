"""``gpulint share plan``: who goes where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpulint_share import Profile, ShareError, Value
from gpulint_share.planning.places import parse_gpus
from gpulint_share.planning.plan import Course, _best, plan

from gpulint.cli import main

GIB = 1 << 30
TABLE = """name,card,utilization,sm_activity,memory_activity,memory_mib,minutes,submitted,policy
small-1,A100-40GB,0.4,0.2,0.15,5000,60,0,
small-2,A100-40GB,0.45,0.25,0.2,6000,60,0,
small-3,A100-40GB,0.3,0.15,0.1,4000,90,60,
medium,A100-40GB,0.8,0.5,0.4,14000,120,60,
large,A100-40GB,1.0,0.95,0.85,30000,100,120,
"""


def job(name: str, memory: float, busy: float, hours: float = 1, **more: object) -> Profile:
    figures = {
        "utilization": busy, "sm_activity": busy, "memory_activity": 0.8 * busy, "seconds": hours * 3600,
        "memory_bytes": memory * GIB,
    }  # fmt: skip
    values = {field: Value.of(value, "measured") for field, value in figures.items()}
    return Profile(name, "A100-40GB", **values, **more)  # type: ignore[arg-type]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE)
    return path


def test_light_jobs_share_and_every_job_runs_once(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["share", "plan", str(table), "--gpus", "2xA100-40GB", "--output-format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(one["name"] for one in found["placements"]) == ["large", "medium", "small-1", "small-2", "small-3"]
    by_method = {one["method"]: one for one in found["methods"]}
    assert by_method[found["method"]]["makespan"] < by_method["exclusive"]["makespan"]
    assert by_method[found["method"]]["mean_waiting"] < by_method["exclusive"]["mean_waiting"]
    assert [{one["first"], one["second"]} for one in found["do_not_combine"]] == [{"medium", "large"}]


def test_the_text_says_what_to_do(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["share", "plan", str(table), "--gpus", "2xA100-40GB"]) == 0
    out = capsys.readouterr().out
    assert "5 jobs on 2 GPUs: share by mps" in out
    assert "small-3: a quarter of A100-40GB by MIG 2g.10gb, at 70% of its speed" not in out
    assert "small-3: half of A100-40GB by MIG 3g.20gb, at 85% of its speed" in out
    assert "large: " not in out
    assert "medium and large on A100-40GB: memory: 13.7 + 29.3 GiB and 2 GiB to spare do not fit 40.0 GiB" in out


def test_a_job_that_goes_with_nobody_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"small-{number},A100-40GB,0.2,5000" for number in range(5)]
    (tmp_path / "jobs.csv").write_text(
        "\n".join(["name,card,utilization,memory_mib", *rows, "huge,A100-40GB,0.2,36000"])
    )
    assert main(["share", "plan", str(tmp_path / "jobs.csv"), "--gpus", "2xA100-40GB"]) == 0
    said = capsys.readouterr().out.partition("Do not combine\n")[2].splitlines()
    assert said[0] == (
        "  huge and 5 others on A100-40GB, such as small-0: memory: 4.9 + 35.2 GiB and 2 GiB to spare do not fit 40.0 GiB"
    )
    assert "huge" not in "".join(said[1:])


def test_jobs_never_hold_more_memory_than_the_card_has() -> None:
    jobs = [job(f"j{number}", 5 + number % 4 * 4, 0.1) for number in range(12)]
    found = plan(jobs, ["A100-40GB", "A100-40GB"], "streams").chosen
    for one in found.placements:
        beside = [
            other for other in found.placements
            if other.gpus == one.gpus and other.start <= one.start < other.end
        ]  # fmt: skip
        assert sum(jobs[other.job].memory_bytes.mid for other in beside) <= 40 * GIB  # type: ignore[union-attr]


def test_heavy_jobs_keep_their_gpus() -> None:
    found = plan([job(name, 8, 1.0) for name in "abcd"], ["A100-40GB"] * 2)
    assert found.chosen.method == "exclusive"
    assert found.chosen.makespan == pytest.approx(7200)


def test_a_job_that_asks_to_be_exclusive_is_alone() -> None:
    found = plan([job("a", 4, 0.1, policy="exclusive"), job("b", 4, 0.1)], ["A100-40GB"], "streams").chosen
    assert all(one.beside == () for one in found.placements)


def test_jobs_of_several_gpus_hold_whole_cards() -> None:
    jobs = [job("wide", 8, 0.2, gpus=2), job("a", 4, 0.1), job("b", 4, 0.1)]
    found = plan(jobs, ["A100-40GB"] * 2, "streams").chosen
    wide = next(one for one in found.placements if one.job == 0)
    assert wide.gpus == (0, 1) and wide.beside == ()


def test_mps_is_for_one_user() -> None:
    found = plan([job("a", 4, 0.1, user="ann"), job("b", 4, 0.1, user="bob")], ["A100-40GB"])
    assert "mps" not in [course.method for course in found.others]
    assert any("MPS serves one at a time" in note for note in found.notes)


def test_slices_hold_what_is_put_on_them_and_one_job_at_a_time() -> None:
    jobs = [job(f"j{number}", 8, 0.3) for number in range(6)]
    found = plan(jobs, ["A100-40GB"], "mig").chosen
    assert found.cut and all(one.part for one in found.placements)
    assert "1g.5gb" not in {one.part for one in found.placements}
    for part in {one.part for one in found.placements}:
        count = sum(other.name == part for other in found.cut[0])
        starts = [one for one in found.placements if one.part == part]
        assert all(sum(a.start <= b.start < a.end for a in starts) <= count for b in starts)


def test_a_job_waits_for_its_submission() -> None:
    found = plan([job("a", 4, 0.1, submitted=500.0)], ["A100-40GB"]).chosen
    assert found.placements[0].start == 500 and found.mean_waiting == 0


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        ("0xA100-40GB", "is not COUNTxCARD"),
        ("4xAbacus", "unknown card"),
        ("", "is not COUNTxCARD"),
        ("99999xA30", "at most"),
    ],
)
def test_cards_that_are_not(gpus: str, message: str) -> None:
    with pytest.raises(ShareError, match=message):
        parse_gpus(gpus)


def test_cards_may_be_mixed() -> None:
    assert parse_gpus("2xA100-40GB, H200") == ["A100-40GB", "A100-40GB", "H200"]


def test_methods_that_end_together_differ_by_the_mean_completion() -> None:
    ends = [("streams", 100.0, 60.0), ("mps", 100.5, 50.0), ("mig", 120.0, 40.0)]
    courses = [Course(method, (), (), makespan, 0.0, mean) for method, makespan, mean in ends]
    assert _best(courses).method == "mps"


def test_a_plan_of_too_many_jobs_names_the_command_for_more() -> None:
    with pytest.raises(ShareError, match="2,001 jobs; a plan takes at most 2,000, and gpulint share simulate more"):
        plan([Profile("a")] * 2001, ["H200"])


def test_misuse_is_one_line(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["share", "plan", str(table), "--gpus", "1xT4"]) == 2
    err = capsys.readouterr().err
    assert err == "gpulint: error: job large does not fit these GPUs: too large, or it needs more of them\n"
    assert main(["share", "plan", str(table.with_name("none.csv")), "--gpus", "T4"]) == 2
    assert "No such file" in capsys.readouterr().err
