"""Of several waits of a step, the one that costs most leads; what runs once is not counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main

NET = "from torch.nn import Linear as Net\nfrom torch.utils.data import Dataset\nclass Data(Dataset):\n    pass\n"
TRAIN = """\
import os
import torch
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader
from tqdm import tqdm
from net import Data, Net


def clip(parameters, most):
    total = 0.0
    for p in parameters:
        grad = p.grad.detach()
        if isinstance(grad, DTensor):
            total += grad.norm(2.0).to_local().item() ** 2.0
        else:
            total += grad.norm(2.0).item() ** 2.0
    if total > most:
        for p in parameters:
            p.grad.mul_(most / total)


def train(model, steps, low=None):
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Data(), batch_size=8, num_workers=4, pin_memory=True)
    step = 0
    if os.path.exists("last.pt"):
        step = torch.load("last.pt").get("step", 0)
    for epoch in range(1000):
        for batch in (bar := tqdm(loader)):
            if step >= steps:
                break
            if low is None and hasattr(model, "low"):
                low = model.low.item()
                high = model.high.item()
            loss = model(batch["x"].cuda(non_blocking=True)).mean()
            loss.backward()
            clip([*model.parameters()], 1.0)
            optimizer.step()
            step += 1
            bar.set_postfix({"loss": loss.item()})


train(Net().cuda(), STEPS)
"""


def _found(tmp_path: Path, capsys: pytest.CaptureFixture[str], train: str) -> dict[int, dict[str, str]]:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "train.py").write_text(train)
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(tmp_path)])
    return {one["line"]: one["impact"] for one in json.loads(capsys.readouterr().out)}


def test_a_read_of_each_parameter_leads_whichever_branch_it_is_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _found(tmp_path, capsys, TRAIN.replace("STEPS", "100000"))
    assert [line for line, impact in found.items() if impact["level"] != "low"] == [14]
    assert "also lines 16 and 40" in found[14]["basis"]
    assert {33, 34}.isdisjoint(found)


def test_a_read_in_one_branch_alone_does_not_lead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = TRAIN.replace("total += grad.norm(2.0).item() ** 2.0", "total += 1.0").replace(
        "isinstance(grad, DTensor)", "p.tracked"
    )
    found = _found(tmp_path, capsys, alone.replace("STEPS", "100000"))
    assert "one repair with" not in found[40]["basis"]


@pytest.mark.parametrize(("steps", "every"), [("25", "10"), ("100000", "50"), ("int(os.environ['STEPS'])", "50")])
def test_a_log_interval_fits_the_steps_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: str, every: str
) -> None:
    train = TRAIN.replace("STEPS", steps)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "train.py").write_text(train)
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(tmp_path)])
    fixes = [one["fix"] for one in json.loads(capsys.readouterr().out) if one["line"] == 40]
    assert any(f"% {every} == " in edit["text"] for fix in fixes for edit in fix["edits"])
