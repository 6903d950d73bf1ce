"""GPU413's repair: the wrapper stands where it can, and checkpoints keep their keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(4, 2)
        self.rate = 0.1

    def forward(self, x):
        return self.out(x)


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Net()
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=model.rate)
    for _ in range(3):
        for batch in [torch.randn(8, 4)]:
            loss = model(batch.to(device)).square().mean()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), "last.pt")
    print(loss.item())


main()
"""
LAUNCHER = "#SBATCH --gres=gpu:4\npython train.py\n"


def job_of(job: MakeJob, program: str) -> Any:
    return job({"train.py": program, "job.sh": LAUNCHER})


def test_the_wrapped_program_saves_the_same_checkpoint(job: MakeJob, tmp_path: Path) -> None:
    """On a machine without GPUs the wrapper hands batches through: the loss and the file's keys are what is shown."""
    torch = pytest.importorskip("torch")
    made = job_of(job, PROGRAM)
    assert made.repair("GPU413") == 1
    assert "model = torch.nn.DataParallel(model)" in made.text("train.py")
    printed = made.outputs({"before.py": PROGRAM, "after.py": made.text("train.py")})
    assert printed["after.py"] == printed["before.py"] != ""
    state, again = torch.load(tmp_path / "before/last.pt"), torch.load(tmp_path / "after/last.pt")
    assert list(again) == list(state) == ["out.weight", "out.bias"]
    assert all(torch.equal(again[name], state[name]) for name in state)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("model(batch.to(device)).square().mean()", "model(batch.to(device))", "returns its loss"),
        ("model(batch.to(device)).square().mean()", "model(batch.to(device))[0] / 4", "returns its loss"),
        ("    optimizer = ", "    model = torch.compile(model)\n    optimizer = ", "is reassigned"),
        (
            "    model = model.to(device)",
            "    if device == 'cuda':\n        model = model.to(device)",
            "conditionally",
        ),
        ("    model = model.to(device)", "    for _ in range(1):\n        model = model.to(device)", "in a loop"),
        ("print(loss.item())", "return model", "returns the model"),
        ("main()\n", "def show(net): print(net.rate)\nmain()\n", None),
        ("    optimizer = ", "    parts = {'body': model}\n    optimizer = ", "put into a table or another variable"),
        ("print(loss.item())", "show(model)\n\ndef show(net): print(net.rate)\n", "`.rate`"),
    ],
)
def test_what_cannot_be_wrapped_here_gets_one_gpu(job: MakeJob, before: str, after: str, reason: str | None) -> None:
    assert before in PROGRAM
    made = job_of(job, PROGRAM.replace(before, after, 1))
    offer = made.offer("GPU413")
    if reason is None:
        assert {edit.path.name for edit in offer.edits} == {"train.py"}
    else:
        assert reason in offer.description
        assert [(edit.path.name, edit.text) for edit in offer.edits] == [("job.sh", "--gres=gpu:1")]


def test_a_function_that_saves_the_wrapped_model_is_named(job: MakeJob) -> None:
    helper = "keep(model)\n\ndef keep(net): torch.save(net.state_dict(), 'last.pt')\n"
    made = job_of(job, PROGRAM.replace("print(loss.item())", helper))
    assert "start with `module.`" in made.offer("GPU413").description
