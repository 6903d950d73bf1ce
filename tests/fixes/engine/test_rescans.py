"""The scans of a fix after the first one repeat no work that the fixes do not concern."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint import engine, fixing, plugins
from gpulint.config import Config
from gpulint.outcomes import Fixed
from gpulint.project import Project
from gpulint.rescans import Rescans

TRAINER = """\
import torch
from helper import place


def train(model, loader, optimizer):
    for batch in loader:
        loss = model(place(batch)).sum()
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()
"""
HELPER = "import torch\n\n\ndef place(batch):\n    return batch.cuda()\n"
APART = """\
def evaluate(model, images):
    for image in images:
        print(model(image.cuda()).sum().item())
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name, text in {"apart.py": APART, "helper.py": HELPER, "train.py": TRAINER}.items():
        (tmp_path / name).write_text(text)
    return sorted(tmp_path.iterdir())


def fixed(files: list[Path]) -> Fixed:
    loaded = plugins.load()
    project = Project(files[0].parent, files, Config(base=files[0].parent))
    return fixing.fix(project, files, loaded.rules, loaded.fixers, unsafe=True)


def test_only_what_rests_on_fixed_files_is_checked_again(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    document = engine.UNITS["document"].compute

    def counted(run: engine.Run, path: Path) -> engine.Report:
        checked.append(path.name)
        return document(run, path)  # type: ignore[no-any-return]

    monkeypatch.setattr(engine.UNITS["document"], "compute", counted)
    changed = {change.path.name for change in fixed(files).changes}
    assert "train.py" in changed
    assert "apart.py" not in changed
    assert checked.count("train.py") > 1
    assert checked.count("apart.py") == 1


def test_fixes_are_those_of_fresh_scans(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def outcomes() -> list[object]:
        found = fixed(files)
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
    loaded = plugins.load()
    project = Project(files[0].parent, files, Config(base=files[0].parent))
    result = fixing.fix(project, files, loaded.rules, loaded.fixers, unsafe=True)
    (train,) = (path for path in files if path.name == "train.py")
    assert project.data(train) == TRAINER.encode() != result.project.data(train)
