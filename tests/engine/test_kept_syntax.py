"""Edits of comments and of spaces at the ends of lines leave all answers that rest on syntax valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpulint.config import Config
from gpulint.local_query import LocalDb
from gpulint.project import Project
from gpulint.query import query
from gpulint.workspace.kept_syntax import track_syntax
from gpulint.workspace.module_index import ModuleIndex

TEXT = (
    'import torch\n\n\n@cache\ndef f(a):  # why\n    x = """\none\n"""\n    return (a,\n            1.0)\n\n\ny = 1\n'
)
asked: list[str] = []


class Answers:
    def __init__(self, project: Project) -> None:
        self.db, self._project = project.db, project

    @query
    def functions(self, path: Path) -> list[str]:
        asked.append("functions")
        module = self._project.module_at(path)
        return [function.name for function in module.functions] if module is not None else []

    @query
    def places(self, path: Path) -> list[object]:
        asked.append("places")
        module = self._project.module_at(path)
        return [module.syntax.span(function) for function in module.functions] if module is not None else []

    @query
    def mentions(self, path: Path) -> bool:
        asked.append("mentions")
        module = self._project.module_at(path)
        return module is not None and mentions_why(module)

    @query
    def mentions_again(self, path: Path) -> bool:
        """The module knows the answer already when this one asks."""
        asked.append("mentions again")
        module = self._project.module_at(path)
        return module is not None and mentions_why(module)


@query
def mentions_why(module: ModuleIndex) -> bool:
    return re.search("# why", module.syntax.source.text) is not None


def ask(project: Project, path: Path) -> tuple[list[str], list[object], bool, bool]:
    """Return all answers, and note which were found anew."""
    asked.clear()
    answers = project.fact(Answers)
    return answers.functions(path), answers.places(path), answers.mentions(path), answers.mentions_again(path)


def made(folder: Path, text: str) -> tuple[Project, Path]:
    """A project of one file whose syntax is tracked."""
    path = folder / "train.py"
    path.write_bytes(text.encode())
    project = Project(folder, [path], Config())
    track_syntax(project)
    return project, path


@pytest.mark.parametrize(
    ("old", "new", "is_kept"),
    [
        ("# why", "", True),
        ("# why", "# what else", True),
        ("import torch", "import torch   ", True),
        ("y = 1", "y = 1  # why?", True),
        ("(a,", "(a,  # first", True),
        ("\n\n\n@", "\n# what\n\n@", True),
        ("\n\n\ny", "\n\n    \ny", True),
        ("(a,", "(a, ", True),
        ("# why", "# wärum", False),
        ("y = 1", "y  = 1", False),
        ("y = 1", "y = 1.0", False),
        ("y = 1", "y = True", False),
        ("y = 1", "y = 1 #\n", False),
        ("one", "one ", False),
        ("1.0", "1", False),
        ("@cache", "@cached", False),
        ("return", "return\n#", False),
        ("y = 1", "y = (", False),
        ("def f(a):  # why", "def f(a): # why", True),
        ("def f(a):", "def g(a):", False),
        ('"""\n    return', '""" \n    return', True),
        ('"""\n    return', "\n    return", False),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_an_equal_tree_is_kept(tmp_path: Path, old: str, new: str, is_kept: bool, line_end: str) -> None:
    text = TEXT.replace("\n", line_end)
    project, path = made(tmp_path, text)
    ask(project, path)
    module = project.module_at(path)
    changed = TEXT.replace(old, new, 1).replace("\n", line_end)
    project.revise({path: changed.encode()})
    assert (project.module_at(path) is module) == is_kept
    document, fresh = project.document(path), Project(tmp_path, [path], Config())
    fresh.provide(path, changed.encode())
    assert ask(project, path) == ask(fresh, path)
    assert document is not None
    if is_kept:
        assert document.python is not None
        assert document.python.source.text == changed


def test_what_rests_on_syntax_is_not_found_anew(tmp_path: Path) -> None:
    project, path = made(tmp_path, TEXT)
    assert ask(project, path)[2:] == (True, True)
    project.revise({path: TEXT.replace("why", "what").encode()})
    assert ask(project, path)[2:] == (False, False)
    assert asked == ["mentions", "mentions again"]
    project.revise({path: TEXT.replace("why", "what else").encode()})
    ask(project, path)
    assert asked == ["mentions", "mentions again"]
    project.revise({path: TEXT.replace("y = 1", "y = 2").encode()})
    ask(project, path)
    assert asked == ["functions", "places", "mentions", "mentions again"]


def test_who_holds_the_old_document_reads_its_own_text(tmp_path: Path) -> None:
    project, path = made(tmp_path, TEXT)
    before = project.document(path)
    assert before is not None
    assert project.module_at(path) is not None
    project.revise({path: TEXT.replace("# why", "# what").encode()})
    assert before.python is not None
    assert before.python.source.text == TEXT


def test_without_tracking_each_change_counts(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    project = Project(tmp_path, [path], Config())
    ask(project, path)
    project.revise({path: TEXT.replace("why", "what").encode()})
    ask(project, path)
    assert asked == ["functions", "places", "mentions", "mentions again"]


def test_answers_from_before_tracking_are_asked_again() -> None:
    told: list[int] = []
    db = LocalDb()

    class Keeper:
        def __init__(self) -> None:
            self.db = db

    @query
    def of_text(keeper: Keeper) -> int:
        keeper.db.read_text()
        return 1

    of_text(Keeper())
    db.track(lambda: told.append(1))
    of_text(Keeper())
    of_text(Keeper())
    assert told == [1, 1]
