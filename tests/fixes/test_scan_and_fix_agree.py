"""``gpulint fix`` changes what ``gpulint scan`` shows, and speaks of nothing that its own fixes have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main

MODEL = """\
import torch
from torch.utils.data import DataLoader
from {package} import Net, features_of, make_batches, read_recordings

torch.autograd.set_detect_anomaly(True)
recordings = read_recordings("recordings")
features = [features_of(recording) for recording in recordings]
training_loader = DataLoader(make_batches(features), batch_size=64, num_workers=8)
model = Net(len(features), hidden=512).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.0003, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=90)
for epoch in range(90):
    model.train()
    for spectrogram, direction in training_loader:
        predicted = model(spectrogram.cuda(non_blocking=True))
        loss = torch.nn.functional.mse_loss(predicted, direction.cuda(non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    scheduler.step()
"""
NORM = """\
import torch
from net import Net

model = Net().cuda()


def gradient_norm():
    norm = 0.0
    for parameter in model.parameters():
        norm += parameter.grad.norm(2).item() ** 2
    norm = norm ** 0.5
    if norm > 10:
        for parameter in model.parameters():
            parameter.grad.mul_(10 / norm)
    return norm


for images, labels in loader:
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    gradient_norm()
    optimizer.step()
"""


def output(capsys: pytest.CaptureFixture[str], *command: str) -> list[dict[str, Any]]:
    main([*command, "--isolated", "--output-format", "json"])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_what_a_scan_hides_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(MODEL.format(package="nets"))
    shown = output(capsys, "scan", "--no-cache", "--select", "GPU414", str(tmp_path))
    named = {one["path"] for one in shown} | {place["path"] for one in shown for place in one["related"]}
    fixed = output(capsys, "fix", "--select", "GPU414", str(tmp_path))
    assert {one["path"] for one in fixed if one["applied"]} == named
    everything = output(capsys, "fix", "--impact", "low", "--select", "GPU414", str(tmp_path))
    assert sum(one["applied"] for one in everything) == 2


def test_the_one_read_that_a_fix_leaves_is_no_finding_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(NORM)
    (tmp_path / "net.py").write_text("")
    done = output(capsys, "fix", "--unsafe-fixes", "--impact", "low", "--select", "GPU305", str(tmp_path))
    assert [(one["line"], one["state"]) for one in done] == [(10, "applied")]


ELEMENTS = """\
import torch

from net import Net

model = Net().cuda()
counts = [0] * 10
for epoch in range(90):
    for images, labels in train_loader:
        labels = labels.cuda()
        found = model(images.cuda())
        loss = criterion(found, labels)
        loss.backward()
        optimizer.step()
        for row in found:
            for one in row:
                journal.put(one.item())
        best = found.argmax(1)
        for k in range(len(best)):
            counts[best[k].item()] += 1
    print(counts)
"""


def test_a_finding_of_several_places_has_the_fix_of_any(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(ELEMENTS)
    (tmp_path / "net.py").write_text("")
    (shown, *_) = output(capsys, "scan", "--no-cache", "--select", "GPU305", str(tmp_path))
    fixed = output(capsys, "fix", "--unsafe-fixes", "--select", "GPU305", str(tmp_path))
    assert [one["line"] for one in fixed if one["applied"]] == [19] and shown["line"] == 16
    assert shown["fix"]["description"].startswith("in line 19: ")


NOTEBOOK = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        return to_tensor(Image.open(self.paths[index]).convert("RGB").resize((224, 224)))

photos = Photos(paths)
train_loader = DataLoader(photos, batch_size=64, shuffle=True)
for epoch in range(90):
    for images in train_loader:
        model(images.cuda()).backward()
        optimizer.step()
"""


def test_what_a_notebook_defines_belongs_into_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A main guard helps no notebook, whose cells a spawned process does not run."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": NOTEBOOK}
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    (tmp_path / "train.py").write_text(NOTEBOOK)
    found = output(capsys, "scan", "--no-cache", "--select", "GPU303", str(tmp_path))
    told = {one["path"].rpartition("/")[2]: one["fix"]["description"] for one in found}
    assert told["train.ipynb"].endswith("; `Photos` has to be in a module where processes are spawned")
    assert told["train.py"].endswith(
        "; needs an `if __name__ == '__main__'` where processes are spawned, as on Windows or macOS"
    )
