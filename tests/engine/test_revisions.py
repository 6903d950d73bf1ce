"""A project that goes on with other contents of files answers what a new project answers, and asks less anew."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulint.config import Config
from gpulint.project import Project
from gpulint.query import query, stored
from gpulint.workspace.kept_syntax import track_syntax
from gpulint.workspace.word_index import word_of

NAMES = ("base", "loader", "DataLoader", "backward", "Net", "Subclass", "helper", "train")
LINES = (
    "import {a}",
    "from {a} import *",
    "from pkg.{a} import {b}",
    "class {a}({b}): pass",
    "{a}({b})",
    "{a} = 1",
    "def {a}(): {b}()",
    "for {a} in {b}(): {a}()",
    "# {a}",
    "def test_{a}(): pass",
    "(",
)
asked: list[str] = []


def text(chance: random.Random) -> bytes:
    """A module of some lines."""
    made = (
        chance.choice(LINES).format(a=chance.choice(NAMES), b=chance.choice(NAMES)) for _ in range(chance.randrange(4))
    )
    return "\n".join(made).encode()


def tree(root: Path, chance: random.Random) -> list[Path]:
    """Files of a new tree."""
    (root / "pkg").mkdir()
    names = ("train.py", "helper.py", "test_net.py", "pkg/__init__.py", "pkg/base.py", "run.sh")
    for name in names:
        (root / name).write_bytes(text(chance))
    return sorted(root / name for name in names)


LOOKUPS: dict[str, Callable[[Project, Any], Any]] = {
    "mentioning": lambda project, name: project.word_index.mentioning(word_of(name)),
    "users": lambda project, name: project.word_index.users(frozenset({word_of(name)}), frozenset({b"base", b"pkg"})),
    "subclass files": lambda project, name: project.word_index.subclass_files(word_of(name)),
    "subclasses": lambda project, name: project.word_index.subclasses(word_of(name)),
    "like": lambda project, name: project.word_index.like(re.compile(rb"\n%b" % name[:4].encode())),
    "has": lambda project, name: project.has(word_of(name)),
    "python files with": lambda project, name: project.python_files_with(word_of(name)),
    "files with": lambda project, name: project.files_with(word_of(name)),
    "in other files": lambda project, name: project.is_in_other_files(word_of(name)),
    "training": lambda project, name: project.training_files(),
}
LOOKUPS_OF_FILE: dict[str, Callable[[Project, Path], Any]] = {
    "imports": lambda project, path: project.imports(path),
    "imported": lambda project, path: project.imported(path),
    "bound": lambda project, path: [project.bound(path, name) for name in NAMES],
    "callers": lambda project, path: [project.callers(path, name) for name in NAMES],
    "stars": lambda project, path: project._starred(path),
    "bound imports": lambda project, path: project.bound_imports(path),
    "contains": lambda project, path: [project.contains(path, name.encode()) for name in NAMES],
    "finds": lambda project, path: [project.finds(path, re.compile(rb"^%b" % name.encode(), re.M)) for name in NAMES],
    "words.among": lambda project, path: project.word_index.among(path, frozenset(map(word_of, NAMES))),
    "words.finds": lambda project, path: [
        project.word_index.finds(path, re.compile(rb"\n%b" % name.encode())) for name in NAMES
    ],
    "is_test": lambda project, path: project.is_test(path),
    "words.imported": lambda project, path: project.word_index.imported(path),
    "words": lambda project, path: sorted(project.word_index.of(path)),
    "holds": lambda project, path: [project.word_index.holds(path, word_of(name)) for name in NAMES],
}


@query
def looked_up(project: Project, what: str, key: str | Path) -> object:
    """What one lookup answers."""
    return LOOKUPS[what](project, key) if isinstance(key, str) else LOOKUPS_OF_FILE[what](project, key)


def all_looked_up(project: Project) -> list[object]:
    """What lookups answer about all words and Python files."""
    found = [looked_up(project, what, name) for what in LOOKUPS for name in NAMES]
    return found + [looked_up(project, what, path) for what in LOOKUPS_OF_FILE for path in project.python_files]


@query
def of_module(project: Project, path: Path) -> tuple[bytes, tuple[str, ...]]:
    """The content of a file and the names that its module binds."""
    asked.append(path.name)
    module = project.module_at(path)
    return project.data(path), tuple(module.top.bindings) if module is not None else ()


@stored("number of classes")
def classes(project: Project, path: Path) -> int:
    return project.data(path).count(b"class ")


@query
def doubled(project: Project, path: Path) -> int:
    asked.append("doubled")
    return 2 * classes(project, path)


@pytest.mark.parametrize("seed", range(6))
def test_lookups_and_queries_give_what_a_new_project_gives(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    files = tree(tmp_path, chance)
    project = Project(tmp_path, files, Config())
    if seed % 2:
        track_syntax(project)
    for _ in range(40):
        if chance.random() < 0.8:  # what was not asked in a revision must not be taken for checked in the next one
            expected = Project(tmp_path, files, Config())
            assert all_looked_up(project) == all_looked_up(expected)
            for path in files:
                assert of_module(project, path) == of_module(expected, path)
        texts: dict[Path, bytes | None] = {}
        for path in chance.sample(files, chance.choice((1, 1, 2))):
            data = chance.choice((text(chance), path.read_bytes() + b"\nloader\n", path.read_bytes() + b"# loader"))
            path.write_bytes(data)
            texts[path] = chance.choice((data, None))  # an editor's text, or what the disk holds
        project.revise(texts)


@pytest.mark.parametrize("seed", range(20))
def test_a_summary_says_what_its_module_says(tmp_path: Path, seed: int) -> None:
    files = tree(tmp_path, random.Random(seed))
    project, later = Project(tmp_path, files, Config()), Project(tmp_path, files, Config())
    for path in project.python_files:
        for name in NAMES:
            project.bound(path, name)
        imports = project.bound_imports(path)
        later.learn(path, project.summary(path), project.known_imports(path))
        if imports is not None:
            assert later.bound_imports(path) == imports
        for name in (*NAMES, "nobody"):
            assert later.bound(path, name) == project.bound(path, name)
            assert later.callers(path, name) == project.callers(path, name)
        assert not project.summary(path) or path not in later._module_indexes  # nothing was parsed for that


def test_an_edit_costs_what_reads_the_file(tmp_path: Path) -> None:
    files = tree(tmp_path, random.Random(0))
    project = Project(tmp_path, files, Config())
    for path in files:
        of_module(project, path)
    asked.clear()
    project.revise({tmp_path / "train.py": b"x = 1\n"})
    assert of_module(project, tmp_path / "train.py") == (b"x = 1\n", ("x",))
    for path in files:
        of_module(project, path)
    assert asked == ["train.py"]


def test_texts_that_cannot_be_parsed_cost_no_answers_about_other_files(tmp_path: Path) -> None:
    paths = [tmp_path / "helper.py", tmp_path / "train.py"]
    for path in paths:
        path.write_bytes(b"x = 1\n")
    project = Project(tmp_path, paths, Config())
    for path in paths:
        of_module(project, path)
    asked.clear()
    for data in (b"x = (\n", b"x = (1\n", b"x = (1,\n", b"x = 2\n"):
        project.revise({paths[1]: data})
        of_module(project, paths[1])
    assert asked == ["train.py"] * 4
    of_module(project, paths[0])
    assert asked == ["train.py"] * 4
    for data in (b"x = 3\n", b"x = 4\n", b"x = 5\n"):  # for which nobody asks about the other file
        project.revise({paths[1]: data})
        of_module(project, paths[1])
    of_module(project, paths[0])
    assert asked == [*["train.py"] * 7, "helper.py"]


def test_what_rests_on_an_answer_that_stays_the_same_is_kept(tmp_path: Path) -> None:
    (path := tmp_path / "train.py").write_text("class A: pass\n")
    project = Project(tmp_path, [path], Config())
    asked.clear()
    assert doubled(project, path) == 2
    project.revise({path: b"class B: pass\n"})
    assert doubled(project, path) == 2
    assert asked == ["doubled"]
    project.revise({path: b"class B: pass\nclass C: pass\n"})
    assert doubled(project, path) == 4
    project.revise({path: b"class A: pass\n"})
    assert doubled(project, path) == 2


@query
def failing(project: Project, path: Path, other: Path) -> int:
    project.data(other)
    with project.containing(path, "a query"):
        raise ValueError("nobody can say")
    return 0


def test_what_was_raised_is_raised_again(tmp_path: Path) -> None:
    files = tree(tmp_path, random.Random(0))
    project = Project(tmp_path, files, Config())
    for number in range(3):
        failing(project, files[0], files[1])
        assert [failure.path for failure in project.take_failures()] == [files[0]]
        project.revise({files[2]: b"%d\n" % number})
        assert project.take_failures() == []
