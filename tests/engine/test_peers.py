"""Processes of one run tell each other what they find out, and find the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulint import engine, peers, plugins, workers
from gpulint.cache.answers import answers_of, told
from gpulint.config import Config
from gpulint.documents import Document
from gpulint.finding import Finding
from gpulint.peers import Peers, file_of
from gpulint.project import Project
from gpulint.query import stored
from gpulint.source import Span

LOADERS = (
    "from torch.utils.data import DataLoader\n\ndef loader_{n}(data):\n    return DataLoader(data, batch_size=8)\n"
)
TRAINER = """\
from loaders_{n} import loader_{n}

def train(model, data, optimizer):
    for batch in loader_{n}(data):
        loss = model(batch.cuda()).sum()
        loss.backward()
        optimizer.step()
"""
asked: list[tuple[Project, str]] = []


@stored("words of a test")
def words(project: Project, text: str) -> tuple[str, Path]:
    asked.append((project, text))
    return text.upper(), project.root / "a.py"


@stored("limits of a test")
def limited(project: Project) -> bool:
    project.limit(project.files[0], "too much")
    return True


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Project]:
    """Two processes' views of the same tree, in which every answer is worth telling."""
    monkeypatch.setattr(peers, "LEAST_S", -1.0)
    asked.clear()
    files = [tmp_path / "a.py"]
    files[0].write_text("a = 1\n")
    made = [Project(tmp_path, files, Config(base=tmp_path)) for _ in range(2)]
    for number in range(2):
        file_of(tmp_path, number).touch()
    for number, project in enumerate(made):
        project.db.peers = Peers(project, tmp_path, number, 2)
    return made


def test_an_answer_is_computed_by_one_process(pair: list[Project]) -> None:
    first, second = pair
    answers = [words(first, "one"), words(second, "one"), words(second, "two"), words(first, "two")]
    assert [text for text, _ in answers] == ["ONE", "ONE", "TWO", "TWO"]
    assert asked == [(first, "one"), (second, "two")]
    assert answers[1][1] is second.files[0], "paths are the objects of the process's own tree"


def told_by(project: Project, tmp_path: Path) -> tuple[Path, bytes]:
    """The file of the first process after it has told one answer, and its content."""
    words(project, "one")
    file = file_of(tmp_path, 0)
    return file, file.read_bytes()


def test_an_answer_that_is_being_written_is_computed(pair: list[Project], tmp_path: Path) -> None:
    first, second = pair
    file, whole = told_by(first, tmp_path)
    file.write_bytes(whole[:-3])
    assert words(second, "one")[0] == "ONE"
    assert [project for project, _ in asked] == [first, second]


def test_the_rest_of_an_answer_comes_later(pair: list[Project], tmp_path: Path) -> None:
    first, second = pair
    file, whole = told_by(first, tmp_path)
    file.write_bytes(whole[:-3])
    words(second, "two")
    with file.open("ab") as stream:
        stream.write(whole[-3:])
    words(second, "one")
    assert asked == [(first, "one"), (second, "two")]


def test_damaged_answers_are_computed(pair: list[Project], tmp_path: Path) -> None:
    first, second = pair
    file, whole = told_by(first, tmp_path)
    file.write_bytes(whole[:-3] + b"\0\0\0")
    assert words(second, "one")[0] == "ONE"
    assert [project for project, _ in asked] == [first, second]


def test_processes_begin_with_different_parts(pair: list[Project]) -> None:
    assert [tuple(peers.in_turn(project.db.peers, "abcd")) for project in pair] == [tuple("abcd"), tuple("cdab")]
    assert peers.in_turn(None, "abcd") == "abcd"


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_what_was_cut_short_is_reported_once(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "start_method", lambda: "fork")

    def check(document: Document, project: Project) -> Iterator[Finding]:
        if limited(project):
            yield rule.finding(document.path, Span(1, 1, 1, 2), "found")

    known = next(rule for rule in plugins.load().rules if rule.code == "GPU207")
    rule = dataclasses.replace(known, code="TST207", check=check, tokens=(), code_tokens=(), may_fire=None)
    files = _tree(tmp_path)
    report = engine.run(Project(tmp_path, files, Config(base=tmp_path)), files, [rule], jobs=jobs)
    assert len(report.results) == len(files)
    assert [(problem.path, problem.message) for problem in report.problems] == [
        (files[0], "too much; not analyzed completely")
    ]


def _tree(folder: Path) -> list[Path]:
    texts = {f"loaders_{n}.py": LOADERS.format(n=n) for n in range(8)} | {
        f"train_{n}.py": TRAINER.format(n=n) for n in range(8)
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in sorted(texts)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("jobs", [2, 3])
def test_answers_that_others_have_told_are_kept_with_what_they_rest_on(
    method: str, jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "start_method", lambda: method)
    monkeypatch.setattr(peers, "LEAST_S", -1.0)
    files, loaded = _tree(tmp_path), plugins.load()

    def kept(count: int) -> dict[str, frozenset[str]]:
        """What a run keeps: each answer with the inputs that it rests on, also through other answers."""
        project = Project(tmp_path, files, Config(base=tmp_path))
        project.db.tell = told
        engine.run(project, files, loaded.rules, jobs=count)
        held = answers_of(project)
        assert all(row[4] for row in held["files"].values()), "summaries of modules are kept as well"
        below: list[frozenset[str]] = []
        for _, _, _, inputs, nodes in held["nodes"]:
            own = frozenset(str(held["inputs"][number]) for number in inputs)
            below.append(own.union(*(below[number] for number in nodes)))
        return {str(row[:3]): reads for row, reads in zip(held["nodes"], below, strict=True)}

    assert kept(jobs) == kept(1)
