"""Numbers for the log of Lightning stay where something else may get the tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

MODEL = """\
import pytorch_lightning as pl
import torch
import wandb


class Net(pl.LightningModule):
    def scores(self, out, y):
        right = (out.argmax(1) == y).float().mean().item()
        return right, {"right": right}

    def record(self, stage, value):
        logs = {}
        logs[f"{stage}/right"] = value
        self.log_dict(logs)

    def training_step(self, batch, batch_idx):
        x, y = batch
        out = self.model(x)
        right, table = self.scores(out, y)
        table["last"] = 1.0
        self.log("right", 100 * right if self.percent else right)
        self.record("train", right)
        self.log_dict({f"train/{name}": value for name, value in table.items()})
        return self.criterion(out, y)
"""


def test_what_only_the_log_gets_is_handed_over(job: MakeJob) -> None:
    made = job({"model.py": MODEL})
    assert made.repair("GPU305") == 1
    assert "right = (out.argmax(1) == y).float().mean()\n" in made.text("model.py")


CASES = {
    "a print": ('table["last"] = 1.0', "print(right)"),
    "a text": ('table["last"] = 1.0', 'table["last"] = f"{right:.3f}"'),
    "a test": ('table["last"] = 1.0', "self.best = right > 0.5"),
    "a list": ('table["last"] = 1.0', "self.seen.append(right)"),
    "a table of the object": ('table["last"] = 1.0', "self.table = table"),
    "another log": ('table["last"] = 1.0', 'wandb.log({"right": right})'),
    "another log, of the table": ('table["last"] = 1.0', "wandb.log(table)"),
    "the result of the step": (
        "return self.criterion(out, y)",
        'return {"loss": self.criterion(out, y), "right": right}',
    ),
    "a rounded number": ("100 * right if", "round(right, 3) if"),
    "the larger number": ("100 * right if", "max(0.5, right) if"),
    "the condition": ("if self.percent", "if right"),
    "a key": ('{"right": right}', "{right: 1.0}"),
    "a sum": ('table["last"] = 1.0', "right += 1"),
    "what a method does else": ("self.log_dict(logs)", "self.log_dict(logs)\n        self.seen[stage] = value"),
    "what a method does else with the table": ("self.log_dict(logs)", "self.log_dict(logs)\n        print(logs)"),
    "a method that is unknown": ('self.record("train", right)', 'self.logger.record("train", right)'),
    "a filter": ("in table.items()}", "in table.items() if value}"),
    "another caller": (
        "    def training_step",
        "    def test_step(self, batch, batch_idx):\n        print(self.scores(*batch))\n\n    def training_step",
    ),
    "a docstring": ("out, y):\n", 'out, y):\n        """Returns: float and table of floats."""\n'),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_numbers_stay(case: tuple[str, str], job: MakeJob) -> None:
    old, new = case
    assert MODEL.count(old) == 1
    check_declined(job, "GPU305", {"model.py": MODEL.replace(old, new)}, "")
