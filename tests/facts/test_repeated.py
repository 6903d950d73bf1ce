"""What a training loop does again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.config import Config
from gpulint.facts.repeated import training_contexts
from gpulint.project import Project

LOOP = """
def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        for batch in loader:
            model(batch).backward()
            optimizer.step()
            {step}
        {epoch}
    {after}


def helper():
    work()
"""


def roles(tmp_path: Path, **places: str) -> list[str]:
    """Roles of the training loops that repeat ``work()``."""
    path = tmp_path / "program.py"
    path.write_text(LOOP.format(**{"step": "pass", "epoch": "pass", "after": "pass"} | places))
    project = Project(tmp_path, [path], Config())
    scopes = project.scopes_at(path)
    assert scopes is not None
    calls = scopes.calls_by_name["work"]
    return [context.role.name for call in calls for context in training_contexts(project, scopes, call)]


@pytest.mark.parametrize("place", ["step", "epoch"])
def test_in_a_loop_or_a_helper_that_it_calls(tmp_path: Path, place: str) -> None:
    assert roles(tmp_path, **{place: "work()"}) == [place.upper()]
    assert roles(tmp_path, **{place: "helper()"}) == [place.upper()]


@pytest.mark.parametrize(
    "places",
    [
        {"after": "work()"},
        {"after": "helper()"},
        {"epoch": "if epoch == epochs - 1: work()"},
        {"epoch": "if epoch + 1 == epochs: helper()"},
        {"epoch": "executor.submit(helper)"},
        {"epoch": "threading.Thread(target=helper).start()"},
        {"step": "\n            if done():\n                work()\n                break"},
        {"step": "\n            try:\n                pass\n            except ValueError:\n                work()"},
    ],
)
def test_once_or_by_somebody_else(tmp_path: Path, places: dict[str, str]) -> None:
    assert roles(tmp_path, **places) == []


def test_after_each_of_several_trainings(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        LOOP.format(step="pass", epoch="pass", after="pass")
        + "\n\nfor fold in folds:\n    train(make(), fold, optimizer, 10)\n    work()\n"
    )
    project = Project(tmp_path, [path], Config())
    scopes = project.scopes_at(path)
    assert scopes is not None
    assert not [c for call in scopes.calls_by_name["work"] for c in training_contexts(project, scopes, call)]
