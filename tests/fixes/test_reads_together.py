"""Numbers that inner loops read in one copy are those that were read one by one: programs run before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
inputs = torch.randn(96, 16)
targets = (inputs[:, 0] > 0).long()
train_loader = DataLoader(TensorDataset(inputs, targets), batch_size=16)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
heads = [nn.Linear(2, 2).to(device) for _ in range(3)]
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()


def parts(output, y):
    whole = criterion(output, y)
    return {"whole": whole, "half": whole / 2, "size": output.square().mean()}


def gradient_norm(model, power):
    total = 0.0
    for p in model.parameters():
        total += p.grad.norm(power).item() ** power
    return total ** (1 / power)


seen = []
for x, y in train_loader:
    x, y = x.to(device), y.to(device)
    output = model(x)
    losses = parts(output, y)
    optimizer.zero_grad()
    losses["whole"].backward()
    head_losses = []
    for head in heads:
        head_losses.append(criterion(head(output), y).item())
    seen.append(head_losses)
    optimizer.step()
    guesses = output.argmax(1).view(4, -1)
    seen.append([[g.item() for g in row if g.item() != 7] for row in guesses])
    seen.append(round(gradient_norm(model, 3.0), 5))
print(*seen, sep="\\n")
"""


def test_one_copy_gives_the_numbers_that_were_read_one_by_one(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM})
    fixes, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert fixes == 3
    assert "total += p.grad.norm(power).detach().double() ** power" in text
    assert after == before
    assert "head_losses = torch.stack(head_losses).tolist() if head_losses else []" in text
    assert "[[g for g in row if g != 7] for row in guesses.tolist()]" in text


def test_squares_of_norms_are_added_up_on_the_gpu(job: MakeJob) -> None:
    pytest.importorskip("torch")
    number = "        norm = float(p.grad.detach().norm(power).item())\n        total += norm * norm * norm\n"
    program = PROGRAM.replace("        total += p.grad.norm(power).item() ** power\n", number)
    made = job({"train.py": program})
    fixes, before, after = made.repaired("train.py", "GPU305")
    assert fixes == 3
    assert "norm = p.grad.detach().norm(power).double()\n        total += norm * norm * norm" in made.text("train.py")
    assert after == before


NORMS = (
    PROGRAM[: PROGRAM.index("def parts(")]
    + """\
def summed_norm(model):
    return sum(p.grad.data.norm(2).item() ** 2 for p in model.parameters()) ** 0.5


def stacked_norm(model):
    total = torch.norm(torch.stack([torch.norm(p.grad.detach(), 2).cpu() for p in model.parameters()]), 2)
    return total.item()


seen = []
for x, y in train_loader:
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    seen.append((round(summed_norm(model), 5), round(stacked_norm(model), 5)))
    optimizer.step()
print(*seen, sep="\\n")
"""
)


@pytest.mark.parametrize("square", ["p.grad.data.norm(2).item() ** 2", "float(p.grad.data.norm(2).item() ** 2)"])
def test_norms_of_all_gradients_are_read_once(job: MakeJob, square: str) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": NORMS.replace("p.grad.data.norm(2).item() ** 2", square)})
    fixes, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert fixes == 2
    assert "float(sum(p.grad.data.norm(2).double() ** 2 for p in model.parameters())) ** 0.5" in text
    assert "torch.stack([torch.norm(p.grad.detach(), 2) for p in model.parameters()])" in text
    assert after == before and len(before.splitlines()) == 6


FROZEN = (
    PROGRAM[: PROGRAM.index("def parts(")].replace(
        "optimizer =", "frozen = nn.Linear(2, 2).to(device).requires_grad_(False)\noptimizer ="
    )
    + """\
def shown_norms(part):
    picked = []
    for p in filter(lambda p: p.grad is not None, part.parameters()):
        picked.append(p.grad.norm().item())
    passed = []
    for p in part.parameters():
        if p.grad is None:
            continue
        passed.append(p.grad.norm().item())
    listed = [p.grad.norm().item() for p in part.parameters() if p.grad is not None]
    weights = [p.norm().item() for p in part.parameters()]
    return [round(value, 4) for value in (*picked, *passed, *listed, *weights)]


def shown_table(norms):
    for name, value in norms.items():
        norms[name] = value.item()
    return {name: round(value, 4) for name, value in norms.items()}


seen = []
for x, y in train_loader:
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    for part in (model, frozen):
        seen.append(shown_norms(part))
        seen.append(shown_table({n: p.grad.norm() for n, p in part.named_parameters() if p.grad is not None}))
    optimizer.step()
print(*seen, sep="\\n")
"""
)


def test_lists_of_a_frozen_model_stay_empty(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": FROZEN})
    fixes, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert fixes == 5
    for name in ("picked", "passed", "listed"):
        assert f"{name} = torch.stack({name}).tolist() if {name} else []\n" in text
    assert "weights = torch.stack([p.norm() for p in part.parameters()]).tolist()\n" in text
    assert "    if norms:\n        norms.update(" in text
    assert after == before and "{}" in before


ROWS = (
    PROGRAM[: PROGRAM.index("def parts(")]
    + """\
def later():
    outputs, known = [], []
    for x, y in train_loader:
        x, y = x.to(device), y.to(device)
        output = model(x)
        optimizer.zero_grad()
        criterion(output, y).backward()
        optimizer.step()
        output = torch.sigmoid(output)
        for i in range(output.shape[0]):
            outputs.append(output[i].cpu().detach().numpy())
            known.append(y[i].item())
    return outputs, known


def at_once():
    outputs, known = [], []
    for x, y in train_loader:
        x, y = x.to(device), y.to(device)
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        output = torch.sigmoid(output)
        for row, one in zip(output, y):
            outputs.append(row.detach().cpu().numpy())
            known.append(one.item())
        if loss.item() > 100:
            raise ValueError(outputs)
    return outputs, known


for outputs, known in (later(), at_once()):
    print([row.tolist() for row in outputs], known, {type(one) for one in known}, outputs[0].dtype)
"""
)


def test_rows_of_a_batch_are_copied_together(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": ROWS})
    _, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert "outputs = [row for batch in outputs for row in batch.cpu().numpy()]" in text
    assert "known = [row for batch in known for row in batch.tolist()]" in text
    assert "outputs.extend(output.detach().cpu().numpy())" in text and "known.extend(y.tolist())" in text
    assert after == before and len(before.splitlines()) == 2


TABLES = (
    PROGRAM[: PROGRAM.index("def parts(")]
    + """\
import numpy as np


class Scores:
    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.both, self.either = np.zeros(n_classes), np.zeros(n_classes)
        self.hits = [0] * n_classes
        self.known = [0] * n_classes

    def update(self, predicted, target):
        for c in range(self.n_classes):
            found = (predicted == c).byte()
            wanted = (target == c).byte()
            intersection = (found & wanted).float().sum()
            union = (found | wanted).float().sum()
            self.both[c] += intersection.item()
            self.either[c] += union.item()
        for c in range(self.n_classes):
            wanted = target == c
            self.hits[c] += ((predicted == c) & wanted).sum().item()
            self.known[c] = wanted.sum().item()


scores = Scores(2)
for x, y in train_loader:
    x, y = x.to(device), y.to(device)
    output = model(x)
    optimizer.zero_grad()
    criterion(output, y).backward()
    optimizer.step()
    scores.update(output.argmax(1), y)
    print(scores.both, scores.either, scores.hits, scores.known)
"""
)


def test_sums_of_each_class_are_read_together(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": TABLES})
    _, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert "for c, (intersection, union) in enumerate(torch.stack(values).tolist()):" in text
    assert "values.append(torch.stack((((predicted == c) & wanted).sum(), wanted.sum())))" in text
    assert "self.known[c] = known" in text
    assert after == before and len(before.splitlines()) == 6


def test_copies_of_rounds_that_are_read_together_stay_on_the_gpu(job: MakeJob) -> None:
    pytest.importorskip("torch")
    copied = TABLES.replace(
        "((predicted == c) & wanted).sum().item()", "float(((predicted == c) & wanted).cpu().sum())"
    )
    assert copied != TABLES
    made = job({"train.py": copied})
    _, before, after = made.repaired("train.py", "GPU305")
    assert "values.append(torch.stack((((predicted == c) & wanted).sum(), wanted.sum())))" in made.text("train.py")
    assert after.replace(".0", "") == before.replace(".0", "") and len(before.splitlines()) == 6


STEPS = """\
import torch

for images in train_loader:
    terms = criterion(model(images.cuda(non_blocking=True)))
    terms["total"].backward()
    optimizer.step()
"""
CASES = {
    "the tensors are used as well": """\
    for name, value in terms.items():
        last[name] = value
        meters[name].add(value.item())
""",
    "the table changes": """\
    for name, value in terms.items():
        terms["sum"] = 1
        meters[name].add(value.item())
""",
    "some values are numbers already": """\
    for name, value in terms.items():
        meters[name].add(value.item() if torch.is_tensor(value) else value)
""",
    "the variable is used after the loop": """\
    for name, value in terms.items():
        meters[name].add(value.item())
    keep(value)
""",
    "another reading of the same entry stays": """\
    for name in names:
        meters[name].add(terms[name].item(), terms)
""",
    "the list is not empty before the loop": """\
    found = [keep]
    found.append(1)
    found.append(2)
    found.append(3)
    for head in heads:
        found.append(head_loss(head).item())
    if max(found) > 100:
        break
""",
    "some of them may be left out": """\
    found = [part_loss(head).item() for head in heads if head.used]
    if max(found) > 100:
        break
""",
    "a class may be left out": """\
    for c in range(n_classes):
        wanted = labels == c
        if skipped[c]:
            continue
        hits[c] += ((outputs.argmax(1) == c) & wanted).sum().item()
    if max(hits) > 100:
        break
""",
    "counts and means": """\
    for c in range(n_classes):
        hits[c] += (labels == c).sum().item()
        means[c] += outputs[:, c].mean().item()
    if max(hits) > 100:
        break
""",
    "the outputs may be a list": """\
    outputs = heads(images)
    texts = [names[part.item()] for part in outputs]
    if max(texts) > 100:
        break
""",
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
def test_left_alone(job: MakeJob, body: str) -> None:
    check_declined(job, "GPU305", {"train.py": STEPS + body}, "")


def test_tables_of_an_object_that_start_empty_are_left_alone(job: MakeJob) -> None:
    program = """\
    import torch


    class Trainer:
        def __init__(self):
            self.terms = {}

        def train(self, train_loader):
            for images in train_loader:
                loss = self.criterion(self.model(images.cuda(non_blocking=True)))
                loss.backward()
                self.optimizer.step()
                self.check({name: term.item() for name, term in self.terms.items()})
    """
    check_declined(job, "GPU305", {"train.py": program}, "")


GRADIENTS = """\
import torch

model = torch.nn.Linear(3, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def is_finite(model):
    for p in model.parameters():
        if p.grad is not None and not torch.isfinite(p.grad).all():
            return False
    return True


def has_bad_gradient(model):
    for name, p in model.named_parameters():
        if torch.isnan(p.grad).any() or torch.isinf(p.grad).any():
            return True
    return False


for x in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    bad = has_bad_gradient(model)
    if not bad and is_finite(model):
        optimizer.step()
    optimizer.zero_grad()
"""
FLAGS = """\
import torch

model = torch.nn.Linear(3, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def is_finite(model):
    flags = [
        torch.isfinite(p.grad).all()
        for p in model.parameters()
        if p.grad is not None
    ]
    return not flags or bool(torch.stack(flags).all())


def has_bad_gradient(model):
    flags = [
        torch.isnan(p.grad).any() | torch.isinf(p.grad).any()
        for name, p in model.named_parameters()
    ]
    return bool(flags) and bool(torch.stack(flags).any())


for x in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    bad = has_bad_gradient(model)
    if not bad and is_finite(model):
        optimizer.step()
    optimizer.zero_grad()
"""


def test_functions_that_return_at_the_first_gradient_that_is_no_number_test_all_at_once(job: MakeJob) -> None:
    made = job({"train.py": GRADIENTS})
    made.repair("GPU305")
    assert made.text("train.py") == FLAGS


@pytest.mark.parametrize(
    "test", ["p.grad.sum() > 0", "p.grad is not None and count(p)", "not torch.isfinite(p.grad).any()"]
)
def test_other_tests_of_gradients_stay(job: MakeJob, test: str) -> None:
    made = job({"train.py": GRADIENTS.replace("p.grad is not None and not torch.isfinite(p.grad).all()", test)})
    made.repair("GPU305")
    assert f"if {test}:" in made.text("train.py")


RATIOS = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.rand(8, 5, 1, 4, 4)), batch_size=4)
model = torch.nn.Conv3d(5, 5, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def contrast(masks, features):
    loss = 0
    for image in range(len(masks)):
        ratios = masks[image].mean(dim=(2, 3))
        for patch in range(features.size(1)):
            ratio = ratios[patch].item()
            if ratio > 0.5:
                loss = loss + features[image, patch].mean()
    return loss


for (x,) in loader:
    x = x.to(device)
    loss = contrast(x, model(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss)
"""


def test_what_is_left_along_some_dimensions_is_read_at_once(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": RATIOS})
    _, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert "        ratios_list = ratios.flatten().tolist()\n" in text
    assert "            ratio = ratios_list[patch]\n" in text
    assert after.split()[0] == before.split()[0]


PARTS = """\
import torch

def train(model, loader, optimizer):
    for images, labels in loader:
        first, second = model(images.cuda())
        loss, cls_loss = criterion(first, labels.cuda()), criterion(second, labels.cuda())
        losses = [loss, cls_loss]
        (loss + cls_loss).backward()
        optimizer.step()
        {parts}
        keep(parts)
"""


@pytest.mark.parametrize(
    ("parts", "after"),
    [
        (
            "parts = [loss.item() for loss in losses]",
            "parts = list(losses)\n        parts = torch.stack(parts).tolist() if parts else []",
        ),
        (
            "losses = parts = [loss.item() for loss in losses]",
            "losses = parts = torch.stack(list(losses)).tolist()",
        ),
        (
            "parts = [loss.item() for loss in (loss, cls_loss)]",
            "parts = torch.stack((loss, cls_loss)).tolist()",
        ),
        (
            "parts = [loss.item() for loss in [loss, cls_loss]]",
            "parts = torch.stack([loss, cls_loss]).tolist()",
        ),
        (
            "parts = [loss.mean().item() for loss in (loss, cls_loss)]",
            "parts = torch.stack([loss.mean() for loss in (loss, cls_loss)]).tolist()",
        ),
    ],
)
def test_tensors_of_a_list_are_stacked_as_they_are(job: MakeJob, parts: str, after: str) -> None:
    made = job({"train.py": PARTS.format(parts=parts)})
    assert made.repair("GPU305") == 1
    assert made.text("train.py") == PARTS.format(parts=after)


TABLE = """\
import torch
import torch.distributed as dist

def parse(losses, names):
    {table} = dict(losses)
    {entry}
    for name, value in {table}.items():
        if dist.is_initialized():
            dist.all_reduce(value)
        {table}[name] = value.item()
    return {table}

def train(model, loader, optimizer):
    for images, labels in loader:
        losses = model(images.cuda(), labels.cuda())
        sum(losses.values()).backward()
        optimizer.step()
        show(parse(losses, ["loss"]))
"""


@pytest.mark.parametrize(
    ("table", "entry", "below"),
    [
        (
            "terms_of_the_loss",
            'terms_of_the_loss["loss"] = sum(losses.values())',
            "    values = torch.stack(list(terms_of_the_loss.values())).tolist()\n"
            "    terms_of_the_loss.update(zip(terms_of_the_loss, values))\n",
        ),
        (
            "terms_of_the_loss",
            "values = names",
            "    if terms_of_the_loss:\n"
            "        numbers = torch.stack(list(terms_of_the_loss.values())).tolist()\n"
            "        terms_of_the_loss.update(zip(terms_of_the_loss, numbers))\n",
        ),
        (
            "terms",
            'terms["loss"] = sum(losses.values())',
            "    terms.update(zip(terms, torch.stack(list(terms.values())).tolist()))\n",
        ),
    ],
)
def test_a_table_is_read_in_lines_that_are_not_too_long(job: MakeJob, table: str, entry: str, below: str) -> None:
    made = job({"train.py": TABLE.format(table=table, entry=entry)})
    assert made.repair("GPU305") == 1
    assert f"        {table}[name] = value.detach()\n{below}    return {table}\n" in made.text("train.py")
