"""Reads that other modules do in each step leave little to gain for those of one module."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main
from tests.assessment.scans import bases, costs_much

LOOP = """\
import torch
from net import Net
from terms import Terms

model = Net().cuda()
terms = Terms()
total, lowest, highest, mean = 0, 0, 0, 0
for images, labels in loader:
    labels = labels.cuda()
    output = model(images.cuda(), CALL)
    loss = criterion(output, labels)
    loss.backward()
    optimizer.step()
"""
READS = """\
    total += loss.item()
    lowest += output.min().item()
    highest += output.max().item()
    mean += output.mean().item()
print(total, lowest, highest, mean)
"""
NET = """\
import torch


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.register_buffer("hits", torch.zeros(8))

    def forward(self, rows, lengths, usages=False):
        hidden = self.layer(rows)
        READ
        return hidden


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, rows, lengths, usages=False):
        return self.part(rows, lengths, usages)
"""
TERMS = """\
class Terms:
    def add(self, values):
        for place, value in enumerate(values):
            self.kept[place].append(value.item())
"""


def impacts(folder: Path, capsys: pytest.CaptureFixture[str], path: str) -> list[dict[str, str]]:
    options = ["--isolated", "--no-cache", "--exit-zero", "--output-format", "json", "--impact", "low"]
    assert main(["scan", *options, "--select", "GPU305", str(folder)]) == 0
    found = json.loads(capsys.readouterr().out)
    return [one["impact"] for one in found if one["path"].endswith(path)]


@pytest.mark.parametrize(
    ("read", "call", "stays"),
    [
        ("sizes = lengths.cpu()", "labels", True),
        ("if step % 100 == 0: shown = hidden.max().item()", "labels", False),
        ("if usages: shown = self.hits.mean().item()", "labels, usages=True", True),
        ("if usages: shown = self.hits.mean().item()", "labels, usages=False", False),
        ("if usages: shown = self.hits.mean().item()", "labels, config.usages", False),
        ("if not usages: shown = self.hits.mean().item()", "labels, usages=True", False),
        ("hidden = hidden.relu()", "labels", False),
    ],
)
def test_a_forward_pass_that_reads_leaves_little_to_gain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], read: str, call: str, stays: bool
) -> None:
    (tmp_path / "net.py").write_text(NET.replace("READ", read))
    (tmp_path / "terms.py").write_text(TERMS)
    (tmp_path / "train.py").write_text(LOOP.replace("CALL", call) + READS)
    found = impacts(tmp_path, capsys, "train.py")
    assert {one["level"] for one in found if costs_much(one)} == (set() if stays else {"medium"})
    assert all(("net.py:12 waits as well" in one["basis"]) is stays for one in found)


@pytest.mark.parametrize("read", ["sizes = lengths.cpu() if self.training else None", "shown = self.name.item()"])
def test_a_forward_pass_that_may_read_is_not_said_to_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], read: str
) -> None:
    (tmp_path / "net.py").write_text(NET.replace("READ", read))
    (tmp_path / "terms.py").write_text(TERMS)
    (tmp_path / "train.py").write_text(LOOP.replace("CALL", "labels") + READS)
    found = impacts(tmp_path, capsys, "train.py")
    assert found and not any("waits as well" in one["basis"] for one in found)


@pytest.mark.parametrize(
    ("handed", "read", "shows"),
    [
        ("[output.min(), output.max()]", "    total += loss.item()\n", False),
        ("output", "    total += loss.item()\n", True),
        ("model.parameters()", "    total += loss.item()\n", True),
    ],
)
def test_a_helper_that_reads_few_values_beside_another_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], handed: str, read: str, shows: bool
) -> None:
    (tmp_path / "net.py").write_text(NET.replace("READ", ""))
    (tmp_path / "terms.py").write_text(TERMS)
    (tmp_path / "train.py").write_text(LOOP.replace("CALL", "labels") + read + f"    terms.add({handed})\n")
    assert any(costs_much(one) for one in impacts(tmp_path, capsys, "terms.py")) is shows


@pytest.mark.parametrize(("reads", "shows"), [(1, False), (2, False), (48, True)])
def test_reads_of_another_module_that_are_shown_themselves_are_one_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reads: int, shows: bool
) -> None:
    table = "".join(f"        self.sums[{number}] += given[{number}].max().item()\n" for number in range(reads))
    (tmp_path / "net.py").write_text(NET.replace("READ", ""))
    (tmp_path / "terms.py").write_text(f"class Terms:\n    def add(self, given):\n{table}")
    (tmp_path / "train.py").write_text(LOOP.replace("CALL", "labels") + "    terms.add(output)\n" + READS)
    found = impacts(tmp_path, capsys, "train.py") + impacts(tmp_path, capsys, "terms.py")
    assert len([one for one in found if one["level"] != "low"]) == shows
    assert any(costs_much(one) for one in found) is shows


TESTED = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wanted = 4

    def forward(self, rows, lengths, usages=False):
        distances = torch.norm(rows - lengths, dim=-1)
        inside = (distances <= 1).float()
        places = inside.argsort(descending=True)COPY
        if TEST:
            places[0] = 0
        return distances[:, places]
"""


@pytest.mark.parametrize(
    ("test", "copy", "waits"),
    [
        ("inside.sum(-1).min() < self.wanted", ".cpu().numpy()", True),
        ("inside.mean() > 0.5", ".cpu()", True),
        ("inside[:, 0].any() == True", ".cpu()", True),
        ("inside.sum(-1).min() < self.wanted", "", False),
        ("inside.size(0) < self.wanted", ".cpu()", False),
        ("len(inside) < self.wanted", ".cpu()", False),
        ("lengths.min() < self.wanted", ".cpu()", False),
    ],
)
def test_a_branch_on_what_is_copied_as_well_waits_in_any_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str, copy: str, waits: bool
) -> None:
    (tmp_path / "net.py").write_text(TESTED.replace("TEST", test).replace("COPY", copy))
    (tmp_path / "terms.py").write_text(TERMS)
    (tmp_path / "train.py").write_text(LOOP.replace("CALL", "labels") + READS)
    found = impacts(tmp_path, capsys, "train.py")
    assert found and all(("net.py:13 waits in any case" in one["basis"]) is waits for one in found)


@pytest.mark.parametrize(
    ("between", "brief"), [("", 3), ("    optimizer.step()\n", 2), ("    critic(output).backward()\n", 2)]
)
def test_reads_right_after_another_one_are_said_to_be_brief(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], between: str, brief: int
) -> None:
    (tmp_path / "net.py").write_text(NET.replace("READ", ""))
    (tmp_path / "terms.py").write_text(TERMS)
    reads = READS.replace("    highest", f"{between}    highest")
    (tmp_path / "train.py").write_text(LOOP.replace("CALL", "labels") + reads)
    found = impacts(tmp_path, capsys, "train.py")
    told = f"every step, at least 4 waits, {brief} of them brief, right after another one"
    assert len(found) == 4 and all(one["basis"].startswith(told) for one in found)


MATCHING = """\
import torch
from scipy.optimize import linear_sum_assignment

class Criterion(torch.nn.Module):
    def match(self, boxes, targets):
        if targets.size(0) == 0:
            return [], []
        costs = torch.cdist(boxes, targets)
        return linear_sum_assignment(costs.detach().cpu().numpy())

    def forward(self, outputs, targets):
        {size}
        total = outputs.sum()
        {loop}
            if len(targets[b]) > 0:
                rows, columns = self.match(outputs[b], targets[b])
                total = total + (outputs[b][rows] - targets[b][columns]).abs().sum()
        return total
"""

MATCHED = """\
import torch
from criterion import Criterion
from net import Net

model, criterion = Net().cuda(), Criterion()
for step, (images, targets) in enumerate(loader):
    loss = {loss}
    loss.backward()
    norm = 0.0
    for weights in model.parameters():
        norm += weights.grad.norm(2).item() ** 2
    norms.append(norm)
    total += loss.item()
    optimizer.step()
"""
_LOSS = "criterion(model(images.cuda()), targets)"


@pytest.mark.parametrize(
    ("size", "loop", "loss", "waits"),
    [
        ("B, K = outputs.shape[:2]", "for b in range(B):", _LOSS, True),
        ("B = int(outputs.shape[0])", "for b in range(B):", _LOSS, True),
        ("b = 0", "with torch.no_grad():", _LOSS, False),
        ("B = 3", "for b in range(B):", _LOSS, False),
        (
            "B, K = outputs.shape[:2]",
            "for b in range(B):",
            f"{_LOSS} if step % 100 == 0 else model(images.cuda()).mean()",
            False,
        ),
    ],
)
def test_a_step_that_waits_for_each_sample_gains_nothing_by_a_few_reads(
    tmp_path: Path, size: str, loop: str, loss: str, waits: bool
) -> None:
    files = {"criterion.py": MATCHING.format(size=size, loop=loop), "train.py": MATCHED.format(loss=loss)}
    found = [one for one in bases(tmp_path, files, "GPU305") if "the host needs" not in one]
    assert found
    assert any(one.startswith(("medium", "high")) for one in found) is not waits
    assert any("criterion.py:9 waits in any case" in one for one in found) is waits


COUNTED = """\
import torch
from net import Net

model = Net().cuda()

def score(outputs, targets):
    right = 0.0
    for i in range(outputs.size(0)):
        found = torch.where(outputs[i] > 0)[0]
        for c in range({classes}):
            right += (outputs[i, c] == targets[i, c]).sum().item()
        ends.append(found)
    return right

for images, targets in loader:
    outputs = model(images.cuda())
    loss = criterion(outputs, targets.cuda())
    loss.backward()
    for weights in model.parameters():
        norm += weights.grad.norm(2).item() ** 2
    total += loss.item()
    optimizer.step()
    hits += score(outputs, targets.cuda())
"""


@pytest.mark.parametrize(("classes", "low"), [(1, True), (80, False)])
def test_what_waits_for_each_sample_beside_reads_of_weights(tmp_path: Path, classes: int, low: bool) -> None:
    program = COUNTED.format(classes=classes)
    if classes == 1:
        program = program.replace("        for c in range(1):\n            right", "        right").replace(
            "i, c]", "i]"
        )
    found = [one for one in bases(tmp_path, {"train.py": program}, "GPU305") if "the host needs" not in one]
    assert found and all(one.startswith("low") for one in found) is low
