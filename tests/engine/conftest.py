"""A small plugin whose rules find words, so that the engine is tested without the catalogue."""

from __future__ import annotations

import importlib.metadata
import json
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main
from gpulint.documents import Document
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.hooks import hookimpl
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope
from gpulint.source import SourceText, Span

Run = Callable[..., tuple[int, str, str]]


def _texts(document: Document) -> Iterator[tuple[SourceText, int | None]]:
    if document.kind is Kind.NOTEBOOK:
        yield from ((document.cell_source(cell.index), cell.index) for cell in document.cells)  # type: ignore[attr-defined]
    else:
        yield document.source, None


def _words(document: Document, word: str) -> Iterator[Span]:
    for source, cell in _texts(document):
        for match in re.finditer(word, source.text):
            span = source.span(*match.span())
            yield Span(span.line, span.column, span.end_line, span.end_column, cell)


def check_waste(document: Document, project: Project) -> Iterator[Finding]:
    for span in _words(document, r"\bWASTE\b"):
        related = (Place(document.path, span, "the same place"),)
        yield WASTE.finding(document.path, span, "the word WASTE", help="Write FIXED.", related=related)


def check_hint(document: Document, project: Project) -> Iterator[Finding]:
    for span in _words(document, r"\bHINT\b"):
        yield HINT.finding(document.path, span, "the word HINT")


def check_off(document: Document, project: Project) -> Iterator[Finding]:
    for span in _words(document, r"\bHIDDEN\b"):
        yield OFF.finding(document.path, span, "the word HIDDEN")


def check_boom(document: Document, project: Project) -> Iterator[Finding]:
    for span in _words(document, "BOOM"):
        if span.line > 1:
            raise RuntimeError("this rule is broken")
        yield BOOM.finding(document.path, span, "BOOM on the first line")


def check_started(job: Any, project: Project) -> Iterator[Finding]:
    for launch in job.launches:
        if launch.program is not None:
            place = Place(launch.document.path, launch.launch.span, "started here")
            yield STARTED.finding(launch.program, Span(1, 1, 1, 2), "a job starts this", related=(place,))


def fix_waste(finding: Finding, project: Project) -> Fix | Declined:
    document = project.document(finding.path)
    assert document is not None
    if "KEEP" in document.source.line(finding.span.line):
        return Declined("the line says KEEP")
    return Fix("Write FIXED instead.", Safety.SAFE, (Edit(finding.path, finding.span, "FIXED"),))


def _rule(code: str, name: str, check: Callable[..., Iterator[Finding]], severity: Severity, **more: Any) -> Rule:
    return Rule(
        code=code,
        name=name,
        category=Category.API_MISUSE,
        dimension=Dimension.LIBRARY,
        severity=severity,
        kinds=frozenset(Kind),
        summary=f"The {name}",
        why="Words are not free.",
        evidence=(Evidence("3 %"),),
        check=check,
        **more,
    )


WASTE = _rule("TST101", "waste-word", check_waste, Severity.WARNING, tokens=(("WASTE",),), fix=Safety.SAFE)
HINT = _rule("TST102", "hint-word", check_hint, Severity.INFO)
BOOM = _rule("TST201", "boom-word", check_boom, Severity.ERROR)
OFF = _rule("TST301", "off-word", check_off, Severity.INFO, default=False)

STARTED = _rule("TST401", "started-program", check_started, Severity.INFO, scope=Scope.JOB, default=False)


class WordPlugin:
    @hookimpl
    def gpulint_rules(self) -> list[Rule]:
        return [WASTE, HINT, BOOM, OFF, STARTED]

    @hookimpl
    def gpulint_fixers(self) -> list[Fixer]:
        return [Fixer("TST101", fix_waste)]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], None]:
    """Install a plugin beside the word plugin: ``install(name, what its entry point loads)``."""
    installed: list[Any] = []

    def call(name: str, load: Callable[[], object]) -> None:
        installed.append(types.SimpleNamespace(name=name, load=load))

    call("words", WordPlugin)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: installed if group == "gpulint" else [])
    monkeypatch.setattr("gpulint.installed.may_name", lambda group: True)
    return call


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, which is also the working directory."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def notebook() -> Callable[..., str]:
    """``notebook("cell", ...)``: a notebook of code cells, as JSON."""

    def make(*cells: str) -> str:
        code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        listed = [{**code, "source": text} for text in cells]
        return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})

    return make


@pytest.fixture
def run(install: object, capsys: pytest.CaptureFixture[str], tree: Path) -> Run:
    """Run the command line on the word rules: ``run("scan", ...)`` -> (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        if arguments[0] == "scan" and not {"--select", "--stdin-filename"} & set(arguments):
            arguments = (*arguments, "--select", "TST101,TST102,TST201")
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call
