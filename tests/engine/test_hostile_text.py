"""What names, files, settings and plugins hold is shown on terminals and in logs, and nothing in it is obeyed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from gpulint.cli import main
from gpulint.documents import Document
from gpulint.escaping import no_command, printable
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.hooks import hookimpl
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.source import Span

EVIL = "\n::error file=x::PWNED\r\n##[error]PWNED\v\f\x85\u2028\u2029##vso[task.x]\x1b[31m\x1b]0;t\x07\x9b1m\x7f\u202e\u2066[red]\udcff"
"""Line ends of all kinds, commands of CI systems, sequences that a terminal obeys, and a byte that is no text."""
ODD = "\x1b[31m\r\x9b\u202e\udcff"
NAMES = [
    "::error file=x::PWNED.py",
    "  ::warning::PWNED.py",
    "##[error]PWNED.py",
    "##vso[task.setvariable variable=x]y.py",
    "a\n::error file=x::PWNED.py",
    "b\r::error::PWNED.py",
    "c\x1b[31m\x07\x85\u2028\u202e.py",
    "d\udcff.py",
    "[red]e[link=http:x].py",
    "f,g:h%0A%.py",
]


def obeyed(text: str) -> list[str]:
    """Lines that a terminal or a CI system would obey; tabs are harmless."""
    text = text.replace("\t", " ")
    bad = [
        line
        for line in text.split("\n")
        if any(unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs") for char in line)
    ]
    bad += [
        line
        for line in text.split("\n")
        if any("\u202a" <= char <= "\u202e" or "\u2066" <= char <= "\u2069" for char in line)
    ]
    return bad + [line for line in text.split("\n") if re.match(r"\s*::", line) or re.search(r"##(vso)?\[", line)]


def _check(document: Document, project: Project) -> Iterator[Finding]:
    for number, line in enumerate(document.source.text.split("\n"), 1):
        if "WASTE" in line:
            span = Span(number, line.index("WASTE") + 1, number, line.index("WASTE") + 6)
            related = (Place(document.path, span, "near" + EVIL),)
            yield RULE.finding(document.path, span, "message" + EVIL, help="help" + EVIL, related=related)


def _fix(finding: Finding, project: Project) -> Fix | Declined:
    if "KEEP" in project.data(finding.path).decode("latin-1"):
        return Declined("reason" + EVIL)
    return Fix("description" + EVIL, Safety.SAFE, (Edit(finding.path, finding.span, "FIXED"),))


RULE = Rule(
    code="EVL101",
    name="evil-text",
    category=Category.API_MISUSE,
    dimension=Dimension.LIBRARY,
    severity=Severity.WARNING,
    kinds=frozenset(Kind),
    summary="The evil text",
    why="Text is not free.",
    evidence=(Evidence("3 %"),),
    check=_check,
    fix=Safety.SAFE,
    bad="bad" + EVIL,
)


class EvilPlugin:
    @hookimpl
    def gpulint_rules(self) -> list[Rule]:
        return [RULE]

    @hookimpl
    def gpulint_fixers(self) -> list[Fixer]:
        return [Fixer("EVL101", _fix)]


@pytest.fixture
def names(tree: Path) -> list[str]:
    for name in NAMES:
        (tree / name).write_text(
            "x = 1  # KEEP\n" + "WASTE" + "  # " + ODD[:2] + "\u202e\n" if "d" in name else "x = WASTE\n"
        )
    (tree / "deep").mkdir()
    (tree / "deep" / "x\n::error::y.py").write_bytes(b"def f(:\n")
    return NAMES


@pytest.fixture
def scan(install: Any, tree: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[int, str, str]]:
    install("evil", EvilPlugin)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capfdbinary.readouterr()
        return code, out.decode("utf-8"), err.decode("utf-8")

    return call


SELECTED = ("--select", "EVL101")


@pytest.mark.parametrize("form", ["full", "concise", "github"])
@pytest.mark.parametrize("colour", [False, True])
def test_text_formats(scan: Any, names: list[str], form: str, colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if colour:
        monkeypatch.setenv("FORCE_COLOR", "1")
    code, out, err = scan("scan", "--no-cache", "--output-format", form, "--statistics", "--show-notes", *SELECTED)
    assert code == 1
    out = re.sub(r"\x1b\[[\d;]*m", "", out) if colour else out
    if form == "github":
        commands = [line for line in out.split("\n") if line]
        assert len(commands) == len(names)
        assert all(line.startswith("::warning file=") and line.count("::") >= 2 for line in commands)
        out = "\n".join(line.removeprefix("::warning file=") for line in commands)
        assert not re.search(r"::(error|warning)\b", "\n".join(line.partition("::")[0] for line in commands))
    assert obeyed(out) == []
    assert obeyed(err) == []
    assert "x\\n::error::y.py" in err


def test_a_name_that_would_be_a_command_is_still_a_path(scan: Any, tree: Path) -> None:
    (tree / NAMES[0]).write_text("WASTE\n")
    _, out, _ = scan("scan", "--no-cache", "--output-format", "concise", *SELECTED)
    assert out.startswith("./::error file=x::PWNED.py:1:1: EVL101")


def test_github_properties_are_escaped_as_its_toolkit_does(scan: Any, tree: Path) -> None:
    (tree / "f,g:h%0A%.py").write_text("WASTE\n")
    (tree / "n\nm.py").write_text("WASTE\n")
    _, out, _ = scan("scan", "--no-cache", "--output-format", "github", *SELECTED)
    assert out.split("\n")[0].startswith("::warning file=f%2Cg%3Ah%250A%25.py,title=EVL101 evil-text,line=1,")
    assert out.split("\n")[1].startswith("::warning file=n%0Am.py,")


@pytest.mark.parametrize("form", ["json", "sarif", "junit", "gitlab", "rdjson"])
def test_machine_formats_stay_valid(scan: Any, names: list[str], form: str) -> None:
    code, out, err = scan("scan", "--no-cache", "--output-format", form, *SELECTED)
    assert code == 1
    assert obeyed(err) == []
    if form == "junit":
        assert len(list(ElementTree.fromstring(out).iter("failure"))) == len(names)
        return
    content = json.loads(out)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", out)
    assert form == "gitlab" or json.dumps(EVIL.removesuffix("\udcff"))[1:-1] in json.dumps(content)
    assert not re.search(r"[\ud800-\udfff]|\\ud[89a-f]", out)  # which strict readers refuse
    if form == "sarif":
        jsonschema.validate(
            content, json.loads((Path(__file__).parent / "data" / "sarif-schema-2.1.0.json").read_text())
        )
        assert any("d%FF.py" in json.dumps(result) for result in content["runs"][0]["results"])
    if form == "json":
        assert {item["path"] for item in content} == {name.replace("\udcff", r"\xff") for name in names}


def test_machine_formats_are_utf8_in_any_locale(tree: Path) -> None:
    (tree / "é🔥.py").write_text("import torch\nx = torch.zeros(1).cuda()\ny = 'é'\n")
    job = tree / "é.sh"
    job.write_text("#!/bin/bash\n#SBATCH --gres=gpu:1\npip install torch\npython é🔥.py\n")
    for form in ("json", "junit"):
        done = subprocess.run(
            [sys.executable, "-m", "gpulint", "scan", "--no-cache", "--exit-zero", "--impact", "low", "--output-format", form],
            cwd=tree, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "latin-1"}, check=True,
        )  # fmt: skip
        assert "é" in done.stdout.decode("utf-8")


def test_other_commands(scan: Any, names: list[str], tree: Path) -> None:
    for arguments in (
        ("rules",),
        ("rules", "--output-format", "markdown"),
        ("explain", "EVL101"),
        ("fix", "--no-baseline", "--show-notes", "-q", "--diff", *SELECTED, *names),
        ("fix", *SELECTED),
        ("fix", "--apply", "--allow-no-vcs", *SELECTED),
        ("scan", "--profile", "--no-cache", *SELECTED),
        ("baseline", "create", *SELECTED),
        ("scan", "--no-cache", *SELECTED),
        ("baseline", "update", *SELECTED),
        ("scan", "--no-cache", "--add-ignores", "--no-baseline", *SELECTED),
        ("scan", "no such \x1b[31m\n::error::file"),
        ("scan", "--no-such\n::error::option"),
        ("scan", "--config", "x\n::error::y"),
        ("\x1b[31m",),
        ("explain", "\x1b[31m"),
    ):
        _, out, err = scan(*arguments)
        assert obeyed(out) == [], arguments
        assert obeyed(err) == [], arguments


def test_settings(scan: Any, tree: Path) -> None:
    (tree / "gpulint.toml").write_text(
        'extend-exclude = ["x\\u001b[31m\\n::error::y\\u0085\\u202e"]\n', encoding="utf-8"
    )
    _, out, err = scan("config", "show")
    assert obeyed(out + err) == []
    import tomllib

    assert tomllib.loads(out)["extend-exclude"] == ["x\x1b[31m\n::error::y\x85\u202e"]
    (tree / "gpulint.toml").write_text('"x\\u001b[31m\\n::error::y" = 1\n', encoding="utf-8")
    code, out, err = scan("scan")
    assert code == 2
    assert obeyed(out + err) == []


def test_init_writes_names_as_comments(scan: Any, tree: Path) -> None:
    (tree / 'a\nselect = ["GPU1"]\n#' / "vendor").mkdir(parents=True)
    code, out, err = scan("init")
    assert code == 0
    assert obeyed(out + err) == []
    import tomllib

    assert tomllib.loads((tree / "gpulint.toml").read_text()) == {}


def test_a_broken_plugin(scan: Any, install: Any) -> None:
    def broken() -> object:
        raise RuntimeError("reason" + EVIL)

    install("name" + EVIL, broken)
    for command in ("rules", "scan", "no-such-command"):
        _, out, err = scan(command)
        assert obeyed(out + err) == []


@pytest.mark.parametrize("how", ["terminal", "colour"])
def test_a_diff_on_a_terminal(scan: Any, names: list[str], monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "terminal":
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.setenv("FORCE_COLOR", "1")
    _, out, _ = scan("fix", "--diff", *SELECTED)
    assert out.count("+++ ") == len([name for name in names if "d" not in name])
    assert obeyed(re.sub(r"\x1b\[(1|0|3\d)?m", "", out)) == []


def test_a_diff_to_a_pipe_is_exact_and_holds_no_command(
    scan: Any, tree: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Unchanged lines that a CI system would obey are removed and added, so that git takes the diff."""
    before = b"::error::1\n  ::error::2\nx = WASTE\n\x1b[31m\r ##[error]\n##vso[x]\nend\n::error::3"
    (tree / "a.sh").write_bytes(before)
    (tree / "::b\x1b\u202e##[x].sh").write_bytes(before)
    main(("fix", "--diff", *SELECTED))
    diff = capfdbinary.readouterr().out
    assert not [line for line in diff.split(b"\n") if re.match(rb"\s*(::|##)", line)]
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "-"], input=diff, check=True)
    assert {path.read_bytes() for path in tree.glob("*.sh")} == {before.replace(b"WASTE", b"FIXED")}


def test_joiners_and_wide_characters_stay() -> None:
    text = "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL} 漢字\u3000é\u0646\u200c\u0627"
    assert printable(text) == text


@pytest.mark.parametrize("line", ["::x", " \t::x", "\u3000::x", "a ##[x]", "##vso[x]", "##VSO[x]", "####[x]"])
def test_no_line_is_a_command(line: str) -> None:
    assert obeyed(no_command(line)) == []
