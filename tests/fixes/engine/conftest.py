"""Rules that find words, with fixers that each test chooses, so that the engine is tested without the catalogue."""

from __future__ import annotations

import importlib.metadata
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpulint.cli import main
from gpulint.documents import Document
from gpulint.documents.notebook import NotebookDocument
from gpulint.finding import Finding, Severity
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.hooks import hookimpl
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.source import Span

Repair = Callable[[Finding, Project], Fix | Declined]


def words(document: Document, word: str) -> Iterator[Span]:
    cells = document.cells if isinstance(document, NotebookDocument) else ()
    for cell in [cell.index for cell in cells if cell.kind == "code"] if cells else [None]:
        source = document.cell_source(cell)
        for match in re.finditer(rf"\b{word}\b", source.text):
            span = source.span(*match.span())
            yield Span(span.line, span.column, span.end_line, span.end_column, cell)


def rule(code: str, name: str, word: str, safety: Safety) -> Rule:
    def check(document: Document, project: Project) -> Iterator[Finding]:
        for span in words(document, word):
            yield made.finding(document.path, span, f"the word {word}")

    made = Rule(
        code=code,
        name=name,
        category=Category.API_MISUSE,
        dimension=Dimension.LIBRARY,
        severity=Severity.WARNING,
        kinds=frozenset(Kind),
        summary=f"The {name}",
        why="Words are not free.",
        evidence=(Evidence("3 %"),),
        check=check,
        fix=safety,
    )
    return made


RULES = [
    rule("TST101", "waste-word", "WASTE", Safety.SAFE),
    rule("TST102", "risk-word", "RISK", Safety.UNSAFE),
    rule("TST103", "hint-word", "HINT", Safety.ADVICE),
    rule("TST104", "loop-word", "FIXED", Safety.SAFE),
]


def replacing(text: str, safety: Safety = Safety.SAFE, description: str = "write something else") -> Repair:
    """A fixer that replaces the word that was found."""
    return lambda finding, project: Fix(description, safety, (Edit(finding.path, finding.span, text),))


class Plugin:
    def __init__(self, fixers: dict[str, Repair]) -> None:
        self.fixers = fixers

    @hookimpl
    def gpulint_rules(self) -> list[Rule]:
        return RULES

    @hookimpl
    def gpulint_fixers(self) -> list[Fixer]:
        return [Fixer(code, repair) for code, repair in self.fixers.items()]


@pytest.fixture
def repairs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Repair]:
    """The fixers by code of their rule, to be changed by the test: WASTE becomes FIXED, RISK becomes TAKEN."""
    fixers = {
        "TST101": replacing("FIXED"),
        "TST102": replacing("TAKEN", Safety.UNSAFE, "take the risk, which changes results"),
    }
    entry = types.SimpleNamespace(name="words", load=lambda: Plugin(fixers))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry] if group == "gpulint" else [])
    monkeypatch.setattr("gpulint.installed.may_name", lambda group: True)
    return fixers


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, which is also the working directory."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "gpulint.toml").write_text("")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def fix(
    repairs: dict[str, Repair], tree: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., tuple[int, str, str]]:
    """``fix("--apply", ...)`` -> (exit code, stdout, stderr); runs TST101 to TST103 unless others are selected."""

    def call(*arguments: str) -> tuple[int, str, str]:
        if "--select" not in arguments:
            arguments = (*arguments, "--select", "TST101,TST102,TST103")
        if "--apply" in arguments and not (tree / ".git").exists():
            arguments = (*arguments, "--allow-no-vcs")
        code = main(("fix", *arguments))
        out, err = capfdbinary.readouterr()
        return code, out.decode("latin-1"), err.decode()

    return call
