"""Fixes that are right in most programs and are labelled unsafe in those where they may not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Safety

MakeJob = Callable[..., Any]

HEAD = """\
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(data, batch_size=16, pin_memory=True)
"""
STEP = """\
for x, y in loader:
    optimizer.zero_grad()
    loss = model(x.cuda(non_blocking=True)).sum()
    {before}
    loss.backward()
    {after}
    optimizer.step()
"""
VALUES = """\
class Value:
    def __init__(self, data):
        self.data = data

    def {name}(self, other):
        return Value(self.data + other)

    def backward(self):
        pass


total = 0
"""
PLACES = """\
for x, y in loader:
    optimizer.zero_grad()
    places = torch.arange({0}).cuda()
    (model(x.cuda(non_blocking=True)) * places).sum().backward()
    optimizer.step()
"""


def stop(before: str) -> str:
    return STEP.format(before=before, after="pass")


@pytest.mark.parametrize(
    ("code", "program", "safe"),
    [
        ("GPU414", "torch.autograd.set_detect_anomaly(True)\n" + stop("pass"), True),
        ("GPU102", stop("breakpoint()"), True),
        ("GPU102", stop("if len(y) > 1:\n        print(y)\n        breakpoint()"), True),
        ("GPU102", stop("if torch.isnan(loss):\n        print(y)\n        breakpoint()"), False),
        ("GPU204", VALUES.format(name="shifted") + STEP.format(before="pass", after="total += loss"), True),
        ("GPU204", VALUES.format(name="__add__") + STEP.format(before="pass", after="total += loss"), False),
        ("GPU306", PLACES.format("2"), True),
        ("GPU306", PLACES.format("0, 1, 0.5"), False),
        ("GPU306", PLACES.format("0, 1, 1 / 2"), False),
    ],
)
def test_a_fix_is_safe_only_where_nothing_else_depends_on_what_it_removes(
    job: MakeJob, code: str, program: str, safe: bool
) -> None:
    assert job({"train.py": HEAD + program}).offer(code).safety is (Safety.SAFE if safe else Safety.UNSAFE)


EVALUATION = """\
from torch import nn
from torch.autograd import grad


class Bank:
    def __init__(self):
        self.items = {}

    def put(self, key, value):
        self.items[key] = value


bank, taken = Bank(), []


def evaluate(model, loader, store=taken):
    model.eval()
    total, outputs = 0.0, []
    for x, y in loader:
        output = model(x.cuda(non_blocking=True))
        KEEP
    RETURN


USE
"""


@pytest.mark.parametrize(
    ("keep", "value", "use", "safe"),
    [
        ("total += output.mean().item()", "total", "torch.save(evaluate(model, loader))", True),
        ("outputs.append(output.argmax(1).cpu())", "torch.cat(outputs), len(loader)", "evaluate(model, loader)", True),
        ("total += output.mean()", "total / 3", "best = evaluate(model, loader)\nprint(f'{best:.3f}')", True),
        ("total += output.mean()", "None", "evaluate(model, loader)", True),
        ("total += output.mean()", "total", "kept = evaluate(model, loader)\nother = penalty(kept)", False),
        ("total += output.mean()", "total", "slope = grad(evaluate)(model, loader)", False),
        ("store.append(output)", "None", "evaluate(model, loader)", False),
        ("model.features = output", "None", "evaluate(model, loader)", False),
        ("bank.put(1, output)", "None", "evaluate(model, loader)", False),
        ("bank.put(1, output.detach())", "None", "evaluate(model, loader)", True),
    ],
)
def test_evaluation_needs_no_gradients_only_where_no_graph_leaves_it(
    job: MakeJob, keep: str, value: str, use: str, safe: bool
) -> None:
    program = EVALUATION.replace("KEEP", keep).replace("RETURN", f"return {value}").replace("USE", use)
    assert job({"train.py": HEAD + program}).offer("GPU203").safety is (Safety.SAFE if safe else Safety.UNSAFE)


MEASURES = """\
def steepness(output, x):
    return torch.autograd.grad(output.sum(), x, retain_graph=True)[0].norm().item()


def spread(output, x):
    return output.std().item()


MEASURES = {}


def register(name, measure):
    MEASURES[name] = measure


register("spread", spread)
{more}


def evaluate(model, loader, name):
    model.eval()
    measure = MEASURES[name]
    total = 0.0
    for x, y in loader:
        x = x.cuda(non_blocking=True)
        total += measure(model(x), x)
    return total


print(evaluate(model, loader, "spread"))
"""


@pytest.mark.parametrize(("more", "safe"), [("", True), ('register("steepness", steepness)', False)])
def test_evaluation_may_differentiate_in_functions_of_a_table(job: MakeJob, more: str, safe: bool) -> None:
    program = HEAD + MEASURES.replace("{more}", more)
    assert job({"train.py": program}).offer("GPU203").safety is (Safety.SAFE if safe else Safety.UNSAFE)


COPIES = """\
import torch
from functools import partial
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def prepare(values):
    return values.{prepare}()


def collate(device, samples):
    return [part.to(device) for part in default_collate(samples)]


class Batch:
    def __init__(self, samples):
        self.x, self.y = default_collate(samples)

    def to(self, device):
        self.x, self.y = self.x.to(device), self.y.to(device)
        return self


class Samples(Dataset):
    def __init__(self):
        self.values = prepare(torch.randn(64, 8))

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.values[index], index % 2


loader = DataLoader(Samples(), batch_size=16, num_workers=4{collate})
for x, y in loader:
    inputs = x.cuda()
    {after}
    loss = nn.functional.cross_entropy(model(inputs), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def copies(prepare: str = "clone", collate: str = "", after: str = "pass") -> str:
    return COPIES.format(prepare=prepare, collate=collate and f", collate_fn={collate}", after=after)


def test_batches_are_pinned_where_nothing_moves_the_samples(job: MakeJob) -> None:
    made = job({"train.py": copies()})
    assert {result.fix.safety for result in made.scan("GPU301", "GPU302")} == {Safety.SAFE}


@pytest.mark.parametrize(
    "program",
    [
        copies(prepare="cuda"),
        copies(collate='partial(collate, torch.device("cuda"))'),
        copies(collate="lambda samples: [part.cuda() for part in default_collate(samples)]"),
        copies(collate="Batch"),
        copies(after="x.zero_()"),
        copies(after="x[0] = 0"),
    ],
)
def test_batches_are_not_pinned_as_safe_elsewhere(job: MakeJob, program: str) -> None:
    results = job({"train.py": program}).scan("GPU302")
    assert all(getattr(result.fix, "safety", None) is not Safety.SAFE for result in results)


def test_a_helper_that_also_copies_back_is_left_alone(job: MakeJob) -> None:
    helper = "def move(batch, device):\n    return [part.to(device) for part in batch]\n\n\n"
    program = HEAD + helper + (
        "for batch in loader:\n"
        "    x, y = move(batch, 'cuda')\n"
        "    output = model(x)\n"
        "    loss = output.sum()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    print(move([output, y], 'cpu'))\n"
    )  # fmt: skip
    results = job({"train.py": program}).scan("GPU302")
    assert all(getattr(result.fix, "safety", None) is not Safety.SAFE for result in results)


SUM = """\
def train():
    total = 0.0
    try:
        for x, y in loader:
            optimizer.zero_grad()
            loss = model(x.cuda(non_blocking=True)).sum()
            loss.backward()
            optimizer.step()
            total += loss.item()
    except KeyboardInterrupt:
        {handler}
    print(total)
    return total


train()
"""


def test_a_sum_that_is_read_after_an_interrupted_loop_stays_a_number(job: MakeJob) -> None:
    program = HEAD + SUM.format(handler='print("stopped")')
    assert "an exception ends the loop" in job({"train.py": program}).refusal("GPU305")


def test_a_sum_that_is_only_read_after_the_whole_loop_does_not(job: MakeJob) -> None:
    assert job({"train.py": HEAD + SUM.format(handler="raise")}).offer("GPU305").safety is Safety.SAFE


PARTS = """\
def size(model):
    total, largest = 0.0, 0.0
    for p in model.parameters():
        total += p.grad.abs().sum().item()
        largest += {} ** 2
    return {{"mean": total / 8, "norm": largest ** 0.5}}


for x, y in loader:
    optimizer.zero_grad()
    model(x.cuda(non_blocking=True)).sum().backward()
    sizes = size(model)
    optimizer.step()
"""


@pytest.mark.parametrize(("other", "safety"), [("p.grad.norm().item()", Safety.UNSAFE), ("p.numel()", Safety.SAFE)])
def test_a_part_of_what_helps_together_is_no_safe_fix(job: MakeJob, other: str, safety: Safety) -> None:
    offers = [result.fix for result in job({"train.py": HEAD + PARTS.format(other)}).scan("GPU305")]
    assert {fix.safety for fix in offers} == {safety}


MODES = """\
{trains}


def evaluate(model, loader):
    model.eval()
    total = 0.0
    for x, y in loader:
        total += model(x.cuda(non_blocking=True)).sum().item()
    model.{call}
    return total


print(evaluate(model, loader))
"""
FUNCTION = "def train(model, loss):\n    loss.backward()"
METHOD = "class Learner:\n    def train(self):\n        self.loss.backward()"


@pytest.mark.parametrize(
    ("trains", "call", "safe"),
    [
        (FUNCTION, "train()", True),
        (FUNCTION, "train(True)", True),
        (FUNCTION, "train(loader)", False),
        (METHOD, "train()", False),
    ],
)
def test_the_mode_of_a_model_is_set_where_a_function_of_that_name_trains(
    job: MakeJob, trains: str, call: str, safe: bool
) -> None:
    program = HEAD + MODES.format(trains=trains, call=call)
    assert job({"train.py": program}).offer("GPU203").safety is (Safety.SAFE if safe else Safety.UNSAFE)


def test_a_debugger_at_the_end_of_a_program_may_be_there_for_its_results(job: MakeJob) -> None:
    """In a job there is nobody to look at them."""
    program = {"train.py": stop("pass") + "breakpoint()\n"}
    assert job(program).offer("GPU102").safety is Safety.UNSAFE
    script = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n"
    assert job(program | {"job.sh": script}).offer("GPU102").safety is Safety.SAFE


SUMS = """\
import torch

total, other = 0, 0
for x, y in train_loader:
    {made} = model(x.cuda(non_blocking=True), y.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss.item()
    other += {read}.item()
print(f"{{total / len(train_loader):.3f}}", {use})
"""


@pytest.mark.parametrize(
    ("read", "use", "told"),
    [
        ("perplexity", "other / len(train_loader)", "`perplexity` is taken for a tensor"),
        ("perplexity", "f'{other:.2f}'", "`perplexity` is taken for a tensor"),
        ("perplexity", "other", "`other` is turned back into a float"),
    ],
)
def test_what_a_sum_takes_for_granted_is_said_where_it_matters(job: MakeJob, read: str, use: str, told: str) -> None:
    text = SUMS.format(made="loss, perplexity", read=read, use=use)
    first, second = job({"train.py": text}).scan("GPU305")
    partner = "it helps only together with the fix of line 9"
    assert second.fix.description == f"add up on the GPU and read the sum when it is used; {told}; {partner}"
    assert first.fix.description.endswith(f"it helps only together with the fix of line 10 ({told})")


CHOSEN = """\
import hydra
import torch
import metrics
from sklearn.metrics import jaccard_score
from torch.utils.data import DataLoader


def overlap(output, y):
    return jaccard_score(y.flatten().cpu().numpy(), output.argmax(1).cpu().numpy())


def share(output, y):
    if output.dim() == 2:
        return (output.argmax(1) == y).float().mean()
    return overlap(output, y)


def accuracy(output, y):
    return (output.argmax(1) == y).float().mean()


TABLE = {{"share": share, "accuracy": accuracy}}


def train(config, model, loader, criterion, optimizer, measure):
    total = 0.0
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = measure(output, y)
        total += value.item()
    return total


def main(config, model, criterion, optimizer):
    loader = DataLoader(data, batch_size=8, pin_memory=True, num_workers=4)
    measure = {measure}
    print(train(config, model, loader, criterion, optimizer, measure))
"""
SCORERS = {
    "a class of a name": ("getattr(metrics, config.metric)()", False),
    "an entry of a table": ("TABLE[config.metric](config)", False),
    "what a configuration builds": ("hydra.utils.instantiate(config.metric)", False),
    "a function of another library": ("overlap", False),
    "a function of which one branch computes on the host": ("share", False),
    "a function of PyTorch by its name": ("getattr(torch.nn, config.metric)()", True),
    "a function that computes on the GPU": ("accuracy", True),
}


@pytest.mark.parametrize(("measure", "is_kept_on_gpu"), SCORERS.values(), ids=SCORERS)
def test_what_may_be_a_number_of_numpy_is_not_detached(job: MakeJob, measure: str, is_kept_on_gpu: bool) -> None:
    made = job({"train.py": CHOSEN.format(measure=measure)})
    made.repair("GPU305")
    assert ("total += value.detach()" in made.text("train.py")) is is_kept_on_gpu


TERMS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)

    def forward(self, views):
        outputs = [self.net(view) for view in views]
        loss, pair_loss, spread_loss = outputs[0].pow(2).mean(), START, outputs[0].std()
        TERM
        return loss + pair_loss, pair_loss, spread_loss


class Trainer:
    def __init__(self, encoder):
        self.encoder = ENCODER

    def fit(self, data):
        loader = DataLoader(data, batch_size=8, pin_memory=True, num_workers=4)
        total = 0.0
        for views in loader:
            loss, pair_loss, spread_loss = self.encoder([view.cuda(non_blocking=True) for view in views])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += float(READ)
        return total
"""
PAIR = "if len(views) > 1:\n            pair_loss = pair_loss + (outputs[0] - outputs[1]).pow(2).mean()"
TERMS_OF = {
    "a sum that a branch adds to": ("0.0", PAIR, "Views().cuda()", "pair_loss", False),
    "a sum that a branch adds to, set before": (
        "0",
        PAIR.replace("pair_loss = pair_loss +", "pair_loss +="),
        "Views().cuda()",
        "pair_loss",
        False,
    ),
    "a sum over the outputs": (
        "0.0",
        "for output in outputs:\n            pair_loss = pair_loss + output.abs().mean()",
        "Views().cuda()",
        "pair_loss",
        True,
    ),
    "a sum over some outputs": (
        "0.0",
        "for output in outputs:\n            if output.requires_grad:\n                pair_loss += output.abs().mean()",
        "Views().cuda()",
        "pair_loss",
        True,
    ),
    "a sum that starts as a tensor": ("outputs[0].abs().mean()", PAIR, "Views().cuda()", "pair_loss", True),
    "what the backward pass starts from": ("0.0", PAIR, "Views().cuda()", "loss", True),
    "another value of the same call": ("0.0", PAIR, "Views().cuda()", "spread_loss", True),
    "a loss of a class that is not in the tree": ("0.0", PAIR, "encoder", "pair_loss", True),
}


@pytest.mark.parametrize(("start", "term", "encoder", "read", "is_kept"), TERMS_OF.values(), ids=TERMS_OF)
def test_what_a_model_returns_as_a_number_at_times_is_not_detached(
    job: MakeJob, start: str, term: str, encoder: str, read: str, is_kept: bool
) -> None:
    text = TERMS.replace("START", start).replace("TERM", term).replace("ENCODER", encoder).replace("READ", read)
    made = job({"train.py": text})
    made.repair("GPU305")
    assert (f"total += {read}.detach()" in made.text("train.py")) is is_kept
