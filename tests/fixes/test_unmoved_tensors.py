"""Models of Lightning that are not ready for a GPU: the trainer stays where it is, and the help names what is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

TRAIN = """\
import pytorch_lightning as pl
from model import Model

trainer = pl.Trainer(accelerator="cpu")
trainer.fit(Model())
"""
IMPORTS = """\
import pytorch_lightning as pl
import torch
from torch import nn


"""
CASES = {
    "a tensor of a Lightning model that is no buffer": (
        """\
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.make_schedule()

    def make_schedule(self):
        self.beta = nn.Parameter(torch.linspace(0, 1, 100), requires_grad=False)
        self.deviation = (self.beta * (1 - self.beta)).sqrt()

    def training_step(self, batch, index):
        x, t = batch
        return (self.layer(x) * self.deviation[t]).mean()
""",
        "`self.deviation` is no buffer",
    ),
    "a tensor of a helper that is multiplied on the GPU": (
        """\
def window(size):
    return torch.hann_window(size)


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.window = window(512)

    def forward(self, x):
        return x * self.window
""",
        "`self.window` is no buffer",
    ),
    "an array of a tensor without a copy to the host": (
        """\
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def validation_step(self, batch, index):
        shown = self.layer(batch).detach().view(-1).numpy()
        self.logger.experiment.log({"shown": shown})
""",
        "without `.cpu()`",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_that_would_fail_on_a_gpu_stays_on_the_cpu(job: MakeJob, case: str) -> None:
    model, reason = CASES[case]
    files = {"job.sh": "#SBATCH --gres=gpu:1\npython train.py\n", "train.py": TRAIN, "model.py": IMPORTS + model}
    check_declined(job, "GPU415", files, reason)
    (found,) = job(files).scan("GPU415")
    assert found.finding.help.startswith("request no GPU, or use `accelerator='gpu'` once model.py:")
    assert reason in found.finding.help
