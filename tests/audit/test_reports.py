"""What people and programs get to read."""

from __future__ import annotations

import csv
import html.parser
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("ibis")

from gpulint.cli import main
from tests.audit.conftest import JOBS

Audit = Callable[..., tuple[int, Any, str]]
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "one-gpu-of-two" / "wasteful"


def _text(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["audit", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_summary_says_what_was_wasted_and_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = _text(capsys, folder, "--price", "2", "--currency", "EUR")
    assert "1 job, 0.33 GPU-hours; samples cover 100.0%" in out
    assert "GPU utilization 20.0%; 0.25 GPU-hours without any activity, worth 0.50 EUR" in out
    assert "GPUs that are never used" in out
    assert "1 of 2 GPUs never used" in out


def test_causes_add_up_to_what_was_lost(folder: Path, audit: Audit) -> None:
    _, answer, _ = audit(folder, "--by", "user,week,gpus")
    totals = answer["totals"]
    assert sum(totals["causes"].values()) == pytest.approx(totals["lost_gpu_hours"])
    assert totals["lost_gpu_hours"] == pytest.approx(totals["seen_gpu_hours"] * (1 - totals["utilization"]))
    assert [row["week"] for row in answer["groups"]["week"]] == ["1970-W01"]
    unused = totals["unused_gpu_time"]["other"]
    assert (unused["idle_slots_of_own"], unused["never_used_of_own"], unused["together_of_all"]) == (0.25, 0.5, 0.75)


def test_the_table_is_no_formula(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "jobs.csv").write_text(f"{JOBS}a,=1+1,q,940,1000,1600,2,train,,,\n")
    (row,) = csv.DictReader(io.StringIO(_text(capsys, folder, "--output-format", "csv")))
    assert (row["user"], row["mean_utilization"]) == ("'=1+1", "0.2")


class _Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.links: set[str] = set()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("href", "src"):
                self.links.add(value or "")
            if name == "id":
                self.names.add(f"#{value}")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_self_contained_and_escapes_names(folder: Path) -> None:
    evil = "<script>alert(1)</script>"
    row = f'a,"{evil}",<b>q,940,1000,1600,2,train,COMPLETED,python "" onload=x,\u202e\n'
    (folder / "jobs.csv").write_text(JOBS + row, encoding="utf-8")
    assert main(["audit", str(folder), "-o", str(folder / "audit.html")]) == 0
    text = (folder / "audit.html").read_text(encoding="utf-8")
    page = _Page()
    page.feed(text)
    assert not page.tags & {"script", "b", "img", "link", "iframe"}
    assert evil in page.text
    assert "\u202e" not in text
    assert page.links <= page.names, "nothing outside the page"
    assert "prefers-color-scheme: dark" in text
    for heading in (
        "Waste by day and queue",
        "Utilization of jobs",
        "By user",
        "Jobs that waste most",
        "idle at start, end",
    ):
        assert heading in page.text


def test_messages_go_to_users_with_waste(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = _text(capsys, folder, "--output-format", "digest")
    assert "To: ann\nSubject: 0.25 of your 0.33 GPU-hours were idle" in out
    assert "a, since 1970-01-01 00:16 UTC: 2 GPUs, 20.0% used, 0.25 GPU-hours idle; 1 of 2 GPUs never used" in out
    template = folder / "mine.txt"
    template.write_text("Dear $user, $wasted_share of $costs\n")
    assert main(["audit", str(folder), "--output-format", "digest", "--template", str(template)]) == 2
    assert "mine.txt: unknown placeholder $costs; known are advice" in capsys.readouterr().err


def test_pseudonyms_hide_names_everywhere(folder: Path, audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULINT_AUDIT_KEY", "k")
    first = audit(folder, "--pseudonyms")[1]
    assert '"ann"' not in json.dumps(first)
    assert first["jobs"][0]["user"].startswith("user-")
    assert audit(folder, "--pseudonyms")[1]["jobs"] == first["jobs"]
    monkeypatch.setenv("GPULINT_AUDIT_KEY", "other")
    assert audit(folder, "--pseudonyms")[1]["jobs"][0]["user"] != first["jobs"][0]["user"]


def test_two_periods_are_compared(folder: Path, audit: Audit) -> None:
    _, answer, _ = audit(folder, "--since", "1300", "--baseline", "1000", "1300")
    before, after = answer["baseline"]["before"], answer["baseline"]["after"]
    assert (before["wasted_share"], after["wasted_share"]) == (0.5, 1.0)
    assert answer["baseline"]["users"] == [{"user": "ann", "before": 0.5, "after": 1.0, "change": 0.5}]


def test_findings_stand_beside_the_waste_that_they_explain(folder: Path, audit: Audit) -> None:
    _, answer, _ = audit(folder, "--code", EXAMPLE)
    (joined,) = answer["code"]
    assert joined["agrees"] is True
    (finding,) = joined["explained"]["never_used"]
    assert (finding["code"], finding["impact"]["level"], finding["impact"]["gpu_share"]) == (
        "GPU413",
        "high",
        [0.5, 0.5],
    )
    jobs = (folder / "jobs.csv").read_text()
    (folder / "jobs.csv").write_text(jobs.replace("python train.py", "bash run.sh"))
    (folder / "code.csv").write_text(f"match,path\n*/ann/*,{EXAMPLE.parent / 'repaired'}\n")
    (joined,) = audit(folder, "--code", folder / "code.csv")[1]["code"]
    assert (joined["agrees"], joined["explained"]["never_used"]) == (False, [])
    (folder / "code.csv").write_text("match,path\nsomething,.\n")
    (joined,) = audit(folder, "--code", folder / "code.csv")[1]["code"]
    assert (joined["agrees"], joined["note"]) == (None, "no checkout of its code is known: see --code")


def test_an_estimate_stands_beside_what_was_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(_text(capsys, folder, "--code", EXAMPLE).split())
    assert "high impact: 50% of the job's GPU time" in out
    assert "the estimate fits the measured 50.0%" in out
    # The second GPU is busy after all, and the first is not for most of the time.
    rows = [f"{1000 + 15 * i},a,{gpu},{0.5 if i < 6 or gpu else 0},0\n" for i in range(40) for gpu in (0, 1)]
    (folder / "samples.csv").write_text("timestamp,job,gpu,gpu_utilization,gpu_memory_bytes\n" + "".join(rows))
    out = " ".join(_text(capsys, folder, "--code", EXAMPLE).split())
    assert "the code and the series do not agree" in out


def test_reports_beside_a_baseline_are_about_the_later_period(folder: Path) -> None:
    period = ["--since", "1000", "--until", "1400", "--baseline", "1400", "1600"]
    assert main(["audit", str(folder), *period, "-o", str(folder / "audit.html")]) == 0
    page = (folder / "audit.html").read_text(encoding="utf-8")
    # One GPU is busy for 300 s of these 400 s: 120 of 160 buckets, of 6 each.
    assert 'class="used" x="0.0" y="8.0" width="720.0"' in page


def test_weeks_are_in_their_order_and_numbers_of_gpus_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    day = 86400
    jobs = [f"j{week},ann,q,,{week * 7 * day},{week * 7 * day + 60 * (week + 1)},2,train,,,\n" for week in range(8)]
    (folder / "jobs.csv").write_text(JOBS + "".join(jobs))
    rows = [f"{week * 7 * day + at},j{week},0,0,0\n" for week in range(8) for at in range(0, 60 * (week + 1), 15)]
    (folder / "samples.csv").write_text("timestamp,job,gpu,gpu_utilization,gpu_memory_bytes\n" + "".join(rows))
    out = _text(capsys, folder, "--by", "week,gpus")
    shown = [line.split()[0] for line in out.splitlines() if line.startswith("19")]
    assert shown == ["1970-W04", "1970-W05", "1970-W06", "1970-W07", "1970-W08"]
    assert "\n2        8" in out


def test_phases_are_shares_of_the_time_with_known_memory(folder: Path, audit: Audit) -> None:
    rows = [f"{1000 + 15 * i},a,{gpu},{'' if i < 10 else 0.5},0,16e9\n" for i in range(40) for gpu in (0, 1)]
    head = "timestamp,job,gpu,gpu_utilization,gpu_memory_bytes,gpu_memory_total_bytes\n"
    (folder / "samples.csv").write_text(head + "".join(rows))
    _, answer, _ = audit(folder)
    assert answer["totals"]["stable_phases"]["t60_m8"] == 1.0


def test_pseudonyms_hide_names_in_notes_and_paths(tmp_path: Path, audit: Audit) -> None:
    folder = tmp_path / "ann"
    folder.mkdir()
    (folder / "jobs.csv").write_text(f"{JOBS}ann-1,ann,q,940,1000,1600,1,train,,,\nann-2,ann,q,,900,800,1,,,,\n")
    (folder / "samples.csv").write_text("timestamp,job,gpu,gpu_utilization\n1000,ann-1,0,0.5\n1015,ann-1,0,0\n")
    code, answer, error = audit(folder, "--pseudonyms")
    assert code == 1
    assert "ann" not in json.dumps({name: answer[name] for name in ("problems", "sources", "jobs", "notes")})
    assert "ann" not in error


def test_code_is_never_run(folder: Path, audit: Audit) -> None:
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    audit(folder, "--code", folder / "code")
    assert not (folder / "ran").exists()
