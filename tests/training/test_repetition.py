"""What a training loop does again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.training.repetition import training_contexts
from tests.trees import Tree

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
    return asked(tmp_path, LOOP.format(**{"step": "pass", "epoch": "pass", "after": "pass"} | places))


def asked(root: Path, code: str) -> list[str]:
    made = Tree(root, {"main.py": code})
    calls = made.module().calls_by_name["work"]
    return [context.role.name for call in calls for context in training_contexts(made.project, made.module(), call)]


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
    code = LOOP.format(step="pass", epoch="pass", after="pass")
    assert asked(tmp_path, code + "\n\nfor fold in folds:\n    train(make(), fold, optimizer, 10)\n    work()\n") == []
