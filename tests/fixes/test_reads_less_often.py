"""Programs whose numbers stay on the GPU print the same ones: real programs run before and after unsafe fixes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

SETUP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
inputs = torch.randn(96, 16)
targets = (inputs[:, 0] > 0).long()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
"""
"""Data, a model and an optimizer."""

PROGRAM = (
    SETUP
    + """\
history = {"loss": []}


def gradient_norm(model):
    total_norm = 0
    for p in model.parameters():
        total_norm += p.grad.data.norm(2).item() ** 2
    total_norm = total_norm ** 0.5
    return total_norm


def step(x, y):
    output = model(x)
    loss = criterion(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    correct = (output.argmax(1) == y).sum().item()
    return loss.item(), correct


def parts(output, y):
    whole = criterion(output, y)
    return whole, {"whole": whole.item(), "half": float(whole / 2)}


def train(epoch):
    shown = 0.0
    total, losses, right, seen, average = 0.0, [], 0, 0, 0.0
    sums = [0.0] * 2
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss, correct = step(x, y)
        total += loss * len(y)
        losses.append(loss)
        right += correct
        norm = gradient_norm(model)
        extra, table = parts(model(x), y)
        shown += table["half"]
        extra.backward()
        optimizer.step()
        average = 0.4 * extra.item() + 0.6 * average
        history["loss"].append(extra.item())
        sums[i % 2] += extra.item()
        seen += float(extra.detach().cpu()) * len(y)
        if i % 3 == 0:
            print(loss, correct, table, f"{norm:.4f} {average:.6f}")
    total = total / len(loader)
    return total, losses, right, seen, average, sums, shown


for epoch in range(3):
    print(*train(epoch))
print(history)
"""
)


def test_numbers_and_parameters_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM})
    reads = PROGRAM.count(".item()") + PROGRAM.count("float(")
    fixes, before, after = made.repaired("train.py", "GPU305")
    assert fixes >= reads
    assert ".item()" not in made.text("train.py")
    assert len(before.splitlines()) == 10
    assert after == before


SHARED = """\
import math
import sys

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(loader):
    model = nn.Linear(3, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        total, correct, seen, losses, accs, means = 0.0, 0, 0, [], [], []
        running = 0.0
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            loss_value = loss.item()
            if not math.isfinite(loss_value):
                print(f"Loss is {loss_value}, stopping")
                sys.exit(1)
            loss /= 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss_value * len(x)
            seen += len(x)
            losses.append(loss_value)
            hits = (out.argmax(1) == y).sum().item()
            acc = hits / len(x)
            accs.append(acc)
            correct += hits
            means.append(100.0 * correct / seen)
            running += loss_value
            if step % 5 == 0:
                print(step, loss_value, hits, acc, f"{running / 5:.4f}")
                running = 0.0
        print(total / seen, correct, correct / seen, losses, accs, means)


train_loader = [(torch.randn(8, 3), torch.randint(4, (8,))) for _ in range(12)]
train(train_loader)
"""


def test_values_that_a_step_uses_several_times_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": SHARED})
    fixes, before, after = made.repaired("train.py", "GPU305")
    assert fixes == 2
    assert ".item()" not in made.text("train.py")
    assert "if step % 5 == 0 and not math.isfinite(float(loss_value)):" in made.text("train.py")
    assert len(before.splitlines()) == 12
    assert after == before


METERS = """\
from collections import defaultdict, deque

import torch
import torch.distributed as dist


class SmoothedValue:
    def __init__(self, window_size=20, fmt=None):
        self.deque = deque(maxlen=window_size)
        self.total = 0.0
        self.count = 0
        self.fmt = fmt or "{median:.4f} ({global_avg:.4f})"

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    @property
    def median(self):
        return torch.tensor(list(self.deque)).median().item()

    @property
    def global_avg(self):
        return self.total / self.count

    @property
    def max(self):
        return max(self.deque)

    @property
    def value(self):
        return self.deque[-1]

    def __str__(self):
        return self.fmt.format(median=self.median, global_avg=self.global_avg, max=self.max, value=self.value)


class MetricLogger:
    def __init__(self):
        self.meters = defaultdict(SmoothedValue)

    def update(self, **kwargs):
        for k, v in kwargs.items():
            if isinstance(v, torch.Tensor):
                v = v.item()
            assert isinstance(v, (float, int))
            self.meters[k].update(v)

    def log_every(self, iterable, print_freq):
        for i, batch in enumerate(iterable):
            yield batch
            if i % print_freq == 0:
                print(i, *(f"{name}: {meter}" for name, meter in self.meters.items()))


def all_reduce_mean(x):
    if dist.is_initialized():
        x_reduce = torch.tensor(x).cuda()
        dist.all_reduce(x_reduce)
        return (x_reduce / dist.get_world_size()).item()
    return x
"""
ENGINE = """\
import math
import sys

import torch
from torch import nn

import misc

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train_one_epoch(model, optimizer, loader, accum_iter):
    metric_logger = misc.MetricLogger()
    for data_iter_step, (x, y) in enumerate(metric_logger.log_every(loader, 20)):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        penalty = (out ** 2).mean()
        loss_value = loss.item()
        if not math.isfinite(loss_value):
            print("Loss is {}, stopping training".format(loss_value))
            sys.exit(1)
        loss /= accum_iter
        loss.backward()
        if (data_iter_step + 1) % accum_iter == 0:
            optimizer.step()
            optimizer.zero_grad()
        metric_logger.update(loss=loss_value)
        metric_logger.update(penalty=penalty.item())
        metric_logger.update(lr=optimizer.param_groups[0]["lr"])
        loss_value_reduce = misc.all_reduce_mean(loss_value)
        if (data_iter_step + 1) % accum_iter == 0:
            print("written", loss_value_reduce, data_iter_step)
    return {name: (meter.global_avg, meter.value, meter.max) for name, meter in metric_logger.meters.items()}


model = nn.Linear(3, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(8, 3), torch.randint(4, (8,))) for _ in range(120)]
for epoch in range(2):
    print(train_one_epoch(model, optimizer, batches, 1))
"""


def test_meters_by_name_show_the_same(job: MakeJob) -> None:
    """What was written in every step is written in every 50th."""
    pytest.importorskip("torch")
    made = job({"train.py": ENGINE, "misc.py": METERS})
    assert made.repair("GPU305") >= 2
    fixed, meters = made.text("train.py"), made.text("misc.py")
    assert ".item()" not in fixed
    assert "if (data_iter_step + 1) % (50 * accum_iter) == accum_iter:\n            loss_value_reduce" in fixed
    before = job({"train.py": ENGINE, "misc.py": METERS}).train("train.py")[0].splitlines()
    after = job({"train.py": fixed, "misc.py": meters}).train("train.py")[0].splitlines()
    written = [line for line in before if line.startswith("written")]
    assert [line for line in before if line not in written or line.split()[-1] in ("0", "50", "100")] == after


LISTS = """\
from collections import defaultdict

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Trainer:
    def __init__(self):
        self.losses = []
        self.sums = []
        self.model = nn.Linear(3, 4).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, loader):
        parts = defaultdict(list)
        for x, y in loader:
            out = self.model(x.to(device))
            loss = nn.functional.cross_entropy(out, y.to(device))
            penalty = (out ** 2).mean()
            self.optimizer.zero_grad()
            (loss + 0.01 * penalty).backward()
            self.optimizer.step()
            self.losses.append(loss.item())
            self.sums.append(float(loss.item()) + 0.01 * penalty.item())
            for name, part in {"loss": loss, "penalty": penalty}.items():
                parts[name].append(part.item())
        return {name: sum(values) / len(values) for name, values in parts.items()}


trainer = Trainer()
for epoch in range(3):
    print(trainer.train([(torch.randn(8, 3), torch.randint(4, (8,))) for _ in range(12)]))
    print(trainer.losses, trainer.sums)
"""


def test_lists_of_objects_and_tables_hold_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": LISTS})
    fixes, before, after = made.repaired("train.py", "GPU305")
    assert fixes == 3
    assert ".item()" not in made.text("train.py")
    assert len(before.splitlines()) == 6
    assert after == before


TABLES = (
    SETUP
    + """\
from collections import defaultdict


class Losses(nn.Module):
    def forward(self, output, y) -> tuple[torch.Tensor, dict[str, float]]:
        near = criterion(output, y)
        far = output.pow(2).mean()
        total = near + 0.1 * far
        parts = {"near": near.item(), "whole": total.item()}
        parts["far"] = 1.0 - far.item()
        total /= 2
        return total, parts


class Trainer:
    def __init__(self):
        self.losses = Losses()
        self.seen = []

    def step(self, x, y):
        loss, parts = self.losses(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        self.seen.append(loss.item())
        optimizer.step()
        return parts

    def fit(self, epochs):
        for epoch in range(epochs):
            sums, lists, rows, near = defaultdict(float), defaultdict(list), [], 0.0
            for step, (x, y) in enumerate(loader):
                parts = self.step(x.to(device), y.to(device))
                rows.append(parts)
                near += parts["near"]
                for key, value in parts.items():
                    sums[key] += value
                    lists[key].append(value)
                if step % 3 == 0:
                    print(epoch, step, parts)
            print(dict(sums), dict(lists), rows, near, self.evaluate())
        print(self.seen)

    @torch.no_grad()
    def evaluate(self):
        total = 0.0
        for x, y in loader:
            _, parts = self.losses(model(x.to(device)), y.to(device))
            total += parts["whole"]
        return total


Trainer().fit(3)
"""
)


def test_tables_that_pass_through_functions_hold_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": TABLES})
    fixes, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert fixes == 3
    assert ".item()" not in text
    assert '"whole": total.detach().clone()' in text
    assert len(before.splitlines()) == 10
    assert after == before


WHOLE = (
    SETUP
    + """\


def compute(x, y) -> tuple[torch.Tensor, float]:
    loss = criterion(model(x), y)
    return loss, (2 * loss).item()


def train(epochs):
    losses, metrics, doubled = [], {"loss": 0.0, "norm": 0.0}, 0.0
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            loss, twice = compute(x, y)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            metrics["loss"] = loss.item()
            metrics["norm"] = norm.item()
            doubled += twice
            if step % 3 == 2:
                print(epoch, step, len(losses), sum(losses[-2:]).hex())
        print(losses[-1].hex())
    return losses, metrics, doubled


losses, metrics, doubled = train(3)
print([value.hex() for value in losses], {key: value.hex() for key, value in metrics.items()}, doubled.hex())
print(*(value.item().hex() for parameter in model.parameters() for value in parameter.detach().flatten()))
"""
)


def test_histories_and_last_values_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": WHOLE})
    made.repair("GPU305")
    text = made.text("train.py")
    assert ".item()" not in text.partition("losses, metrics, doubled = train")[0]
    assert "-> tuple[torch.Tensor, torch.Tensor]:" in text
    found = job({}).outputs({"before.py": WHOLE, "after.py": text})
    assert found["before.py"] == found["after.py"] != ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sys.exit(1)", "continue"),
        ("losses.append(loss_value)", "if loss_value < 2:\n                losses.append(loss_value)"),
        ("running += loss_value", "running = max(running, loss_value)"),
    ],
)
def test_values_on_which_a_step_depends_stay(job: MakeJob, old: str, new: str) -> None:
    """Then no other read of the loop is worth a change either."""
    assert old in SHARED
    fixes = [result.fix for result in job({"train.py": SHARED.replace(old, new)}).scan("GPU305")]
    assert [type(fix) for fix in fixes] == [Declined, Declined]
    assert ["waits in line" in fix.reason for fix in fixes] == [False, True]


TOGETHER = (
    SETUP
    + """\
import numpy as np


def run_epoch():
    losses, all_logits, all_y = [], [], []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        logits = model(x)
        loss = criterion(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        all_logits.append(logits.detach().float().cpu().numpy())
        all_y.append(y.cpu().numpy())
    return float(np.mean(losses)), np.concatenate(all_logits), np.concatenate(all_y)


def step(x, y):
    output = model(x)
    loss = criterion(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    accuracy = (torch.argmax(output.detach().cpu(), dim=1) == y.cpu()).sum() / float(output.shape[0])
    return loss.detach().item(), accuracy.item()


def train():
    losses, accuracies = [], []
    for x, y in loader:
        loss, accuracy = step(x.to(device), y.to(device))
        losses.append(loss)
        accuracies.append(accuracy)
    return sum(losses) / len(losses), sum(accuracies) / len(accuracies)


def follow():
    found, labels, losses = [], [], []
    for x, y in loader:
        y = y.to(device)
        output = model(x.to(device))
        found = found + output.argmax(1).cpu().tolist()
        labels = labels + y.cpu().tolist()
        loss = criterion(output, y)
        losses = losses + [loss.item()]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return found, labels, sum(losses)


loss, logits, y = run_epoch()
print(loss.hex(), logits.dtype, logits.shape, logits.tobytes().hex(), y.dtype, y.tolist())
print(*(value.hex() for value in train()))
found, labels, loss = follow()
print(found, labels, loss.hex())
"""
)


def test_lists_and_numbers_of_copies_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": TOGETHER})
    made.repair("GPU305")
    text = made.text("train.py")
    assert not any(read in text for read in (".item()", "np.concatenate", ".cpu() =="))
    found = job({}).outputs({"before.py": TOGETHER, "after.py": text})
    assert found["before.py"] == found["after.py"] != ""


def test_a_read_that_stays_beside_a_fix_says_what_the_fix_leaves(job: MakeJob) -> None:
    """The norm of all gradients is read once then, and not once for each parameter."""
    text = """\
import torch

norms, total = [], 0.0
for x, y in train_loader:
    loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    loss.backward()
    norm = 0
    for p in model.parameters():
        norm += p.grad.norm(2).item() ** 2
    norms.append(norm**0.5)
    optimizer.step()
    total += loss.item()
print(total)
"""
    made, declined = [result.fix for result in job({"train.py": text}).scan("GPU305")]
    assert isinstance(made, Fix)
    assert declined == Declined("line 9 of the same step waits as well, and its fix leaves one wait")


OWN_BAR = """\
import sys
import time

last, shown, file = time.time(), 0, None


def progress_bar(step, text):
    {body}
    sys.stdout.write(text)


class Bar:
    def __init__(self):
        self.last, self.lines, self.file = 0.0, 0, None

    def print(self, text):
        {method}
        sys.stdout.write(text)
"""
BARS = {
    "the time since the last call": (
        "global last; now = time.time(); text += str(now - last); last = now",
        "pass",
        True,
    ),
    "a number of the call": ("global shown; shown += 1; text = str(shown) + text", "pass", True),
    "an attribute of the function": ("text += str(progress_bar.n); progress_bar.n = progress_bar.n + 1", "pass", True),
    "what the first call makes": ("global file\n    if file is None: file = open('log')", "pass", False),
    "the time of the call": ("text += str(time.time())", "pass", False),
    "a method keeps the time": ("pass", "text += str(time.time() - self.last); self.last = time.time()", True),
    "a method numbers its lines": ("pass", "self.lines = self.lines + 1; text += str(self.lines)", True),
    "a method opens a file": ("pass", "if self.file is None: self.file = open('log')", False),
}
SHOWN = """\
import torch
from torch.utils.data import DataLoader

from bars import Bar, progress_bar

loader = DataLoader(data, batch_size=8)
model = torch.nn.Linear(8, 2).cuda()
bar = Bar()
for step, x in enumerate(loader):
    loss = model(x.cuda()).mean()
    loss.backward()
    optimizer.step()
    {call}
"""


@pytest.mark.parametrize(("body", "method", "is_kept"), BARS.values(), ids=BARS)
def test_what_goes_on_from_its_last_call_is_called_in_each_step(
    job: MakeJob, body: str, method: str, is_kept: bool
) -> None:
    call = "progress_bar(step, f'{loss.item()}')" if method == "pass" else "bar.print(f'{loss.item()}')"
    made = job({"bars.py": OWN_BAR.format(body=body, method=method), "train.py": SHOWN.format(call=call)})
    made.repair("GPU305")
    assert ("step % 50" not in made.text("train.py")) is is_kept
