"""Waits that some steps pass by neither lead the others of their loop nor say that every step has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main

LOOP = """\
import torch

total = correct = lowest = highest = 0
for epoch in range(90):
    for images, labels in loader:
        labels = labels.cuda()
        output = model(images.cuda())
        loss = criterion(output, labels)
        loss.backward()
        optimizer.step()
"""
EVERY = """\
        total += loss.item()
        lowest += output.min().item()
        highest += output.max().item()
        correct += (output.argmax(1) == labels).sum().item()
"""
IN_BRANCH = """\
        if CONDITION:
            for number in range(len(images)):
                keep(output[number].cpu().numpy())
"""


def found(folder: Path, capsys: pytest.CaptureFixture[str], program: str) -> list[dict[str, Any]]:
    (folder / "train.py").write_text(program)
    options = ["--isolated", "--no-cache", "--exit-zero", "--output-format", "json", "--impact", "low"]
    assert main(["scan", *options, "--select", "GPU305", str(folder)]) == 0
    return list(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("condition", ["random.random() > 0.75", "limit(images) > 8", "epoch >= 10"])
def test_a_place_that_steps_pass_by_does_not_lead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str
) -> None:
    waits = found(tmp_path, capsys, LOOP + EVERY + IN_BRANCH.replace("CONDITION", condition))
    assert [one["line"] for one in waits if one["impact"]["level"] != "low"] == [11]
    (passed,) = [one for one in waits if "output[number]" in one["message"]]
    assert passed["message"].endswith(" on training iterations that get there")
    assert passed["impact"]["basis"].startswith("every step that gets there, ")
    others = [one for one in waits if one["line"] < 15]
    assert all("on every training iteration" in one["message"] for one in others)
    assert all(one["impact"]["basis"].startswith("every step, ") for one in others)


@pytest.mark.parametrize("condition", ["True", "model.training"])
def test_a_place_that_every_step_gets_to_may_lead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str
) -> None:
    waits = found(tmp_path, capsys, LOOP + EVERY + IN_BRANCH.replace("CONDITION", condition))
    (first,) = [one for one in waits if one["impact"]["level"] != "low"]
    assert first["line"] == 17
    assert "on every training iteration" in first["message"]
    assert first["impact"]["basis"].startswith("every step, ")


SCALED = LOOP.replace("loss.backward()", "scaler.scale(loss).backward()").replace(
    "optimizer.step()", "scaler.step(optimizer)\n        scaler.update()"
)
SHOWN = """\
        writer.add_scalar("loss", loss.item())
        writer.add_scalar("lowest", output.min().item())
        writer.add_scalar("highest", output.max().item())
        writer.add_scalar("mean", output.mean().item())
        writer.add_histogram("output", output.cpu().numpy())
        writer.add_scalar("correct", (output.argmax(1) == labels).sum().item())
"""


@pytest.mark.parametrize(("program", "low"), [(LOOP, False), (SCALED, True)])
def test_numbers_that_steps_show_after_another_wait_cost_little(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str, low: bool
) -> None:
    """The scaler of gradients waits before it steps; drawings of bad steps, which are seldom, change nothing of that."""
    drawn = IN_BRANCH.replace("CONDITION", "limit(images) > 8")
    waits = found(tmp_path, capsys, program + EVERY + 4 * SHOWN + drawn)
    assert waits
    assert all(one["impact"]["level"] == "low" for one in waits) is low


EACH = """\
        for name, parameter in model.named_parameters():
            if CONDITION:
                lengths.append(parameter.grad.norm().item())
"""


@pytest.mark.parametrize(
    ("condition", "often"),
    [
        ("parameter.grad is not None", "on every training iteration"),
        ("parameter.requires_grad and 'bias' not in name", "on every training iteration"),
        ("parameter.grad is None or random.random() > 0.75", "on training iterations that get there"),
        ("len(parameter) > 8", "on training iterations that get there"),
        ("probe is not None", "on training iterations that get there"),
    ],
)
def test_steps_get_to_a_place_that_some_elements_of_an_inner_loop_get_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str, often: str
) -> None:
    (wait,) = found(tmp_path, capsys, LOOP + EACH.replace("CONDITION", condition))
    assert wait["line"] == 13
    assert wait["message"].endswith(f"makes the host wait for the GPU {often}")


def test_rows_that_are_told_apart_may_lead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = """\
        for row in range(len(images)):
            if labels[row].item() != -100:
                kept.append(output[row].max().item())
"""
    waits = found(tmp_path, capsys, LOOP + EVERY + rows)
    (first,) = [one for one in waits if one["impact"]["level"] != "low"]
    assert first["line"] == 16
    assert first["impact"]["basis"].startswith("every step, at least 6 waits, 2 of them in inner loops")


_MARGIN = """\
import torch


class Margin(torch.nn.Module):
    def forward(self, output, labels):
        distance = (output.cuda() - labels).pow(2).mean()
        return {made}


criterion = Margin()
net = torch.nn.Linear(8, 8).cuda()
total = 0.0
for number, (images, labels) in enumerate(loader):
    output = net(images.cuda())
    if number == 0:
        loss = criterion(output, labels.cuda())
    else:
        loss = loss + {other}
    loss.backward()
    optimizer.step()
    total += loss.item()
"""


@pytest.mark.parametrize(
    ("made", "other", "waits"),
    [
        ("torch.max(torch.Tensor([torch.tensor(0), 0.9 - distance]))", "criterion(output, labels.cuda())", True),
        ("torch.tensor([0.0, 0.9 - distance]).max()", "criterion(output, labels.cuda())", True),
        ("torch.tensor([one.mean() for one in output.cuda()]).sum()", "criterion(output, labels.cuda())", True),
        ("torch.tensor([0.0, 0.9 - distance]).max()", "output.mean()", False),
        ("distance + torch.tensor([len(output), output.size(1)]).cuda().sum()", "criterion(output, labels)", False),
        ("torch.stack([distance, 0.9 - distance]).max()", "criterion(output, labels)", False),
    ],
)
def test_a_tensor_of_a_list_with_tensors_waits_for_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, other: str, waits: bool
) -> None:
    """A read beside it saves nothing. The other branch of a condition may call the same function, or none that waits."""
    lines = [one["line"] for one in found(tmp_path, capsys, _MARGIN.format(made=made, other=other))]
    assert lines == ([] if waits else [21])
