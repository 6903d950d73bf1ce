"""Steps and models that stay as they are, since a fix would gain nothing or stop the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

TABLES = """\
import torch


def train(model, criterion, optimizer, train_loader):
    for images in train_loader:
        losses = criterion(model(images.cuda(non_blocking=True)))
        losses["total"].backward()
        optimizer.step()
        shown = {k: v.item() for k, v in losses.items()}
        if max(shown.values()) > 100:
            raise ValueError(shown)
"""

RECORDED = """\
import torch


class Mean:
    def __init__(self):
        self.total = 0.0

    def add(self, value):
        self.total += value


class Recorder:
    def __init__(self):
        self.means, self.mean = {{}}, 0.0

    def log(self, name, value):
        {add}


def train(model, criterion, optimizer, train_loader):
    recorder = Recorder()
    for x, y in train_loader:
        loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        recorder.log("loss", loss.item())
    return recorder
"""

SIZED = """\
import torch
from chosen import chosen


def train(model, criterion, optimizer, train_loader):
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    total = 0.0
    for x, y in train_loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        {step}
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""

CHOSEN = """\
import torch


def chosen(labels):
    return torch.nonzero(labels).float().mean()
"""

ERRORS = """\
import torch
from scores import errors_of


def train(model, criterion, optimizer, train_loader):
    total, apart = 0.0, {"left": 0.0, "right": 0.0}
    for images, labels in train_loader:
        labels = labels.cuda()
        output = model(images.cuda())
        loss = criterion(output, labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
        errors = errors_of(output, labels)
        for side in apart:
            apart[side] += float(errors[side])
    return total, apart
"""
SCORES = """\
def errors_of(output, labels):
    error = (output - labels).abs()
    return {"left": error[:4].mean(), "right": error[4:].mean()}
"""

SUMS = """\
import torch


def train(model, criterion, optimizer, train_loader):
    sums = {"loss": 0.0, "kl": 0.0}
    for step, (x, y) in enumerate(train_loader):
        losses = criterion(model(x.cuda()), y.cuda())
        losses["loss"].backward()
        optimizer.step()
        sums["loss"] += losses["loss"].item()
        schedule(sums["loss"] / (step + 1))
    return sums
"""
RETURNED = """\
import torch
from scores import errors_of, losses_of


def train(model, optimizer, train_loader, apart):
    for step, (images, labels) in enumerate(train_loader):
        labels = labels.cuda()
        output = model(images.cuda())
        losses = losses_of(output, labels)
        losses["loss"].backward()
        optimizer.step()
        errors = errors_of(output, labels)
        for side in apart:
            apart[side] += float(errors[side])
        if step % 50 == 0:
            print(losses["near"])
"""
LOSSES = """\
import torch


def losses_of(output, labels):
    near = (output - labels).abs().mean()
    losses = {"loss": near}
    losses[KEY] = near.item()
    return losses


"""

LISTED = """\
import torch


def step(model, x):
    loss = model(x.cuda()).mean()
    loss.backward()
    return {"loss": loss.item()}


def train(model, optimizer, train_loader):
    rows = []
    for epoch in range(9):
        for x in train_loader:
            parts = step(model, x)
            optimizer.step()
            rows.append(parts)
    parts = average(rows)
    return parts
"""

CASES = {
    "tables of all epochs are listed": (
        "GPU305",
        {"train.py": LISTED},
        "the value is read in a function that the loop calls",
    ),
    "each step reads one of the sums": (
        "GPU305",
        {"train.py": SUMS},
        "`sums` is used in every step",
    ),
    "numbers are read beside a table that a function returns": (
        "GPU305",
        {"train.py": RETURNED, "scores.py": LOSSES.replace("KEY", '"near"') + SCORES},
        "every step waits in `float(errors[side])` of train.py as well",
    ),
    "a key that is worked out may replace the loss": (
        "GPU305",
        {"train.py": RETURNED, "scores.py": LOSSES.replace("KEY", "labels.name") + SCORES},
        "the value is read in a function that the loop calls",
    ),
    "numbers of a function that computes with tensors are read in each step": (
        "GPU305",
        {"train.py": ERRORS, "scores.py": SCORES},
        "every step waits in `float(errors[side])` of train.py as well",
    ),
    "the first of the values of a table waits for all": (
        "GPU305",
        {"train.py": TABLES},
        "the value is used in the same step",
    ),
    "a method named like a logger's averages what it gets": (
        "GPU305",
        {"train.py": RECORDED.format(add="self.means.setdefault(name, Mean()).add(value)")},
        "the value is used in the same step",
    ),
    "a method named like a logger's keeps a moving average": (
        "GPU305",
        {"train.py": RECORDED.format(add="self.mean = 0.9 * self.mean + 0.1 * value")},
        "the value is used in the same step",
    ),
    "each step looks for the classes of its batch": (
        "GPU305",
        {"train.py": SIZED.format(step="classes = y.unique()")},
        "every step waits in line 12 as well",
    ),
    "each step tells a scheduler the loss": (
        "GPU305",
        {"train.py": SIZED.format(step="scheduler.step(loss)")},
        "every step waits in line 12 as well",
    ),
    "the loss function looks for the rows that count": (
        "GPU305",
        {"train.py": SIZED.replace("{step}", "loss = loss + chosen(y)"), "chosen.py": CHOSEN},
        "every step waits in line 5 of chosen.py as well",
    ),
    "one read beside several steps": (
        "GPU305",
        {
            "train.py": """\
            import torch
            from tqdm import trange


            def train(net, outer, loaders, optimizer, inner_optimizer, criterion):
                progress = trange(1000)
                for step in progress:
                    with torch.no_grad():
                        x, y = next(iter(loaders[step % 8]))
                        known = (net(x.cuda()).argmax(1) == y.cuda()).sum().item() / len(y)
                    for _ in range(50):
                        x, y = next(iter(loaders[step % 8]))
                        loss = criterion(net(x.cuda()), y.cuda())
                        loss.backward()
                        inner_optimizer.step()
                    outer(net).backward()
                    optimizer.step()
                    progress.set_description(f"{known:.4f}")
            """
        },
        "each round trains for several steps",
    ),
    "a tensor whose elements the host compares": (
        "GPU306",
        {
            "train.py": """\
            import torch

            device = torch.device("cuda")
            for x in loader:
                largest = torch.zeros(64, 1).to(device)
                for _ in range(8):
                    losses = criterion(model(x.to(device)))
                    for i in range(64):
                        if losses[i] > largest[i]:
                            largest[i] = losses[i]
                largest.sum().backward()
                optimizer.step()
            """
        },
        "the host compares its elements one by one",
    ),
    "zero in the place of a model that is not there": (
        "GPU306",
        {
            "train.py": """\
            import torch

            magface = load("magface") if available("magface") else None
            device = torch.device("cuda")
            for x in loader:
                x = x.to(device)
                magnitude = magface(x) if magface else torch.tensor(0.0).to(device)
                loss = model(x) + magnitude
                loss.backward()
                optimizer.step()
            """
        },
        "it only stands in for what a model that is not there would compute",
    ),
    "a layer that the model does not use": (
        "GPU351",
        {
            "nets.py": """\
            import torch
            from torch import nn


            class Autoencoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.Linear(8, 8)
                    self.positions = nn.Parameter(torch.zeros(8), requires_grad=False)
                    self.mask_token = nn.Parameter(torch.zeros(8))
                    nn.init.normal_(self.mask_token)

                def forward(self, x):
                    return self.encoded(x)

                def encoded(self, x):
                    return self.encoder(x)


            def small(**kwargs):
                return Autoencoder(**kwargs)
            """,
            "train.py": """\
            import nets
            from torch.nn.parallel import DistributedDataParallel

            model = nets.__dict__[args.model](norm=args.norm).cuda()
            model = DistributedDataParallel(model, find_unused_parameters=True)
            for x in loader:
                model(x.cuda()).mean().backward()
            """,
        },
        "`forward` never reads `Autoencoder.mask_token`",
    ),
    "a sum that a text gets with all other variables": (
        "GPU305",
        {
            "train.py": """\
            import torch


            def train(train_loader):
                total = 0.0
                for x, y in train_loader:
                    loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
                    loss.backward()
                    optimizer.step()
                    total += loss.item()
                print("loss {total}".format(**locals()))
            """
        },
        "`locals()` may read `total` as well",
    ),
    "a penalty that is a plain number in another branch": (
        "GPU305",
        {
            "train.py": """\
            import torch


            def train(train_loader, regularize):
                total = 0.0
                for x, y in train_loader:
                    output = model(x.cuda(non_blocking=True))
                    if regularize:
                        penalty = output.pow(2).mean()
                    else:
                        penalty = 0.0
                    loss = criterion(output, y.cuda(non_blocking=True)) + penalty
                    loss.backward()
                    optimizer.step()
                    total += float(penalty)
                return total
            """
        },
        "`penalty` is a plain number in another branch",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_break_or_gain_nothing_is_left_alone(job: MakeJob, case: str) -> None:
    check_declined(job, *CASES[case])


def test_a_model_that_is_wrapped_where_there_are_several_processes(job: MakeJob) -> None:
    files = {
        "train.py": """\
import torch
from torch.nn.parallel import DistributedDataParallel

import models


def main(args):
    torch.distributed.init_process_group("nccl")
    model = models.build(args).cuda()
    if args.distributed:
        model = DistributedDataParallel(model, device_ids=[args.gpu])
    for step, (x, y) in enumerate(train_loader):
        loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)) / 4
        loss.backward()
        if (step + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
        "models.py": "import torch\n\n\ndef build(args):\n    return torch.nn.Linear(args.size, 2)\n",
    }
    fix = job(files).offer("GPU353")
    assert any(edit.text.strip() == "model.require_backward_grad_sync = (step + 1) % 4 == 0" for edit in fix.edits)


def test_a_model_that_uses_all_layers_needs_no_search(job: MakeJob) -> None:
    (_, files, _) = CASES["a layer that the model does not use"]
    used = files["nets.py"].replace("return self.encoder(x)", "return self.encoder(x) + self.mask_token")
    assert job({**files, "nets.py": used}).offer("GPU351").changes


def test_numbers_of_a_function_that_are_read_now_and_then_leave_steps_alone(job: MakeJob) -> None:
    seldom = ERRORS.replace(
        "for images, labels in train_loader", "for step, (images, labels) in enumerate(train_loader)"
    )
    seldom = seldom.replace(
        "        for side in apart:", "        for side in apart:\n            if step % 50:\n                break"
    )
    assert job({"train.py": seldom, "scores.py": SCORES}).offer("GPU305").changes


def test_equal_sums_of_a_loop_are_treated_alike(job: MakeJob) -> None:
    made = job(
        {
            "train.py": """\
import torch


def train(model, criterion, train_loader, optimizer):
    for epoch in range(90):
        run_a, run_b = 0.0, 0.0
        for step, (x, y) in enumerate(train_loader):
            loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            loss.backward()
            optimizer.step()
            run_a += loss.item(); run_b += loss.sqrt().item()
            if step % 50 == 0:
                print(f"{run_a / (step + 1):.4f}, {run_b / (step + 1):.4f}")
        print(run_a, run_b)
"""
        }
    )
    assert made.repair("GPU305")
    text = made.text("train.py")
    assert "float(" not in text.partition("if step % 50")[0]
    assert text.count("float(run_a)") == text.count("float(run_b)") == 1


LOGGED = """\
import torch
from torch import nn


class Logger:
    def __init__(self):
        self.rows, self.sums = [], {{}}

    def log(self, step, **values):
        {body}


model = nn.Linear(2, 2).cuda()
logger = Logger()
for step, x in enumerate(train_loader):
    loss = model(x.cuda(non_blocking=True)).mean()
    loss.backward()
    optimizer.step()
    logger.log(step, loss=loss.item())
print(logger.rows, logger.sums)
"""


@pytest.mark.parametrize(
    "body",
    [
        'self.rows.append({"step": step, **values})',
        'row = {"step": step, **values}\n        self.rows += [row]',
        "for name, value in values.items():\n            self.sums[name] += value",
    ],
)
def test_loggers_that_keep_all_steps_get_all_of_them(job: MakeJob, body: str) -> None:
    check_declined(job, "GPU305", {"train.py": LOGGED.format(body=body)}, "used in the same step")


COUNTED = """\
import torch


def train(model, criterion, optimizer, train_loader, names):
    total = 0.0
    for step, (x, y) in enumerate(train_loader):
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        for step, name in enumerate(names):
            print(step, name)
        {use}
    {comment}
"""


def test_a_counter_that_an_inner_loop_has_used_gets_no_second_one(job: MakeJob) -> None:
    text = COUNTED.format(use="print(loss.item())", comment="return model")
    check_declined(job, "GPU305", {"train.py": text}, "no step number")


@pytest.mark.parametrize("comment", ["# print(total / len(train_loader))", "# mean = total / len(train_loader)"])
def test_a_sum_that_code_in_a_comment_reads_is_not_removed(job: MakeJob, comment: str) -> None:
    files = {"train.py": COUNTED.format(use="total += loss.item()", comment=comment)}
    check_declined(job, "GPU305", files, "commented out reads `total`")


BRANCHES = """\
import torch


def train(model, criterion, optimizer, train_loader, logits):
    preds = []
    for x, y in train_loader:
        out = model(x.cuda())
        criterion(out, y.cuda()).backward()
        optimizer.step()
        if logits:
            found = (torch.sigmoid(out) > 0.5).cpu().numpy()
        else:
            found = {other}
        preds.extend(found)
        {use}
    return preds
"""


@pytest.mark.parametrize(
    ("other", "use"),
    [
        ("(out > 0.5).cpu().numpy()", "show(found)"),
        ("guess(y)", "pass"),
        ("(out > 0.5).cpu()", "pass"),
    ],
)
def test_what_branches_copy_stays_where_one_differs_or_the_step_reads_it(job: MakeJob, other: str, use: str) -> None:
    files = {"train.py": BRANCHES.format(other=other, use=use)}
    check_declined(job, "GPU305", files, "more is copied to the host than a number")
    plain = BRANCHES.format(other="(out > 0.5).cpu().numpy()", use="pass")
    assert job({"train.py": plain}).repair("GPU305")


SCORED = """\
import numpy as np
from torchmetrics import R2Score


def train(model, criterion, optimizer, train_loader):
    metric = R2Score()
    {before}
    for x, y in train_loader:
        {first}
        y = y.cuda()
        out = model(x.cuda())
        criterion(out, y).backward()
        optimizer.step()
        score = {score}(y.cpu().numpy(), out.detach().cpu().numpy())
    return score
"""


@pytest.mark.parametrize(
    ("before", "first", "score"),
    [
        ("score = 0.0", "pass", "np.corrcoef"),
        ("pass", "pass", "metric"),
        ("pass", "if skip(x): continue", "np.corrcoef"),
    ],
)
def test_a_score_stays_where_steps_count_or_may_end_early(job: MakeJob, before: str, first: str, score: str) -> None:
    text = SCORED.format(before=before, first=first, score=score)
    results = job({"train.py": text}).scan("GPU305")
    assert results
    assert not any("last batch" in getattr(result.fix, "description", "") for result in results)
    plain = SCORED.format(before="pass", first="pass", score="np.corrcoef")
    assert "last batch" in job({"train.py": plain}).offer("GPU305").description


LISTED = """\
import numpy as np
import torch


def train(loader, every):
    history = []
    for step, (x, y) in enumerate(loader):
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        loss = loss.detach().cpu().numpy()
        history.append(loss)
        if (step + 1) % every == 0:
            print(np.asarray(history).mean(0))
"""


def test_a_list_that_is_read_and_then_filled_further_stays(job: MakeJob) -> None:
    check_declined(job, "GPU305", {"train.py": LISTED}, "which fills it further")
    once = LISTED.replace("        if (step + 1) % every == 0:\n        ", "")
    assert job({"train.py": once}).repair("GPU305")


NORMS = """\
import numpy as np
import torch
import wandb


class Trainer:
    def train(self, loader):
        for x, labels in loader:
            self.step += 1
            loss = torch.nn.functional.cross_entropy(self.model(x.cuda()), labels.cuda())
            loss.backward()
            norms = []
            for p in list(filter(lambda p: p.grad is not None, self.model.parameters())):
                norms.append({norm})
            norms = {read}
            self.optimizer.step()
            wandb.log({{"loss": loss.item(), "norm": norms}})
"""


def test_a_log_stays_where_the_step_reads_norms_that_were_stacked(job: MakeJob) -> None:
    stacked = NORMS.format(norm="p.grad.data.norm(2)", read="torch.stack(norms).tolist()")
    check_declined(job, "GPU305", {"train.py": stacked}, "waits in `torch.stack")
    kept = NORMS.format(norm="p.grad.data.norm(2)", read="torch.stack(norms)")
    assert "log every" in job({"train.py": kept}).offer("GPU305").description
