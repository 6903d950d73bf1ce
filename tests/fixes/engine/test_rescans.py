"""The scans of a fix after the first one repeat no work that the fixes do not concern."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint import engine, fixing, plugins
from gpulint.config import Config
from gpulint.outcomes import Fixed
from gpulint.project import Project
from gpulint.rescans import Rescans
from tests.trees import PLACE, TRAINER

APART = """\
def evaluate(model, images):
    for image in images:
        print(model(image.cuda()).sum().item())
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name, text in {"apart.py": APART, "helper.py": PLACE, "train.py": TRAINER}.items():
        (tmp_path / name).write_text(text)
    return sorted(tmp_path.iterdir())


def project_of(files: list[Path]) -> Project:
    return Project(files[0].parent, files, Config(base=files[0].parent))


def fixed(project: Project) -> Fixed:
    loaded = plugins.load()
    return fixing.fix(project, project.files, loaded.rules, loaded.fixers, unsafe=True)


def test_only_what_rests_on_fixed_files_is_checked_again(files: list[Path], checked: list[str]) -> None:
    changed = {change.path.name for change in fixed(project_of(files)).changes}
    assert "train.py" in changed
    assert "apart.py" not in changed
    assert checked.count("train.py") > 1
    assert checked.count("apart.py") == 1


def test_fixes_are_those_of_fresh_scans(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def outcomes() -> list[object]:
        found = fixed(project_of(files))
        return [
            [(change.path, change.after) for change in found.changes],
            [(one.result.finding.path, one.result.finding.message, one.state, one.reason) for one in found.outcomes],
        ]

    kept = outcomes()
    monkeypatch.setattr(
        Rescans, "run", lambda self, project, files, rules, **options: engine.run(project, files, rules, **options)
    )
    assert kept == outcomes()


def test_the_project_of_a_fix_still_holds_what_it_held(files: list[Path]) -> None:
    project = project_of(files)
    result = fixed(project)
    (train,) = (path for path in files if path.name == "train.py")
    assert project.data(train) == TRAINER.encode() != result.project.data(train)
