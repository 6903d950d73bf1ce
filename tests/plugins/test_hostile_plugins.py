"""A plugin that misbehaves while it runs is named, and loses what it does wrong and nothing else."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpulint.cli import main

MODEL = """
import dataclasses, sys, os, subprocess
from pathlib import Path
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Declined, Edit, Fix, Fixer, NewFile, Safety
from gpulint.hooks import hookimpl
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope
from gpulint.source import Span


def rule(check, code="ACME101", name="acme-rule", **more):
    return Rule(code, name, Category.API_MISUSE, Dimension.LIBRARY, Severity.WARNING, frozenset(Kind), "It is wrong",
                "It costs time.", (Evidence("1 %"),), check, **{"fix": Safety.SAFE, **more})


def good(document, project):
    yield GOOD.finding(document.path, Span(1, 1, 1, 2), "the first character")


GOOD = rule(good, "ACME999", "good-rule")


def first(document, project):
    yield RULE.finding(document.path, Span(1, 1, 1, 2), "found")


@hookimpl
def gpulint_rules():
    return [GOOD, RULE]


@hookimpl
def gpulint_fixers():
    return [Fixer("ACME101", fix)]


def fix(finding, project):
    return Declined("not now")


RULE = rule(first)
"""
METADATA = """\
Metadata-Version: 2.1
Name: acme-rules
Version: 1.2
Project-URL: Home Page, https://acme.example
Project-URL: Bug-Tracker, https://acme.example/bugs
"""

Scan = Callable[..., "Done"]


def package(folder: Path, code: str, name: str = "acme-rules", entry: str = "acme", metadata: str = METADATA) -> Path:
    """Install a package with the source ``code``."""
    module = name.replace("-", "_")
    info = folder / f"{module}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(metadata.replace("acme-rules", name))
    (info / "entry_points.txt").write_text(f"[gpulint]\n{entry} = {module}\n")
    (folder / f"{module}.py").write_text(textwrap.dedent(code))
    return folder


@dataclass
class Done:
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Scan]:
    """Run gpulint with a plugin of this source in a project with one file of three lines."""
    project, packages = tmp_path / "project", tmp_path / "packages"
    for folder in (project, packages):
        folder.mkdir()
    (project / "train.py").write_text("x = 1\ny = 2\nz = 3\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv("NO_COLOR", "1")
    before = set(sys.modules)

    def call(code: str, *arguments: str, **more: str) -> Done:
        package(packages, code, **more)
        monkeypatch.syspath_prepend(packages)
        words = arguments or ("scan", "--select", "ACME", "--output-format", "json", "--no-cache")
        return Done(main(words), *capfd.readouterr())

    yield call
    for name in set(sys.modules) - before:
        if name.endswith("_rules"):
            del sys.modules[name]


def codes(done: Done) -> list[str]:
    """The codes of the findings in a JSON report, which has to be one."""
    report = json.loads(done.stdout)
    found = report["findings"] if isinstance(report, dict) else report
    return [finding["code"] for finding in found]


# -- loading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('no licence server')", "RuntimeError: no licence server at acme_rules.py:1"),
        ("x = (", "SyntaxError: "),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("class Skipped(BaseException): pass\nraise Skipped('not here')", "Skipped: not here"),
        ("def f(): f()\nf()", "RecursionError"),
        ("raise RuntimeError('two\\nlines \\x1b[31m')", r"two\nlines \x1b[31m"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_named_with_its_package(scan: Scan, code: str, said: str) -> None:
    done = scan(code, "scan", "--output-format", "json", "--no-cache", "--select", "GPU")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpulint: plugin acme (acme-rules 1.2) does not work: ")
    assert said in line
    assert codes(done) == []


@pytest.mark.parametrize(
    "metadata", ["", "Name", "\xff\xfe", "Metadata-Version: 2.1\nName: acme-rules\nVersion: 1\nProject-URL: x\n"]
)
def test_odd_metadata_do_not_matter(scan: Scan, metadata: str) -> None:
    assert codes(scan(MODEL, metadata=metadata)) == ["ACME101", "ACME999"]


def test_entry_points_that_are_no_text_cost_their_package_alone(scan: Scan, tmp_path: Path) -> None:
    broken = tmp_path / "packages/broken-1.0.dist-info"
    broken.mkdir(parents=True)
    (broken / "METADATA").write_text(METADATA.replace("acme-rules", "broken"))
    (broken / "entry_points.txt").write_bytes(b"[gpulint]\nx = \xff\xfe\n")
    done = scan(MODEL)
    assert codes(done) == ["ACME101", "ACME999"]
    assert "metadata cannot be read" in done.stderr


def test_two_packages_with_the_same_entry_point_and_code(scan: Scan, tmp_path: Path) -> None:
    package(
        tmp_path / "packages", MODEL.replace("ACME999", "ACME998").replace("good-rule", "other"), name="other-rules"
    )
    done = scan(MODEL)
    assert codes(done) == ["ACME101", "ACME998", "ACME999"]
    failures = [line for line in done.stderr.splitlines() if "refused" in line or "a second fixer" in line]
    assert len(failures) == 2
    assert all("already taken by ACME101 acme-rule of" in line for line in failures[:1])


NOISE = """
print("from Python")
os.write(1, b"from a descriptor")
subprocess.run([sys.executable, "-c", "print('from a child')"])
sys.stdout.write("from the stream")
"""


def test_what_a_plugin_prints_does_not_get_into_reports(scan: Scan) -> None:
    inside = textwrap.indent(NOISE, "    ")
    code = MODEL.replace("def first(document, project):", f"def first(document, project):{inside}")
    code = code.replace('"""\n\n\n@hookimpl', '"""').replace("def gpulint_rules():", f"def gpulint_rules():{inside}")
    done = scan(code + NOISE)
    assert codes(done) == ["ACME101", "ACME999"]
    for part in ("Python", "a descriptor", "a child", "the stream"):
        assert done.stderr.count(f"from {part}") == 3


# -- rules -------------------------------------------------------------------------------------------------------------

OUTSIDE = "Path('/etc/passwd')"
SPAN = "Span(1, 1, 1, 2)"
BAD_CHECKS = {
    "raises": ("raise KeyError('x')", "KeyError: 'x' at acme_rules.py:"),
    "exits": ("sys.exit()", "SystemExit"),
    "recursion": ("yield from check(document, project)", "RecursionError"),
    "memory": ("raise MemoryError", "MemoryError"),
    "file": ("open('/nowhere')", "FileNotFoundError"),
    "other": ("raise type('Odd', (BaseException,), {})", "Odd"),
    "returns nothing": ("return None", "TypeError"),
    "no finding": ("yield 'finding'", "an object of type str, which is not a Finding"),
    "none": ("yield None", "not a Finding"),
    "of another rule": (f"yield GOOD.finding(document.path, {SPAN}, 'm')", "a finding of another rule"),
    "without a rule": (f"yield Finding(None, document.path, {SPAN}, 'm')", "a finding of another rule"),
    "path is text": (f"yield RULE.finding(str(document.path), {SPAN}, 'm')", "whose path is not a Path"),
    "outside": (f"yield RULE.finding({OUTSIDE}, {SPAN}, 'm')", "outside of the project: /etc/passwd"),
    "relative": (f"yield RULE.finding(Path('train.py'), {SPAN}, 'm')", "not absolute"),
    "dots": (f"yield RULE.finding(document.path.parent / '../../x.py', {SPAN}, 'm')", "not absolute"),
    "span is none": ("yield RULE.finding(document.path, None, 'm')", "not a Span"),
    "line 0": ("yield RULE.finding(document.path, Span(0, 1, 1, 1), 'm')", "whose span is none"),
    "past the end": ("yield RULE.finding(document.path, Span(99, 1, 99, 2), 'm')", "past the end of train.py"),
    "past the line": ("yield RULE.finding(document.path, Span(1, 99, 1, 100), 'm')", "past the end of train.py"),
    "reversed": ("yield RULE.finding(document.path, Span(2, 1, 1, 1), 'm')", "whose span is none"),
    "floats": ("yield RULE.finding(document.path, Span(1.0, 1, 1, 2), 'm')", "whole numbers"),
    "cell": ("yield RULE.finding(document.path, Span(1, 1, 1, 2, 0), 'm')", "in a cell that train.py does not have"),
    "message": (f"yield RULE.finding(document.path, {SPAN}, None)", "message is not a str"),
    "no message": (f"yield RULE.finding(document.path, {SPAN}, '')", "without a message"),
    "help": (f"yield RULE.finding(document.path, {SPAN}, 'm', help=5)", "help is not a str"),
    "severity": (f"yield RULE.finding(document.path, {SPAN}, 'm', severity=2)", "severity is not a Severity"),
    "related": (
        f"yield RULE.finding(document.path, {SPAN}, 'm', related=(Place({OUTSIDE}, {SPAN}),))",
        "outside of the project: /etc/passwd",
    ),
    "endless": (
        f"while True:\n        yield RULE.finding(document.path, {SPAN}, 'm')",
        "it yields more than 20000 findings",
    ),
}


@pytest.mark.parametrize("kind", BAD_CHECKS)
def test_a_rule_that_goes_wrong_loses_itself_and_its_plugin_is_named(scan: Scan, kind: str) -> None:
    body, said = BAD_CHECKS[kind]
    code = MODEL.replace("RULE = rule(first)", f"def check(document, project):\n    {body}\n\n\nRULE = rule(check)")
    done = scan(code)
    assert (done.returncode, codes(done)) == (3, ["ACME999"])
    error, whom = done.stderr.splitlines()
    assert error.startswith("train.py: error in ACME101 of acme-rules 1.2: ")
    assert said in error
    assert "report errors of acme-rules 1.2 at https://acme.example/bugs" in whom
    assert "gpulint/issues" not in done.stderr


def test_what_a_rule_found_before_it_went_wrong_is_kept(scan: Scan) -> None:
    done = scan(MODEL.replace('"found")', '"found")\n    raise ValueError'))
    assert (done.returncode, codes(done)) == (3, ["ACME101", "ACME999"])


def test_a_gate_that_raises_costs_its_own_rule(scan: Scan) -> None:
    done = scan(MODEL.replace("rule(first)", "rule(first, may_fire=lambda gate: 1 / 0)"))
    assert codes(done) == ["ACME999"]
    assert "error in ACME101 of acme-rules 1.2: ZeroDivisionError" in done.stderr


def test_ctrl_c_in_a_rule_ends_the_run(scan: Scan) -> None:
    done = scan(
        MODEL.replace("rule(first)", "rule(lambda document, project: (_ for _ in ()).throw(KeyboardInterrupt))")
    )
    assert done.returncode == 130
    assert "interrupted" in done.stderr


def test_errors_of_rules_in_several_processes(scan: Scan, tmp_path: Path) -> None:
    (tmp_path / "project/other.py").write_text("x = 1\n")
    code = MODEL.replace("RULE = rule(first)", "def check(document, project):\n    sys.exit()\n\n\nRULE = rule(check)")
    done = scan(code, "scan", "--select", "ACME", "--output-format", "json", "--jobs", "2")
    assert (done.returncode, codes(done)) == (3, ["ACME999"] * 2)


def test_a_command_that_raises_points_to_its_plugin(scan: Scan) -> None:
    code = MODEL + (
        "\n\n@hookimpl\ndef gpulint_commands(subparsers):\n"
        "    subparsers.add_parser('polish').set_defaults(run=lambda args: 1 / 0)\n"
    )
    done = scan(code, "polish")
    assert done.returncode == 3
    assert "error in acme-rules 1.2: ZeroDivisionError" in done.stderr
    assert "https://acme.example/bugs" in done.stderr and "gpulint/issues" not in done.stderr


# -- fixers ------------------------------------------------------------------------------------------------------------

EDIT = "Edit(finding.path, finding.span, 'y')"


def one(what: str) -> str:
    return f"return Fix('d', Safety.SAFE, ({what},))"


def new(path: str, text: str = "'x'") -> str:
    return f"return Fix('d', Safety.SAFE, ({EDIT},), (NewFile({path}, {text}),))"


BAD_FIXES = {
    "raises": ("raise KeyError('x')", "KeyError: 'x'"),
    "exits": ("sys.exit()", "SystemExit"),
    "nothing": ("return None", "an object of type NoneType, which is neither a Fix nor a Declined"),
    "no reason": ("return Declined('')", "a Declined without a reason"),
    "no description": (f"return Fix('', Safety.SAFE, ({EDIT},))", "without a description"),
    "safety": (f"return Fix('d', 'safe', ({EDIT},))", "safety is not a Safety"),
    "list": (f"return Fix('d', Safety.SAFE, [{EDIT}])", "not tuples"),
    "no edit": (one("'x'"), "not an Edit"),
    "no text": (one("Edit(finding.path, finding.span, None)"), "not an Edit with a text"),
    "range": (one("Edit(finding.path, Span(9, 1, 9, 2), 'x')"), "past the end of train.py"),
    "column": (one("Edit(finding.path, Span(1, 50, 1, 51), 'x')"), "past the end of train.py"),
    "outside": (one(f"Edit({OUTSIDE}, {SPAN}, 'x')"), "an edit outside of the project: /etc/passwd"),
    "dots": (one(f"Edit(finding.path.parent / '../x.py', {SPAN}, 'x')"), "an edit whose path is not absolute"),
    "overlap": (f"return Fix('d', Safety.SAFE, ({EDIT}, Edit(finding.path, Span(1, 1, 2, 1), '')))", "overlap in line 1"),
    "new outside": (new("Path('/tmp/new.py')"), "a new file outside of the project: /tmp/new.py"),
    "new relative": (new("Path('new.py')"), "a new file whose path is not absolute"),
    "new with dots": (new("finding.path.parent / '../new.py'"), "a new file whose path is not absolute"),
    "new of nothing": (new("finding.path.parent / 'new.py'", "None"), "not a NewFile with a text"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_FIXES)
def test_a_fixer_that_goes_wrong_changes_nothing_and_its_plugin_is_named(scan: Scan, tmp_path: Path, kind: str) -> None:
    body, said = BAD_FIXES[kind]
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*.py")}
    done = scan(MODEL.replace("return Declined('not now')", body).replace('return Declined("not now")', body),
                "fix", "--apply", "--allow-no-vcs", "--select", "ACME")  # fmt: skip
    assert done.returncode == 3
    error, whom = done.stderr.splitlines()
    assert error.startswith("train.py: error in ACME101 fixer of acme-rules 1.2: ")
    assert said in error
    assert "https://acme.example/bugs" in whom
    assert {path: path.read_bytes() for path in tmp_path.glob("*/*.py") if path.name != "acme_rules.py"} == before
    assert not Path("/tmp/new.py").exists()


def test_a_good_fix_of_a_plugin_is_done(scan: Scan, tmp_path: Path) -> None:
    code = MODEL.replace('return Declined("not now")', one(EDIT)).replace(
        "    yield RULE", "    if document.source.text[0] == 'x':\n        yield RULE"
    )
    done = scan(code, "fix", "--apply", "--allow-no-vcs", "--select", "ACME101")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "project/train.py").read_text() == "y = 1\ny = 2\nz = 3\n"
