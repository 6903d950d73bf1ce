"""The fix engine keeps what it promises whatever fixers do."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from gpulint import writing
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, NewFile, Safety
from gpulint.project import Project
from gpulint.source import Span
from tests.fixes.engine.conftest import Repair, replacing


def notebook(*cells: str) -> str:
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    return json.dumps({"cells": [{**code, "source": text} for text in cells], "metadata": {}, "nbformat": 4})


def at_keep(text: str) -> Repair:
    """Breaks the file on lines that say KEEP, and repairs all others."""

    def repair(finding: Finding, project: Project) -> Fix:
        document = project.document(finding.path)
        assert document is not None
        line = document.cell_source(finding.span.cell).line(finding.span.line)
        return Fix("repair", Safety.SAFE, (Edit(finding.path, finding.span, text if "KEEP" in line else "FIXED"),))

    return repair


@pytest.mark.parametrize(
    ("name", "text", "breaking"),
    [
        ("a.py", "x = WASTE\ny = WASTE  # KEEP\nz = WASTE\n", "("),
        ("a.ipynb", notebook("x = WASTE", "!ls\ny = WASTE  # KEEP", "z = WASTE\n%time x"), "("),
        ("a.ipynb", notebook("x = WASTE", "%%bash\necho WASTE  # KEEP", "z = WASTE\n%time x"), "; fi ("),
        ("a.sh", "echo WASTE\necho WASTE # KEEP\necho WASTE\n", "; fi ("),
        (
            "a.yaml",
            "kind: Pod\nspec:\n  containers:\n  - command: [python, WASTE]\n    image: WASTE # KEEP\n    name: WASTE\n",
            "'gpu",
        ),
        ("Dockerfile", "FROM WASTE\nRUN echo WASTE # KEEP\nLABEL x=WASTE\n", "\nNOSUCH x"),
        ("a.py", "WASTE\nx = 1\nWASTE  # KEEP\n", "from __future__ import annotations"),
        ("a.py", "WASTE\nx = 1\nWASTE  # KEEP\n", "return"),
    ],
)
def test_a_fix_that_breaks_its_file_is_dropped_and_the_others_are_done(
    fix: Any, repairs: Any, tree: Path, name: str, text: str, breaking: str
) -> None:
    repairs["TST101"] = at_keep(breaking)
    (tree / name).write_text(text)
    code, out, err = fix("--apply")
    assert code == 1
    kept = (tree / name).read_text()
    assert kept.count("FIXED") == text.count("WASTE") - 1
    assert kept.count("WASTE") == 1
    assert f"{name}: {text.count('WASTE') - 1} fix" in out
    (message,) = err.splitlines()
    assert message.startswith(f"{name}:")
    assert f"TST101 was not fixed: {name} could no longer be read: " in message


def test_a_file_that_was_broken_in_parts_may_stay_so(fix: Any, tree: Path) -> None:
    (tree / "a.ipynb").write_text(notebook("x = (", "WASTE\n"))
    code, _, err = fix("--apply")
    assert code == 1
    assert err.count("syntax error") == 1
    assert "FIXED" in (tree / "a.ipynb").read_text()


def test_fixes_build_on_each_other(fix: Any, repairs: Any, tree: Path) -> None:
    repairs["TST101"] = replacing("RISK")
    repairs["TST104"] = replacing("DONE")
    repairs["TST102"] = replacing("FIXED", Safety.UNSAFE)
    (tree / "a.py").write_text("WASTE\n")
    _, out, _ = fix("--unsafe-fixes", "--select", "TST101,TST102,TST104", "--output-format", "json")
    assert [(one["code"], one["round"], one["applied"]) for one in json.loads(out)] == [
        ("TST101", 1, True),
        ("TST102", 2, True),
        ("TST104", 3, True),
    ]
    fix("--apply", "--unsafe-fixes", "--select", "TST101,TST102,TST104")
    assert (tree / "a.py").read_text() == "DONE\n"


def test_a_fix_that_does_not_silence_its_finding_is_not_done(fix: Any, repairs: Any, tree: Path) -> None:
    repairs["TST101"] = at_keep("WASTE + 1")
    (tree / "a.py").write_text("WASTE\nWASTE # KEEP\nWASTE\n")
    code, _, err = fix("--apply")
    assert code == 1
    assert err == "a.py:2:1: TST101 was not fixed: the fix does not silence its finding\n"
    assert (tree / "a.py").read_text() == "FIXED\nWASTE # KEEP\nFIXED\n"


def test_two_fixers_that_undo_each_other_come_to_an_end(fix: Any, repairs: Any, tree: Path) -> None:
    repairs["TST104"] = replacing("WASTE")
    (tree / "a.py").write_text("WASTE\n")
    code, _, err = fix("--apply", "--select", "TST101,TST104")
    assert code == 1
    assert err == "a.py:1:1: TST104 was not fixed: it undoes another fix\n"
    assert (tree / "a.py").read_text() == "FIXED\n"


def test_a_fix_that_makes_work_for_ever_comes_to_an_end(fix: Any, repairs: Any, tree: Path) -> None:
    repairs["TST101"] = replacing("x, WASTE")
    (tree / "a.py").write_text("WASTE\n")
    code, _, err = fix("--apply")
    assert code == 1
    assert err.endswith("TST101 was not fixed: fixes do not come to an end after 10 rounds\n")


def test_a_line_that_moves_up_to_a_repaired_place_is_no_failure(fix: Any, repairs: Any, tree: Path) -> None:
    def remove(finding: Finding, project: Project) -> Fix | Declined:
        document = project.document(finding.path)
        assert document is not None
        line = finding.span.line
        if "KEEP" in document.source.line(line):
            return Declined("the line says KEEP")
        return Fix("remove", Safety.SAFE, (Edit(finding.path, Span(line, 1, line + 1, 1), ""),))

    repairs["TST101"] = remove
    (tree / "a.sh").write_text("WASTE\nWASTE # KEEP\n")
    code, out, err = fix("--apply")
    assert (code, err) == (0, "")
    assert (tree / "a.sh").read_text() == "WASTE # KEEP\n"
    assert "1 finding not fixed:\n  a.sh:2:1: TST101: the line says KEEP\n" in out


def test_findings_with_one_reason_are_listed_under_it(fix: Any, tree: Path, repairs: dict[str, Repair]) -> None:
    repairs["TST101"] = lambda finding, project: Declined(f"line {finding.span.line % 2} is special")
    (tree / "a.sh").write_text("WASTE\nWASTE\nWASTE\n")
    assert (
        "3 findings not fixed:\n"
        "  2 x TST101: line 1 is special:\n"
        "    a.sh:1:1, a.sh:3:1\n"
        "  a.sh:2:1: TST101: line 0 is special\n"
    ) in fix()[1]
    (tree / "a.sh").write_text("WASTE\n\n" * 7)
    places = ", ".join(f"a.sh:{line}:1" for line in (1, 3, 5, 7, 9))
    assert f"    {places}, and 2 more (--output-format json has all)\n" in fix()[1]


def test_a_comment_inside_of_what_is_replaced_is_not_lost(fix: Any, repairs: Any, tree: Path) -> None:
    def replace_lines(finding: Finding, project: Project) -> Fix:
        line = finding.span.line
        return Fix("x", Safety.SAFE, (Edit(finding.path, Span(line, 1, line + 1, 2), "FIXED)"),))

    repairs["TST101"] = replace_lines
    text = "(\nWASTE # why\n)\nx = (\nWASTE + '#'\n)\n"
    (tree / "a.py").write_text(text)
    code, _, err = fix("--apply")
    assert code == 1
    assert err == "a.py:2:1: TST101 was not fixed: the comment '# why' would be lost\n"
    assert (tree / "a.py").read_text() == text.replace("WASTE + '#'\n", "FIXED")


def test_overlapping_edits_of_one_fix(fix: Any, repairs: Any, tree: Path) -> None:
    def overlapping(finding: Finding, project: Project) -> Fix:
        span = Span(finding.span.line, 1, finding.span.line, 3)
        return Fix("x", Safety.SAFE, (Edit(finding.path, finding.span, "A"), Edit(finding.path, span, "B")))

    repairs["TST101"] = overlapping
    (tree / "a.py").write_text("WASTE\n")
    code, _, err = fix("--apply")
    assert code == 3
    assert "a.py: error in TST101 fixer of the plugin words: it returns edits that overlap in line 1\n" in err
    assert (tree / "a.py").read_text() == "WASTE\n"


@pytest.mark.parametrize("span", [Span(2, 5, 2, 9), Span(9, 1, 9, 1), Span(1, 4, 1, 2)])
def test_edits_of_no_place(fix: Any, repairs: Any, tree: Path, span: Span) -> None:
    repairs["TST101"] = lambda finding, project: Fix("x", Safety.SAFE, (Edit(finding.path, span, "FIXED"),))
    (tree / "a.py").write_text("WASTE\nx\ny = 1\n")
    code, _, err = fix("--apply")
    assert code == 3
    assert "a.py: error in TST101 fixer of the plugin words: " in err
    assert (tree / "a.py").read_text() == "WASTE\nx\ny = 1\n"


# -- several files -----------------------------------------------------------------------------------------------------


def everywhere(finding: Finding, project: Project) -> Fix:
    """Changes all files of the project, and brings one."""
    edits = [Edit(path, Span(1, 1, 1, 6), "FIXED") for path in project.files if path.name != "gpulint.toml"]
    return Fix("all", Safety.SAFE, tuple(edits), (NewFile(project.root / "new.txt", "made\n"),))


@pytest.fixture
def pair(tree: Path, repairs: Any) -> list[Path]:
    repairs["TST101"] = everywhere
    files = [tree / "a.py", tree / "b.sh"]
    for path in files:
        path.write_text("WASTE\n")
    return files


def test_a_fix_of_several_files_and_a_new_one(fix: Any, pair: list[Path], tree: Path) -> None:
    out = fix()[1]
    assert "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+made\n" in out
    assert not (tree / "new.txt").exists()
    code, out, _ = fix("--apply", "a.py", "b.sh")
    assert code == 0
    assert "new.txt: new file, 2 fixes (TST101 x 2)" in out
    assert [path.read_text() for path in (*pair, tree / "new.txt")] == ["FIXED\n", "FIXED\n", "made\n"]


def test_a_new_file_never_takes_the_place_of_another(fix: Any, pair: list[Path], tree: Path) -> None:
    (tree / "new.txt").write_text("mine\n")
    code, _, err = fix("--apply")
    assert code == 1
    assert "new.txt exists already" in err
    assert [path.read_text() for path in (*pair, tree / "new.txt")] == ["WASTE\n", "WASTE\n", "mine\n"]


@pytest.mark.parametrize("obstacle", ["read-only", "too short", "changed meanwhile"])
def test_all_files_or_none(
    fix: Any, pair: list[Path], tree: Path, obstacle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "WASTE\n"
    match obstacle:
        case "read-only":
            pair[1].chmod(0o444)
        case "too short":
            pair[1].write_text(other := "ls\n")
        case _:
            check = writing._check_unchanged

            def changing(job: Any) -> None:
                if job.name == "b.sh":
                    job.change.path.write_text("somebody else\n")
                check(job)

            monkeypatch.setattr(writing, "_check_unchanged", changing)
            other = "somebody else\n"
    code, _, err = fix("--apply")
    assert code == 1
    assert "b.sh" in err
    assert [path.read_text() for path in pair] == ["WASTE\n", other]
    assert sorted(path.name for path in tree.iterdir()) == ["a.py", "b.sh", "gpulint.toml"]


def test_standard_input_takes_no_fix_of_several_files(
    fix: Any, pair: list[Path], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"WASTE\n")))
    code, out, err = fix("--stdin-filename", "a.py")
    assert (code, out) == (1, "WASTE\n")
    assert "it would change other files, not only standard input" in err


@pytest.mark.parametrize(
    ("where", "expected", "message"),
    [
        ("../outside.py", 3, "a.py: error in TST101 fixer of the plugin words: "),
        ("ignored.py", 1, "which is not among the files of the project"),
    ],
)
def test_files_that_are_none_of_the_project_are_not_changed(
    fix: Any, repairs: Any, tree: Path, where: str, expected: int, message: str
) -> None:
    path = (tree / where).resolve()
    path.write_text("WASTE\n")
    (tree / "gpulint.toml").write_text('extend-exclude = ["ignored.py"]\n')
    repairs["TST101"] = lambda finding, project: Fix(
        "x", Safety.SAFE, (Edit(finding.path, finding.span, "FIXED"), Edit(path, Span(1, 1, 1, 6), "FIXED"))
    )
    (tree / "a.py").write_text("WASTE\n")
    code, _, err = fix("--apply")
    assert code == expected
    assert message in err
    assert (tree / "a.py").read_text() == path.read_text() == "WASTE\n"


def test_a_reason_names_lines_of_the_file_of_the_user(fix: Any, repairs: Any, tree: Path) -> None:
    """The first fix removes two lines above, and a second scan gives the reason."""

    def repair(finding: Finding, project: Project) -> Fix | Declined:
        document = project.document(finding.path)
        assert document is not None
        lines = document.source.text.splitlines()
        if lines[finding.span.line - 1].startswith("first"):
            return Fix("remove it", Safety.SAFE, (Edit(finding.path, Span(1, 1, 3, 1), ""),))
        other = project.document(tree / "b.py")
        assert other is not None
        here, there = lines.index("waits()") + 1, other.source.text.splitlines().index("waits()") + 1
        return Declined(f"every step waits in line {here} as well, and in line {there} of b.py")

    repairs["TST101"] = repair
    (tree / "a.py").write_text("first = WASTE\n\nx = 1\ny = WASTE\nwaits()\n")
    (tree / "b.py").write_text("x = 1\nwaits()\n")
    _, out, _err = fix("--output-format", "json")
    found = {one["line"]: one for one in json.loads(out)}
    assert found[1]["state"] == "applied"
    assert found[4]["reason"] == "every step waits in line 5 as well, and in line 2 of b.py"


def line_by_line(*texts: str) -> Repair:
    """Replaces each line by a text of its own."""

    def repair(finding: Finding, project: Project) -> Fix:
        document = project.document(finding.path)
        assert document is not None
        lines = document.cell_source(finding.span.cell).text.splitlines()
        spans = [Span(number, 1, number, len(line) + 1, finding.span.cell) for number, line in enumerate(lines, 1)]
        edits = (Edit(finding.path, span, text) for span, text in zip(spans, texts, strict=True))
        return Fix("repair", Safety.SAFE, tuple(edit for edit in edits if edit.text != lines[edit.span.line - 1]))

    return repair


@pytest.mark.parametrize("layout", ["f(\n    a,\n    b,\n)", "f(a, b,)", "f( a,b )", "f(a,\n  b)"])
@pytest.mark.parametrize("name", ["a.py", "a.ipynb"])
def test_edits_of_the_layout_alone_are_dropped(fix: Any, repairs: Any, tree: Path, layout: str, name: str) -> None:
    repairs["TST101"] = line_by_line(layout, "FIXED")
    text = "f(a, b)\nWASTE\n"
    (tree / name).write_text(notebook(text) if name.endswith("ipynb") else text)
    fix("--apply")
    after = (tree / name).read_text()
    assert ("".join(json.loads(after)["cells"][0]["source"]) if name.endswith("ipynb") else after) == (
        "f(a, b)\nFIXED\n"
    )


@pytest.mark.parametrize(
    "new", ["f((a, b))", "f(a, b, c)", "f(a,\n  b)  # why", "x = (f(a, b),)", "if f(a, b):\n    g"]
)
def test_edits_that_change_more_than_the_layout_are_done(fix: Any, repairs: Any, tree: Path, new: str) -> None:
    repairs["TST101"] = line_by_line(new, "FIXED")
    (tree / "a.py").write_text("f(a, b)\nWASTE\n")
    fix("--apply")
    assert (tree / "a.py").read_text() == f"{new}\nFIXED\n"


def test_edits_that_only_together_change_more_than_the_layout_are_done(fix: Any, repairs: Any, tree: Path) -> None:
    def repair(finding: Finding, project: Project) -> Fix:
        first, behind = Span(1, 9, 1, 10), Span(1, 10, 1, 10)
        edits = (Edit(finding.path, first, "b,"), Edit(finding.path, behind, " c"))
        return Fix("repair", Safety.SAFE, (*edits, Edit(finding.path, finding.span, "FIXED")))

    repairs["TST101"] = repair
    (tree / "a.py").write_text("x = f(a,b)\nWASTE\n")
    fix("--apply")
    assert (tree / "a.py").read_text() == "x = f(a,b, c)\nFIXED\n"


def test_a_fix_of_the_layout_alone_is_not_offered(fix: Any, repairs: Any, tree: Path) -> None:
    repairs["TST101"] = line_by_line("WASTE(\n    a,\n)")
    (tree / "a.py").write_text("WASTE(a)\n")
    _, out, err = fix("--apply")
    assert "it would only change the layout of the code" in out + err
    assert (tree / "a.py").read_text() == "WASTE(a)\n"
