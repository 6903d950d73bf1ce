"""Jobs of programs that end where they call the training say nothing of findings in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import impacts

TRAINING = """\
import torch


def train(args, first):
    for images in loader:
        loss = model(images.cuda()).sum()
        loss.backward()
        optimizer.step()
        total += loss.item()


if __name__ == "__main__":
    train(parse(), 0)
"""
SUBMIT = """\
import submitit
import training


class Trainer:
    def __init__(self, args):
        self.args = args

    def __call__(self):
        import training

        {call}


executor = submitit.AutoExecutor(folder="out")
executor.update_parameters(gpus_per_node=8, nodes=2, name="dino")
executor.submit(Trainer(args))
"""


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("training.train(self.args)", False),
        ("training.train(self.args, 0)", True),
        ("training.train(*self.args)", True),
        ("self.args and training.train(self.args)", True),
    ],
)
def test_a_call_that_does_not_fit(tmp_path: Path, call: str, named: bool) -> None:
    found = impacts(tmp_path, {"training.py": TRAINING, "submit.py": SUBMIT.format(call=call)})
    assert ["16 GPUs" in one.basis for one in found["GPU305"]] == [named]
