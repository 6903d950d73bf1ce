"""Reports for people: findings by job, each cause and each copied file once, and what matters most at the top."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulint import engine
from gpulint.cli import main
from gpulint.finding import Place
from gpulint.fix import Edit, Fix, Safety
from gpulint.impact import Impact, Level
from gpulint.report import JobSummary, Report
from gpulint.reporters.excerpt import excerpt, preview
from gpulint.reporters.grouping import names_in
from gpulint.source import SourceText, Span

Jobs = Callable[[Path], list[JobSummary]]
IMPACTS = {
    "high": Impact(Level.HIGH, "every step, 38 MB from pageable memory, 8 GPUs", (0.1, 0.3), (4, 13)),
    "medium": Impact(Level.MEDIUM, "every epoch"),
    "worst": Impact(Level.HIGH, "every step, 99 MB from pageable memory, 8 GPUs", (0.3, 0.6)),
}


@pytest.fixture
def shown(install: object, tree: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a scan prints; a word in a line says what impact its findings have."""
    jobs: list[JobSummary] = []
    real = engine.run

    def run(project: Any, *arguments: Any, **options: Any) -> Report:
        report: Report = real(project, *arguments, **options)
        for number, result in enumerate(report.results):
            found = result.finding
            line = project.document(found.path).cell_source(found.span.cell).line(found.span.line)
            impact = next((impact for word, impact in IMPACTS.items() if word in line), Impact())
            report.results[number] = dataclasses.replace(result, finding=dataclasses.replace(found, impact=impact))
        report.jobs = jobs
        return report

    monkeypatch.setattr(engine, "run", run)

    def call(*options: str, found: list[JobSummary] | None = None) -> str:
        jobs[:] = found or []
        main(("scan", "--no-cache", *options))
        out: str = capsys.readouterr().out
        return out

    return call


def job(tree: Path, launcher: str, gpus: int | None, *programs: str) -> JobSummary:
    place = Place(tree / launcher, Span(1, 1, 1, 2))
    paths = tuple(tree / program for program in programs)
    return JobSummary(place, launcher.partition(".")[0], gpus, paths, (tree / launcher, *paths))


def order(out: str) -> list[str]:
    """Headings, and the places of findings."""
    return re.findall(r"^==> .*|(?<=--> )\S+", out, re.MULTILINE)


def test_findings_stand_with_their_job_the_costliest_first(shown: Any, tree: Path) -> None:
    (tree / "alone.py").write_text("WASTE = 1\n")
    (tree / "one.sh").write_text("echo WASTE medium\n")
    (tree / "two.sh").write_text("echo\n")
    (tree / "train.py").write_text("x = HINT  # high\n")
    jobs = [job(tree, "one.sh", 2), job(tree, "two.sh", 8, "train.py")]
    assert order(shown(found=jobs)) == [
        "==> Job 'two' (two.sh:1 -> train.py): 8 GPUs, an estimated 10-30% of their time lost",
        "train.py:1:5",
        "==> Job 'one' (one.sh:1): 2 GPUs",
        "one.sh:1:6",
        "==> Outside of these jobs",
        "alone.py:1:1",
    ]


def test_a_program_of_several_jobs_is_reported_once(shown: Any, tree: Path) -> None:
    for name in ("a.sh", "b.sh"):
        (tree / name).write_text("echo\n")
    (tree / "train.py").write_text("WASTE\n")
    out = shown(found=[job(tree, "a.sh", 1, "train.py"), job(tree, "b.sh", 4, "train.py")])
    assert order(out) == ["==> Job 'b' (b.sh:1 -> train.py): 4 GPUs", "train.py:1:1"]
    assert "1 more job runs some of these files: a.sh:1" in out


@pytest.mark.parametrize(("program", "leads"), [("test.py", "b"), ("run_eval.py", "b"), ("contest.py", "a")])
def test_a_job_that_only_evaluates_comes_behind_the_training(shown: Any, tree: Path, program: str, leads: str) -> None:
    """What both import is of the training, and what the evaluation alone runs stays with it."""
    for name in ("a.sh", "b.sh"):
        (tree / name).write_text("echo\n")
    for name in ("engine.py", "train.py", program):
        (tree / name).write_text("WASTE\n" if name != "train.py" else "")
    first, second = job(tree, "a.sh", 1, program), job(tree, "b.sh", 1, "train.py")
    jobs = [dataclasses.replace(one, files=(*one.files, tree / "engine.py")) for one in (first, second)]
    headings = [line for line in order(shown("engine.py", found=jobs)) if line.startswith("==>")]
    assert [line.partition("'")[2][0] for line in headings] == [leads]
    (heading, *_) = order(shown(program, found=jobs))
    assert heading.startswith("==> Job 'a'")


@pytest.mark.parametrize(
    ("command", "leads"),
    [
        ("train.py -e --load model.pt", "b"),
        ("train.py --eval_only", "b"),
        ("train.py --load model.pt --test", "b"),
        ("train.py --evaluate=True", "b"),
        ("train.py -e 100", "a"),
        ("train.py --test --epochs 20", "a"),
        ("train.py --name eval", "a"),
    ],
)
def test_a_job_whose_command_asks_for_an_evaluation_comes_behind_the_training(
    tmp_path: Path, capsys: Any, command: str, leads: str
) -> None:
    (tmp_path / "a.sh").write_text(f"#!/bin/bash\n#SBATCH --gres=gpu:1\npython {command}\n")
    (tmp_path / "b.sh").write_text("#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --name last\n")
    (tmp_path / "train.py").write_text(
        "import torch\n\nfor x in loader:\n    model(x.cuda()).sum().backward()\n    torch.cuda.empty_cache()\n"
    )
    for _ in range(2):  # the second time from the cache
        main(["scan", "--isolated", "--impact", "low", "--select", "GPU207", str(tmp_path)])
        assert f"==> Job '{leads}.sh'" in capsys.readouterr().out


def test_the_job_of_a_notebook_is_where_it_starts_its_program(tmp_path: Path, capsys: Any) -> None:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": [text]}
        for text in (
            "import os\n!git clone https://host/kit.git",
            "!pip install torch",
            "# the run\n!python train.py --lr 1",
        )
    ]
    metadata = {"accelerator": "GPU"}
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "run.ipynb").write_text(json.dumps(notebook, indent=1))
    (tmp_path / "train.py").write_text(
        "import torch\n\nfor x in loader:\n    model(x.cuda()).sum().backward()\n    torch.cuda.empty_cache()\n"
    )
    main(["scan", "--isolated", "--no-cache", "--impact", "low", "--select", "GPU207", str(tmp_path)])
    assert "run.ipynb:cell 2:2 -> " in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("message", "headed"), [("called from the training loop here", False), ("a copy", True)])
def test_a_job_that_does_not_run_the_loop_of_a_finding_is_not_its_job(
    shown: Any, tree: Path, monkeypatch: pytest.MonkeyPatch, message: str, headed: bool
) -> None:
    (tree / "run.sh").write_text("echo\n")
    for name in ("meters.py", "train.py", "finetune.py"):
        (tree / name).write_text("WASTE\n" if name == "meters.py" else "")
    scan = engine.run

    def run(*arguments: Any, **options: Any) -> Report:
        report: Report = scan(*arguments, **options)
        for number, result in enumerate(report.results):
            caller = Place(tree / "finetune.py", Span(1, 1, 1, 2), message)
            found = dataclasses.replace(result.finding, related=(caller,))
            report.results[number] = dataclasses.replace(result, finding=found)
        return report

    monkeypatch.setattr(engine, "run", run)
    headings = order(shown(found=[job(tree, "run.sh", 4, "train.py", "meters.py")]))
    assert (headings[0] == "==> Job 'run' (run.sh:1 -> train.py, meters.py): 4 GPUs") is headed
    assert headings[-1] == "meters.py:1:1"


def test_without_jobs_there_are_no_headings(shown: Any, tree: Path) -> None:
    (tree / "b.py").write_text("HINT\nWASTE\n")
    (tree / "a.py").write_text("x = HINT\n")
    out = shown()
    assert order(out) == ["a.py:1:5", "b.py:2:1"]
    assert "also: 1 more place: b.py:1" in out
    assert order(shown("--verbose")) == ["a.py:1:5", "b.py:2:1", "b.py:1:1"]


def test_a_cause_is_shown_once_and_verbose_shows_each_place(shown: Any, tree: Path) -> None:
    (tree / "a.py").write_text("".join(f"x{n} = WASTE\n" for n in range(9)))
    out = shown()
    assert out.count("-->") == 1
    assert "also: 8 more places: a.py:2, a.py:3, a.py:4, a.py:5, a.py:6, a.py:7, ... (--verbose shows all)" in out
    assert "Found 9 findings (9 warnings) in 1 file, those of one cause together (1 shown)." in out
    assert shown("--verbose").count("-->") == 9


def test_the_place_that_costs_most_speaks_for_its_cause(shown: Any, tree: Path) -> None:
    (tree / "a.py").write_text("x = WASTE  # high\ny = WASTE  # worst\n")
    assert order(shown()) == ["a.py:2:5"]


def test_the_fix_of_any_place_of_a_cause_is_shown(shown: Any, tree: Path) -> None:
    (tree / "a.py").write_text("x = WASTE  # KEEP\ny = WASTE\n")
    out = shown()
    assert order(out) == ["a.py:1:5"]
    assert "fix (safe): at a.py:2: Write FIXED instead." in out and "no fix" not in out
    (tree / "a.py").write_text("x = WASTE  # KEEP\ny = WASTE  # KEEP\n")
    assert "no fix: the line says KEEP" in shown()


def test_copies_of_a_file_are_one(shown: Any, tree: Path, notebook: Any) -> None:
    for name in ("a", "b"):
        (tree / name).mkdir()
    (tree / "a" / "train.py").write_text("x = 1\nWASTE = 2\n")
    (tree / "b" / "train.py").write_text("y = 2\nz = 3\nWASTE = 2\n")
    (tree / "first.sh").write_text("echo WASTE\n")
    (tree / "second.sh").write_text("# another name\n\necho WASTE\n")
    (tree / "third.sh").write_text("echo WASTE\necho and more\n")
    (tree / "m.ipynb").write_text(notebook("a = 1", "HINT"))
    (tree / "n.ipynb").write_text(notebook("HINT"))
    (tree / "o.ipynb").write_text(notebook("# The same", "a = 1", "HINT"))
    out = shown()
    assert order(out) == ["a/train.py:2:1", "first.sh:1:6", "m.ipynb:cell", "third.sh:1:6"]
    assert [line.strip() for line in out.splitlines() if "same:" in line] == [
        "same: the same code is also in b/train.py",
        "same: in 1 copy of this file: second.sh",
        "same: in 1 copy of this file: o.ipynb; the same code is also in n.ipynb",
    ]
    assert len(order(shown("--verbose"))) == 8


def test_the_top_names_what_to_do_first(shown: Any, tree: Path) -> None:
    (tree / "a.py").write_text("BOOM\nWASTE\nx = HINT\n")
    assert "Start with" not in shown()
    for name in "bcd":
        (tree / f"{name}.py").write_text(f"HINT_{name} = HINT\n")
    (tree / "run.sh").write_text("echo HINT high\n")
    first, *_ = shown(found=[job(tree, "run.sh", 8)]).split("\n\n")
    assert first.splitlines() == [
        "Start with:",
        "  1. TST102 run.sh:1:6: the word HINT (high impact, 8 GPUs)",
        "  2. TST201 a.py:1:1: BOOM on the first line",
        "  3. TST101 a.py:2:1: the word WASTE (fix: `gpulint fix`)",
    ]
    assert not shown("-q").startswith("Start with")
    first, *_ = shown(found=[job(tree, "run.sh", 16)]).split("\n\n")
    assert "(high impact, 8 GPUs)" in first  # those of its own jobs, as its impact says


def test_an_impact_is_told_with_its_numbers_and_an_unknown_one_is_not(shown: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE  # high\n")
    (tree / "b.py").write_text("WASTE\n")
    known, unknown = shown().split("\n\n")[:2]
    assert "(warning, high impact): the word WASTE" in known
    assert "10-30% of the job's GPU time, 4-13 GPU-hours per run (every step, 38 MB" in re.sub(r"\s+", " ", known)
    assert "impact" not in unknown


def test_long_spans_show_both_ends(tmp_path: Path) -> None:
    source = SourceText("a = 1\nx = call(\n" + "".join(f"    {n},\n" for n in range(6)) + ")\nb = 2\n")
    shown = [
        f"{'' if line.number is None else line.number} {line.text}" for line in excerpt(source, Span(2, 5, 9, 2), 80)
    ]
    assert shown == [
        "1   a = 1",
        "2   x = call(",
        "  _____^",
        "3 |     0,",
        " | ... 4 more lines",
        "8 |     5,",
        "9 | )",
        " |_^",
        "10   b = 2",
    ]


def test_numbers_keep_their_unit_and_code_its_lines() -> None:
    from gpulint.reporters.terminal_text import folded

    text = "each of the processes takes about 38 MB in `a b c` now\nx = 1  # as\n    it is"
    lines = folded(text, 40)
    assert not any(line.endswith(("38", "`a", "b")) for line in lines)
    assert lines[-2:] == ["    x = 1  # as", "        it is"]


@pytest.mark.parametrize(
    ("options", "environment", "colours"),
    [
        (("--color", "always"), {"NO_COLOR": "1"}, True),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {}, False),
    ],
)
def test_who_asks_for_colours_gets_them(
    shown: Any, tree: Path, monkeypatch: pytest.MonkeyPatch, options: Any, environment: dict[str, str], colours: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "FORCE_HYPERLINK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (tree / "a.py").write_text("WASTE\n")
    assert ("\033[" in shown(*options)) == colours


def test_codes_and_paths_are_links_where_the_terminal_shows_them(
    shown: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "a.py").write_text("WASTE\n")
    monkeypatch.setenv("FORCE_HYPERLINK", "1")
    out = shown("--color", "always")
    assert "\033]8;;https://gpulint.github.io/gpulint/rules/tst101-waste-word/\033\\TST101\033]8;;\033\\" in out
    assert f"\033]8;;{(tree / 'a.py').as_uri()}\033\\" in out
    assert "see:" not in out
    monkeypatch.setenv("FORCE_HYPERLINK", "0")
    assert "\033]8" not in shown("--color", "always")


# -- the page for browsers ---------------------------------------------------------------------------------------------


def test_the_page_holds_jobs_findings_and_filters(shown: Any, tree: Path) -> None:
    (tree / "run.sh").write_text("echo WASTE high\n")
    page = shown("--output-format", "html", found=[job(tree, "run.sh", 8)])
    assert page.startswith("<!doctype html>")
    assert '<span class="gpus">8 GPUs</span><h2>run</h2>' in page
    assert "10-30% of the GPU time lost (estimate)" in page
    assert 'data-impact="high" data-category="API Misuse" data-paths="run.sh"' in page
    assert re.search(r'class="remove">.*echo WASTE high</span><span class="add">.*echo FIXED high', page)


def test_the_page_takes_nothing_from_elsewhere(shown: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    page = shown("--output-format", "html")
    assert "default-src 'none'" in page
    assert not re.search(r"<(?:link|img|iframe|object|embed|base)\b|\bsrc=|url\(|@import", page)


def test_nothing_in_names_or_sources_is_markup(shown: Any, tree: Path) -> None:
    evil = "\"'><script>alert(1)</script>&amp;"
    name = evil.replace("/", "-") + ".py"
    (tree / name).write_text(f"x = WASTE  # {evil} \x1b[31m \u202e </pre></details>\n", encoding="utf-8")
    page = shown("--output-format", "html", found=[job(tree, name, 1)])
    assert page.count("<script>") == page.count("</script>") == 1
    assert page.count("</pre>") == page.count("<pre")
    assert "alert(1)&lt;/script&gt;&amp;amp;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_a_page_without_findings_says_so(shown: Any, tree: Path) -> None:
    page = shown("--output-format", "html")
    assert "No findings." in page
    assert "<script>" not in page


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("'log('train loss', loss, step)' makes the host wait", "'log('train loss', loss, step)'"),
        ("'rows[i]['mask'].cpu()' makes the host wait", "'rows[i]['mask'].cpu()'"),
        ("'a' and 'b' are copied with `c('d')`", "'a', 'b', `c('d')`"),
        ("'log('loss', ...' makes the host wait", "'log('loss', ...'"),
        ("it's slow", ""),
    ],
)
def test_code_with_texts_is_quoted_whole(message: str, named: str) -> None:
    assert names_in(message, "another message") == named


def test_the_fix_of_several_places_tells_what_any_of_them_needs(
    shown: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tree / name).write_text(f"x = '{name}'\nWASTE\n")
    needs = {"a.py": "; waits longer", "b.py": "; waits longer; needs a guard", "c.py": "; needs a guard"}
    scan = engine.run

    def run(*arguments: Any, **options: Any) -> Report:
        report: Report = scan(*arguments, **options)
        for number, result in enumerate(report.results):
            assert isinstance(result.fix, Fix)
            fix = dataclasses.replace(result.fix, description="turn it off" + needs[result.finding.path.name])
            report.results[number] = dataclasses.replace(result, fix=fix)
        return report

    monkeypatch.setattr(engine, "run", run)
    assert "fix (safe): turn it off; waits longer; elsewhere: needs a guard\n" in shown()
    assert "fix (safe): turn it off; waits longer; needs a guard\n" in shown("b.py", "c.py")


def test_the_copy_that_costs_most_speaks_for_all(shown: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("archive", "src"):
        (tree / folder).mkdir()
        (tree / folder / "train.py").write_text("WASTE\n")
    levels = {"archive": Impact(Level.LOW, "a copy"), "src": IMPACTS["high"]}
    scan = engine.run

    def run(*arguments: Any, **options: Any) -> Report:
        report: Report = scan(*arguments, **options)
        for number, result in enumerate(report.results):
            found = dataclasses.replace(result.finding, impact=levels[result.finding.path.parent.name])
            report.results[number] = dataclasses.replace(result, finding=found)
        return report

    monkeypatch.setattr(engine, "run", run)
    out = shown("--impact", "low")
    assert order(out) == ["src/train.py:1:1"]
    assert "same: in 1 copy of this file: archive/train.py" in out


def _previewed(source: str, found: Span, *changes: tuple[Span, str]) -> list[str]:
    path = Path("a.py")
    fix = Fix("change it", Safety.SAFE, tuple(Edit(path, span, text) for span, text in changes))
    lines = preview(fix, path, found, lambda *_: SourceText(source), 80)
    return [f"{'' if line.number is None else line.number}{line.kind[:1]} {line.text}" for line in lines]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("a = 1\n\ndef f():\n    pass\n", ["+ @new", "3c def f():"]),
        ("if a:\n    b()\ndef f():\n    pass\n", ["+ @new", "3c def f():"]),
        ("a = 1\nb = 2\ndef f():\n    pass\n", ["2c b = 2", "+ @new"]),
        ("a = 1\n\n\nb = 2\n", ["1c a = 1", "+ @new"]),
    ],
)
def test_the_preview_of_an_insertion_shows_where_it_goes(source: str, shown: list[str]) -> None:
    assert _previewed(source, Span(1, 1, 1, 2), (Span(3, 1, 3, 1), "@new\n")) == shown


def test_a_cut_preview_holds_the_change_nearest_to_the_finding() -> None:
    source = "".join(f"line {number}\n" for number in range(1, 101))
    changes = [(Span(line, 1, line, 5), "LINE") for line in range(2, 100, 4)]
    first = _previewed(source, Span(10, 1, 10, 5), *changes)
    assert first[0] == "2- line 2" and first[-1].startswith("g ...") and first[-1].endswith("diff shows all")
    middle = _previewed(source, Span(66, 1, 66, 5), *changes)
    assert "66- line 66" in middle and "+ LINE 66" in middle
    assert middle[0] == "g ... 27 more lines above" and middle[-1].endswith("diff shows all")
    last = _previewed(source, Span(98, 1, 98, 5), *changes)
    assert last[-2:] == ["98- line 98", "+ LINE 98"] and last[0].endswith("above")
    assert _previewed(source, Span(98, 1, 98, 5), *changes[:8])[0] == "2- line 2", "short ones are whole"


def test_a_preview_shows_lines_between_changes_as_they_are() -> None:
    source = "".join(f"line {number}\n" for number in range(1, 6))
    changes = [(Span(2, 1, 2, 5), "LINE"), (Span(3, 7, 3, 7), "\nadded")]
    shown = ["2- line 2", "+ LINE 2", "3c line 3", "+ added"]
    assert _previewed(source, Span(2, 1, 2, 5), *changes) == shown


@pytest.mark.parametrize(("readme", "leads"), [("python first.py --workers 0\n", "second"), ("", "first")])
def test_a_program_that_a_documented_command_sets_up_differently_does_not_lead(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, readme: str, leads: str
) -> None:
    text = (
        "import argparse\nfrom PIL import Image\nfrom torch.utils.data import DataLoader, Dataset\n\n\n"
        "class Images(Dataset):\n    def __getitem__(self, index):\n"
        "        return self.transform(Image.open(self.paths[index]))\n\n\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--workers', type=int, default=0)\n"
        "args = parser.parse_args()\n{0} = DataLoader(Images(), batch_size=64, num_workers=args.workers)\n"
        "model = Net().cuda()\nfor epoch in range(90):\n    for x in {0}:\n"
        "        model(x.cuda()).mean().backward()\n        optimizer.step()\n"
    )
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(text.format(name))
    (tmp_path / "README.md").write_text(readme)
    monkeypatch.chdir(tmp_path)
    main(("scan", "--no-cache", "--select", "GPU303", "."))
    out = capsys.readouterr().out
    assert f"--> {leads}.py" in out and "1 more place" in out
