"""Reads that get no fix because another wait of the same step stays, in code that a module does not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined
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


LOSSES = """\
import torch


class Trainer:
    def __init__(self, model, optimizer, meters):
        self.model, self.optimizer, self.meters = model.cuda(), optimizer, meters

    def parts(self, x):
        distances = torch.norm(self.model(x), dim=-1)
        inside = (distances <= 1).float()
        {parts}
        return {{"near": distances.mean(), "far": inside.square().mean()}}

    def step(self, x):
        losses = self.parts(x)
        self.optimizer.zero_grad()
        losses["near"].backward()
        self.optimizer.step()
        return losses

    def train(self, loader):
        for number, x in enumerate(loader):
            losses = self.step(x.cuda(non_blocking=True))
            {before}
            for name, value in losses.items():
                losses[name] = value.item()
                {again}
            if number % 10 == 0:
                print(losses)
"""
UPDATE = "self.meters[name].update(value.item())"
TESTED = "if inside.sum(-1).min() < 4: print(inside.argsort().cpu().numpy())"


def losses(again: str = UPDATE, before: str = "pass", parts: str = "pass") -> dict[str, str]:
    return {"train.py": LOSSES.format(again=again, before=before, parts=parts)}


@pytest.mark.parametrize(
    ("again", "after"),
    [
        (UPDATE, "                self.meters[name].update(value)\n"),
        ("self.total += value.item() * 2", "                self.total += value * 2\n"),
        ("self.total += float(value)", "                self.total += float(value)\n"),
        ("self.put(name, value.detach().item(), value.item())", "                self.put(name, value, value)\n"),
    ],
)
def test_values_that_rounds_read_again_are_read_above_the_loop(job: MakeJob, again: str, after: str) -> None:
    made = job(losses(again))
    assert made.repair("GPU305") == 1
    text = made.text("train.py")
    assert f"losses.update(zip(losses, values))\n            for name, value in losses.items():\n{after}" in text
    assert ".item()" not in text


@pytest.mark.parametrize(
    "again",
    [
        f"{UPDATE}; self.kept = value",
        "self.meters[name].update(value.item()); self.check(value)",
        f"{UPDATE}\n                if self.done: break",
        f"{UPDATE}\n                self.check(int(value))",
    ],
)
def test_values_whose_tensor_a_round_needs_as_well_stay(job: MakeJob, again: str) -> None:
    check_declined(job, "GPU305", losses(again), "stored in an object or a table in every step")


def test_values_that_a_round_reads_once_are_read_below_it(job: MakeJob) -> None:
    made = job(losses("self.kept = value"))
    assert made.repair("GPU305") == 1
    assert "losses[name] = value.detach()\n                self.kept = value\n" in made.text("train.py")


@pytest.mark.parametrize(
    ("before", "parts", "reason"),
    [
        ('if losses["near"].item() > 9: raise ValueError', "pass", "every step waits in line 24 as well"),
        ("pass", "if distances.max().item() > 9: self.shrink()", "every step waits in line 11 as well"),
        ("pass", f"shown = inside.argsort().cpu().numpy()\n        {TESTED}", "every step waits in line 11 as well"),
        ("pass", "sizes = inside.unique()", "every step waits in line 11 as well"),
    ],
)
def test_ready_values_stay_beside_a_wait_of_the_step(job: MakeJob, before: str, parts: str, reason: str) -> None:
    check_declined(job, "GPU305", losses(before=before, parts=parts), reason)


@pytest.mark.parametrize(
    "parts",
    [
        "shown = inside.argsort() if inside.shape[0] < 4 else inside",
        "assert inside.ndim == 1",
        "self.count = 0 if self.count % 50 else inside.mean().item()",
    ],
)
def test_ready_values_are_read_together_where_nothing_else_waits(job: MakeJob, parts: str) -> None:
    made = job(losses(parts=parts))
    assert made.repair("GPU305") == 1
    assert "torch.stack(list(losses.values())).tolist()" in made.text("train.py")


LISTED = """\
import torch


def train(model, loader, optimizer):
    model.cuda()
    for x in loader:
        losses = model(x.cuda(non_blocking=True))
        loss = sum(losses)
        {test}
        loss.backward()
        optimizer.step()
        shown = [one.item() for one in losses]
        print(shown)
"""


@pytest.mark.parametrize("test", ["pass", "if torch.isnan(loss): break"])
def test_a_list_of_losses_is_read_at_once_where_nothing_else_waits(job: MakeJob, test: str) -> None:
    made = job({"train.py": LISTED.format(test=test)})
    assert made.repair("GPU305") == (test == "pass")
    assert ("shown = torch.stack(" in made.text("train.py")) is (test == "pass")


HEADS = """\
import torch

heads = [torch.nn.Linear(4, 2).cuda() for _ in range(3)]


def train(model, loader, optimizer, criterion):
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() > 100:
            raise ValueError(x)
        found = []
        for head in heads:
            found.append(criterion(head(output), y).item())
        print(found)
"""


def test_values_that_each_round_computes_are_read_together_all_the_same(job: MakeJob) -> None:
    made = job({"train.py": HEADS})
    assert made.repair("GPU305") == 1
    assert "found = torch.stack(found).tolist()" in made.text("train.py")


def test_one_read_of_a_round_stays_beside_another_one_that_no_fix_changes(job: MakeJob) -> None:
    again = "self.put(name, torch.norm(self.model.weight[name]).item())"
    check_declined(job, "GPU305", losses(again), "each round waits in line 27 as well, which no fix changes")


ROUNDS = """\
import torch
from scores import error


def numbers(terms):
    out = {{}}
    for name, term in terms.items():
        out[name] = float(term.detach().cpu().item())
    return out


def train(model, loader, optimizer):
    sums, errors = {{"total": 0.0}}, 0.0
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        optimizer.zero_grad()
        output = model(x)
        loss = torch.mean((output - y) ** 2)
        loss.backward()
        optimizer.step()
        shown = numbers({{"total": loss}})
        sums["total"] += shown["total"] * len(x)
        {more}
    return sums, errors
"""
ERROR = """\
import torch


def error(output, target) -> float:
    \"""Return a number.\"""
    return float(torch.mean(torch.abs(output - target)).cpu())
"""


def test_a_handful_of_ready_values_gains_nothing_beside_a_read_of_another_module(job: MakeJob) -> None:
    made = job({"train.py": ROUNDS.format(more="errors += error(output, y)"), "scores.py": ERROR})
    reasons = [one.fix.reason for one in made.scan("GPU305") if one.finding.path.name == "train.py"]
    assert reasons == ["every step waits in line 6 of scores.py as well, which no fix changes"]


def test_a_handful_of_ready_values_stays_on_the_gpu_where_nothing_else_waits(job: MakeJob) -> None:
    made = job({"train.py": ROUNDS.format(more="pass"), "scores.py": ERROR})
    assert made.repair("GPU305") == 1
    assert ".cpu()" not in made.text("train.py")


SPLIT = """\
import torch


def train(model, loader, trainer, criterion):
    for images, labels in loader:
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        trainer.zero_grad()
        losses = []
        for part, wanted in zip(images.split(8), labels.split(8)):
            loss = criterion(model(part), wanted)
            losses.append(loss.item())
            loss.backward()
            {inside}
        {outside}
        print(len(losses))
"""


def test_parts_of_a_step_are_known_by_what_is_done_with_an_optimizer_of_any_name(job: MakeJob) -> None:
    step = {"inside": "pass", "outside": "trainer.step()"}
    check_declined(job, "GPU305", {"train.py": SPLIT.format(**step)}, "the loop is a part of each step")


def test_rounds_that_take_steps_are_no_parts_of_one(job: MakeJob) -> None:
    step = {"inside": "trainer.step()", "outside": "pass"}
    assert job({"train.py": SPLIT.format(**step)}).repair("GPU305") == 1


RELABELLED = """\
import torch
from labels import TABLE

model = Net().cuda()


def relabel(labels):
    for i, label in enumerate(labels):
        labels[i] = torch.tensor(TABLE[str(label.item())])
    return labels


def train(loader, optimizer, criterion):
    total = 0.0
    for x, y in loader:
        if {test}:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            y = relabel(y)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""


@pytest.mark.parametrize("test", ["torch.cuda.is_available()", "torch.cuda.device_count() > 0"])
def test_a_wait_where_there_is_a_gpu_is_one_of_each_step(job: MakeJob, test: str) -> None:
    files = {"labels.py": "TABLE = {}\n", "train.py": RELABELLED.format(test=test)}
    check_declined(job, "GPU305", files, "waits in line 9 as well, which no fix changes")


def test_one_in_a_branch_that_steps_may_leave_out_is_not(job: MakeJob) -> None:
    code = RELABELLED.format(test="torch.cuda.is_available() and x.ndim > 2")
    results = job({"labels.py": "TABLE = {}\n", "train.py": code}).scan("GPU305")
    assert any(not isinstance(result.fix, Declined) for result in results)
