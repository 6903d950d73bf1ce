"""Reads that get no fix because another wait of the same step stays, in code that a module does not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

RATED = """\
import torch
{imports}

def train(model, loader, optimizer, criterion):
    total, scores = 0.0, 0.0
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        outputs = model(x)
        loss = criterion(outputs, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        predicted = outputs.argmax(1)
        {rated}
    return total, scores
"""

SCORES = """\
from sklearn.metrics import f1_score


def compute_metrics(predicted, labels):
    return f1_score(labels.cpu().numpy(), predicted.cpu().numpy()), 0.0
"""

PARTS = """\
import torch


def train(model, loader, optimizer, criterion, parts):
    total = 0
    for images, labels in loader:
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        optimizer.zero_grad()
        for part in range(parts):
            last = 0
            loss = criterion(model(images[part * 8 : (part + 1) * 8]), labels[part * 8 : (part + 1) * 8])
            loss.backward()
            last += loss.item()
            {more}
        optimizer.step()
    return total
"""


@pytest.mark.parametrize(
    ("imports", "rated"),
    [
        ("", "f1, _ = compute_metrics(predicted, y)\n        scores += f1"),
        ("from scores import *\n", "f1, _ = compute_metrics(predicted, y)\n        scores += f1"),
        ("from scores import compute_metrics\n", "scores += compute_metrics(predicted, y)[0]"),
        ("", "scores += accuracy_of(predicted, labels=y)"),
    ],
)
def test_a_rating_that_may_read_its_tensors_leaves_nothing_to_gain(job: MakeJob, imports: str, rated: str) -> None:
    made = job({"train.py": RATED.format(imports=imports, rated=rated), "scores.py": SCORES})
    assert made.repair("GPU305") == 0


@pytest.mark.parametrize(
    "rated",
    [
        "shown = accuracy_of(predicted, y)\n        scores = shown.detach()",
        "scores = accuracy_of(len(x))",
        "scores = criterion(predicted, y)",
    ],
)
def test_what_gives_tensors_or_takes_none_does_not_count(job: MakeJob, rated: str) -> None:
    made = job({"train.py": RATED.format(imports="", rated=rated)})
    assert made.repair("GPU305") == 1
    assert "total += loss.detach().double()" in made.text("train.py")


def test_a_sum_that_nothing_reads_stays_beside_one_that_each_step_reads(job: MakeJob) -> None:
    both = {"train.py": PARTS.format(more="total += loss.item()")}
    check_declined(job, "GPU305", both, "every step waits in line 14 as well, which no fix changes")
    made = job({"train.py": PARTS.format(more="pass")})
    assert made.repair("GPU305") == 1
    assert "last" not in made.text("train.py")


PROMISED = """\
import torch


def {name}(value):
    {doc}
    return value.view(-1).item()


def train(model, loader, optimizer):
    total = 0.0
    for x in loader:
        loss = model(x.cuda(non_blocking=True)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += {name}(loss)
    return total
"""


@pytest.mark.parametrize(
    ("name", "doc"),
    [
        ("to_scalar", "pass"),
        ("tensor_to_float", "pass"),
        ("value_of", '"""Convert a tensor to a scalar number."""'),
        ("value_of", '"""\n    Returns:\n        float: the value\n    """'),
    ],
)
def test_a_function_that_promises_a_number_returns_one(job: MakeJob, name: str, doc: str) -> None:
    made = {"train.py": PROMISED.format(name=name, doc=doc)}
    check_declined(job, "GPU305", made, f"`{name}` says that it returns a number")


@pytest.mark.parametrize("doc", ["pass", '"""Return the loss of a batch (a scalar tensor)."""', '"""Return it."""'])
def test_a_function_that_promises_no_number_returns_a_tensor(job: MakeJob, doc: str) -> None:
    made = job({"train.py": PROMISED.format(name="value_of", doc=doc)})
    assert made.repair("GPU305") == 1
    assert "    return value.view(-1).detach()\n" in made.text("train.py")
