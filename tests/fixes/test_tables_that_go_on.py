"""Tables of a step's numbers that the loop adds up or averages: every step counts, and none is left out as of a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix

MakeJob = Callable[..., Any]
PROGRAM = """\
import torch
from tqdm import tqdm


def step(model, images, labels):
    scores = model(images)
    loss, size = criterion(scores, labels), scores.square().mean()
    return loss + size, {"loss": loss.item(), "size": size.item()}


def train(model, loader, optimizer):
    totals = {}
    bar = tqdm(loader)
    for i, (images, labels) in enumerate(bar):
        loss, logs = step(model, images.cuda(), labels.cuda())
        loss.backward()
        optimizer.step()
        for k, v in logs.items():
            USE
        bar.set_postfix(step=i)
    print({k: v / len(loader) for k, v in totals.items()})
"""


def _fixes(job: MakeJob, use: str) -> list[Fix]:
    results = job({"train.py": PROGRAM.replace("USE", use)}).scan("GPU305")
    return [result.fix for result in results if isinstance(result.fix, Fix)]


@pytest.mark.parametrize(
    "use",
    [
        "totals[k] = totals.get(k, 0.0) + float(v)",
        "totals[k] = 0.98 * totals.get(k, v) + 0.02 * v",
        "totals[k] = min(totals.get(k, 9.0), v)",
    ],
)
def test_no_step_is_left_out_of_a_table(job: MakeJob, use: str) -> None:
    assert _fixes(job, use) == []


def test_sums_stay_on_the_gpu(job: MakeJob) -> None:
    (fix,) = _fixes(job, "totals[k] = totals.get(k, 0.0) + v")
    assert all("%" not in edit.text for edit in fix.edits)


@pytest.mark.parametrize("use", ["print(k, v)", "bar.write(f'{k} {v}')", "name = f'train/{k}'; print(name, v)"])
def test_what_only_logs_does_so_less_often(job: MakeJob, use: str) -> None:
    (fix,) = _fixes(job, use)
    assert any("% 50 == 0" in edit.text for edit in fix.edits)


WRITTEN = """\
import torch


def train(model, loader, optimizer, epoch):
    f = open("{name}", "a")
    for i, (images, labels) in enumerate(loader):
        images, labels = images.cuda(), labels.cuda()
        scores = model(images)
        loss = criterion(scores, labels)
        loss.backward()
        optimizer.step()
        {line}
"""
EACH = "for b in range(len(labels)):\n            f.write(f'{epoch},{scores[b].max().item()},{labels[b].item()}\\n')"
STEP = "f.write(f'{epoch},{loss.item()}\\n')"


@pytest.mark.parametrize(
    ("name", "line", "less"),
    [
        ("predictions.csv", EACH, False),
        ("predictions.txt", EACH, False),
        ("rows.jsonl", STEP, False),
        ("rows.jsonl", "print(epoch, loss.item(), file=f)", False),
        ("train.log", STEP, True),
        ("out.txt", STEP, True),
        ("out.txt", "print(epoch, loss.item(), file=f)", True),
    ],
)
def test_rows_of_files_that_programs_read_are_all_written(job: MakeJob, name: str, line: str, less: bool) -> None:
    results = job({"train.py": WRITTEN.format(name=name, line=line)}).scan("GPU305")
    edits = [edit for result in results if isinstance(result.fix, Fix) for edit in result.fix.edits]
    assert any("% 50 == 0" in edit.text for edit in edits) == less
