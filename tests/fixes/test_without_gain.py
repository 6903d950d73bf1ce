"""Edits that would gain nothing, or stop the program, are not offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix, Safety

MakeJob = Callable[..., Any]

MAPPED = """\
from datasets import Dataset, load_from_disk
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("org/model")


def encode(rows):
    return tokenizer(rows["text"])


data = {data}
model.cuda()
loss.backward()
"""
REPORT = """\
import gc

import torch


def usage():
    gc.collect()
    return torch.cuda.memory_allocated()


def train(model, loader, optimizer):
    for batch in loader:
        model(batch).backward()
        optimizer.step()
        log(usage())
"""
EXPLAINED = """\
import gc

import torch


def train(model, loader, optimizer):
    for batch in loader:
        model(batch).backward()
        optimizer.step()
        # without a collection the graphs in cycles would leak memory
        gc.collect()
"""

EMPTIED = """\
import torch


def train(model, loader, optimizer):
    for batch in loader:
        {above}
        torch.cuda.empty_cache()
        model(batch{more}).backward()
        optimizer.step()
"""
CALLBACK = """\
import pytorch_lightning as pl
import torch


class Free(pl.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        torch.cuda.empty_cache()


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3, 1)

    def training_step(self, batch, index):
        return self.net(batch[0]).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


pl.Trainer(accelerator="gpu", callbacks=[Free()]).fit(Net(), loader)
"""
SPOKEN = "# 清理显存以进行生成"
GENERATED = ", model.generate(batch, max_new_tokens=256)"


@pytest.mark.parametrize(
    ("code", "program", "reason"),
    [
        ("GPU311", MAPPED.format(data='load_from_disk("data").map(encode, batched=True)'), "among all cores itself"),
        ("GPU311", MAPPED.format(data='Dataset.from_list(read("rows.json")).map(encode)'), "holds in memory"),
        ("GPU207", REPORT, "reports how much memory"),
        ("GPU207", EXPLAINED, "says what it is for"),
        ("GPU207", CALLBACK, "`Free` does nothing else"),
        ("GPU207", EMPTIED.format(above="# needed to avoid OOM by fragmentation", more=""), "says what it is for"),
        ("GPU207", EMPTIED.format(above=SPOKEN, more=""), "says what it is for"),
        ("GPU207", EMPTIED.format(above="# clear the cache", more=GENERATED), "generates text with a model"),
    ],
)
def test_the_reason_is_told(job: MakeJob, code: str, program: str, reason: str) -> None:
    assert reason in job({"train.py": program}).refusal(code)


ENCODED = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(data, batch_size=8)


class Trainer:
    def prepare(self, batch):
        if {test}:
            words = self.encoder(batch.cuda()).detach().cpu().numpy()
            batch = torch.tensor(words.mean(0))
        return batch.cuda()

    def run(self):
        losses = []
        for batch in loader:
            loss = self.model(self.prepare(batch)).sum()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses


Trainer().run()
"""


@pytest.mark.parametrize(
    ("test", "kept"),
    [("self.args.encoder in ['text']", False), ("self.args.encoder == 'text'", False), ("self.training", True)],
)
def test_a_wait_in_a_function_stays_unless_another_setting_chooses_it(job: MakeJob, test: str, kept: bool) -> None:
    made = job({"train.py": ENCODED.format(test=test)})
    made.repair("GPU305")
    assert ("losses.append(loss.item())" in made.text("train.py")) is kept


NORM = """\
def gradient_norm(model):
    return sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5
"""
LOOP = """\
import torch
from torch.utils.data import DataLoader

from norms import gradient_norm

loader = DataLoader(data, batch_size=8)
model = torch.nn.Linear(8, 2).cuda()
total = 0.0
for batch in loader:
    loss = model(batch.cuda()).sum()
    loss.backward()
    norm = gradient_norm(model)
    optimizer.step()
    total += loss.item()
print(total, norm)
"""


def test_a_function_that_several_loops_call_waits_in_each(job: MakeJob) -> None:
    made = job({"norms.py": NORM, "first.py": LOOP, "second.py": LOOP})
    made.repair("GPU305")
    assert all("total += loss.item()" in made.text(name) for name in ("first.py", "second.py"))


CHOSEN = """\
import argparse
import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--dataset", default="{default}")
args = parser.parse_args()


def train(model, loader, optimizer, report):
    total = 0.0
    for x, y in loader:
        out = model(x.cuda(non_blocking=True))
        loss = F.mse_loss(out, y.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        if args.dataset != "scans":
            report.count(len(x))
        else:
            report.keep(out.argmax(1).tolist())
    return total


if __name__ == "__main__":
    print(train(torch.nn.Linear(4, 2).cuda(), loader, make_optimizer(), Report()))
"""


def test_the_branch_that_is_taken_by_default_decides(job: MakeJob) -> None:
    assert job({"train.py": CHOSEN.format(default="scans")}).repair("GPU305") == 0
    assert job({"train.py": CHOSEN.format(default="photos")}).repair("GPU305") == 1


SUMMED = """\
import torch

for x, y in loader:
    first, second = model(x.cuda(non_blocking=True))
    (first + second).backward()
    optimizer.step()
    total = sum(part.item() for part in {parts})
    if total > 100:
        raise ValueError(total)
"""


def test_one_sum_of_a_few_values_saves_no_wait(job: MakeJob) -> None:
    assert job({"train.py": SUMMED.format(parts="[first, second]")}).refusal("GPU305")
    assert job({"train.py": SUMMED.format(parts="model.losses()")}).offer("GPU305").changes


LOGS_MOSTLY = """
    import wandb
    from torch import nn

    model = nn.Linear(8, 8).cuda()
    criterion = nn.MSELoss()


    def run_epoch(loader, optimizer):
        total_loss = 0.0
        counter = 0
        for x, y in loader:
            counter += 1
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
            if {test}:
                table.append(check(loss.item()))
            total_loss += loss.item()
        return total_loss / len(loader)
"""


@pytest.mark.parametrize("test", ["counter % 10", "not counter % 10 == 0", "counter % args.every != 0"])
def test_a_read_in_nine_of_ten_steps_stays(job: MakeJob, test: str) -> None:
    results = job({"train.py": LOGS_MOSTLY.format(test=test)}).scan("GPU305")
    assert len(results) == 2
    assert not any(isinstance(result.fix, Fix) for result in results)


def test_a_read_in_every_tenth_step_does_no_harm(job: MakeJob) -> None:
    offered = job({"train.py": LOGS_MOSTLY.format(test="not counter % 10")}).offer("GPU305")
    assert any("detach()" in edit.text for edit in offered.edits)


OF_ARRAYS = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(Clouds("clouds"), batch_size=32, num_workers=4{pinned})
for points, {target} in loader:
    {made}
    points, {target} = points.cuda(), {target}.cuda()
    loss = criterion(model(points), {target})
    loss.backward()
    optimizer.step()
"""
MADE = [
    "points = drop_some(points.numpy())\n    points = torch.Tensor(points)\n    points = points.transpose(2, 1)",
    "points = torch.from_numpy(shift(points.numpy())).float()",
    "points = torch.tensor(points.numpy()[:, ::2])",
]


@pytest.mark.parametrize("made", MADE)
def test_numbers_beside_a_tensor_of_an_array_are_not_pinned(job: MakeJob, made: str) -> None:
    program = OF_ARRAYS.format(made=made, target="target", pinned="")
    assert "only numbers would be pinned: another copy of the same step waits" in job({"train.py": program}).refusal(
        "GPU301"
    )
    pinned = job({"train.py": OF_ARRAYS.format(made=made, target="target", pinned=", pin_memory=True")})
    assert not any(isinstance(result.fix, Fix) for result in pinned.scan("GPU302"))


@pytest.mark.parametrize("made", ["points = points.transpose(2, 1)", "shapes = [len(one) for one in points]"])
def test_numbers_beside_the_rest_of_the_batch_are_pinned(job: MakeJob, made: str) -> None:
    offered = job({"train.py": OF_ARRAYS.format(made=made, target="target", pinned="")}).offer("GPU301")
    assert sum("non_blocking" in edit.text for edit in offered.edits) == 2


def test_images_beside_a_tensor_of_an_array_are_pinned(job: MakeJob) -> None:
    offered = job({"train.py": OF_ARRAYS.format(made=MADE[0], target="images", pinned="")}).offer("GPU301")
    assert not any("non_blocking" in edit.text for edit in offered.edits)


IN_PROCESS = """\
import numpy as np
import torch
from torch.utils.data import DataLoader

loader = DataLoader(Clouds("clouds"), batch_size={size})
found = None
with torch.no_grad():
    for images in loader:
        images = images.cuda()
        logits = model(images)
        {test}
            found = logits.cpu().numpy()
        {other}
"""
NOT_FIRST = "found = np.concatenate((found, logits.cpu().numpy()))"


@pytest.mark.parametrize(
    ("other", "waits"),
    [
        (f"else:\n            {NOT_FIRST}", True),
        (f"elif len(found) > 9:\n            {NOT_FIRST}\n        else:\n            print(logits.sum().item())", True),
        (f"elif len(found) > 9:\n            {NOT_FIRST}", False),
        ("else:\n            print('more')", False),
        ("", False),
    ],
)
def test_both_branches_may_wait_for_each_batch(job: MakeJob, other: str, waits: bool) -> None:
    program = IN_PROCESS.format(size=64, test="if found is None:", other=other)
    assert (job({"train.py": program}).scan("GPU301") == []) is waits


def test_a_loader_of_one_batch_of_all_samples_is_not_pinned(job: MakeJob) -> None:
    program = IN_PROCESS.format(size="len(clouds), num_workers=4", test="if found is None:", other="")
    program = program.replace('Clouds("clouds")', "clouds")
    assert "one or two batches hold all samples" in job({"train.py": program}).refusal("GPU301")
    assert job({"train.py": program.replace("len(clouds)", "len(others)")}).offer("GPU301").changes


MOVED = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(Clouds("clouds"), batch_size=32, num_workers=4{pinned})
for images, masks in loader:
    {first}
    {second}
    loss = criterion(model(images), masks)
    loss.backward()
    optimizer.step()
"""


def test_copies_that_are_discarded_gain_nothing(job: MakeJob) -> None:
    dropped = {"first": "images.to(device)", "second": "masks.to(device)"}
    assert "the copy is discarded" in job({"train.py": MOVED.format(**dropped, pinned="")}).refusal("GPU301")
    results = job({"train.py": MOVED.format(**dropped, pinned=", pin_memory=True")}).scan("GPU302")
    assert not any(isinstance(result.fix, Fix) for result in results)
    kept = {"first": "images = images.to(device)", "second": "masks = masks.to(device)"}
    assert job({"train.py": MOVED.format(**kept, pinned="")}).offer("GPU301").changes


def test_copies_of_a_statement_that_always_raises_stay(job: MakeJob) -> None:
    both = {"first": "images, masks = images.cuda(), masks.cuda(), weights.cuda()", "second": "pass"}
    assert "always raises" in job({"train.py": MOVED.format(**both, pinned="")}).refusal("GPU301")
    right = {"first": "images, masks, rows = images.cuda(), masks.cuda(), weights.cuda()", "second": "pass"}
    assert job({"train.py": MOVED.format(**right, pinned="")}).offer("GPU301").changes


OPTION = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--pinned", action="store_true")
args = parser.parse_args()
"""


@pytest.mark.parametrize(("option", "set_before"), [("args.pinned", ""), ("pinned", "pinned = args.pinned\n")])
def test_an_option_that_decides_whether_copies_wait_stays(job: MakeJob, option: str, set_before: str) -> None:
    moved = (f"{name} = {name}.to(device, non_blocking={option})" for name in ("images", "masks"))
    program = OPTION + set_before + MOVED.format(first=next(moved), second=next(moved), pinned=", pin_memory=True")
    results = job({"train.py": program}).scan("GPU302")
    assert results
    assert all(isinstance(one.fix, Declined) for one in results)
    assert any(f"`{option}` decides" in one.fix.reason for one in results if isinstance(one.fix, Declined))


ARRAY = """\
import numpy as np
import torch

def train(model, loader, optimizer, history):
    per_step = {made}
    losses = []
    for step, (images, labels) in enumerate(loader):
        loss = criterion(model(images.cuda()), labels.cuda())
        per_step[step] = loss{more}
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    history.append(np.mean({kept}))
"""


@pytest.mark.parametrize("kept", ["per_step", "losses"])
def test_a_step_that_writes_to_an_array_waits_in_any_case(job: MakeJob, kept: str) -> None:
    program = ARRAY.format(made="np.zeros(len(loader))", more="", kept=kept)
    assert not any(isinstance(one.fix, Fix) for one in job({"train.py": program}).scan("GPU305"))


def test_a_step_that_writes_to_a_tensor_does_not_wait(job: MakeJob) -> None:
    program = ARRAY.format(made="torch.zeros(len(loader), device='cuda')", more=".detach()", kept="losses")
    assert any(isinstance(one.fix, Fix) for one in job({"train.py": program}).scan("GPU305"))


STOPS = """\
import pdb

import torch

def train(model, loader, optimizer, args):
    for step, (images, labels) in enumerate(loader):
        if {test}:
            pdb.set_trace()
        loss = criterion(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "safety"),
    [
        ("images.shape[0] != labels.shape[0]", Safety.UNSAFE),
        ("not len(images) == len(labels)", Safety.UNSAFE),
        ("step > 3 and images.size(0) != args.batch_size", Safety.UNSAFE),
        ("step == 100", Safety.SAFE),
        ("len(images) == 1", Safety.SAFE),
    ],
)
def test_a_debugger_that_waits_for_sizes_that_disagree_is_a_check(job: MakeJob, test: str, safety: Safety) -> None:
    offered = job({"train.py": STOPS.format(test=test)}).offer("GPU102")
    assert offered.safety is safety
    assert ("goes on with sizes that disagree" in offered.description) is (safety is Safety.UNSAFE)


SHOWN = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(Clouds("clouds"), batch_size=32)
for epoch in range(90):
    for batch in loader:
        images, masks = batch[0].cuda(), batch[1].cuda()
        loss = criterion(model(images), masks)
        loss.backward()
        optimizer.step()
    if epoch % 10 == 0:
        batch = next(iter(loader))
        images, masks = batch[0].cuda(), batch[1].cuda()
        show(model(images), masks)
"""


def test_a_single_batch_that_is_shown_may_wait(job: MakeJob) -> None:
    offered = job({"train.py": SHOWN}).offer("GPU301")
    lines = {edit.span.line for edit in offered.edits}
    assert lines == {4, 7}


TWO_READS = """\
import torch

def train(model, loader, optimizer):
    total = 0
    for images, labels in loader:
        part = 0
        for rows, targets in parts(images.cuda(), labels.cuda()):
            loss = criterion(model(rows), targets)
            loss.backward()
            part += loss.cpu().data.numpy()
            total += loss.cpu().data.numpy()
        optimizer.step()
    return total
"""


def test_an_unread_sum_beside_a_read_of_the_same_loss_is_no_safe_removal(job: MakeJob) -> None:
    results = job({"train.py": TWO_READS}).scan("GPU305")
    assert not any(isinstance(one.fix, Fix) and one.fix.safety is Safety.SAFE for one in results)


TIMED = """\
import time

import torch

is_cuda = torch.cuda.is_available()


def train(model, loader, optimizer, device):
    total, spent = 0.0, 0.0
    for images, labels in loader:
        loss = criterion(model(images.cuda()), labels.cuda())
        loss.backward()
{before}
        began = time.perf_counter()
        optimizer.step()
{after}
        spent += time.perf_counter() - began
        total += loss.item()
    return total, spent
"""


@pytest.mark.parametrize(
    "test", ["is_cuda", "torch.cuda.is_available()", 'device.type == "cuda"', "not device.type == 'cpu'"]
)
def test_a_step_that_waits_for_clocks_on_gpus_reads_on(job: MakeJob, test: str) -> None:
    wait = f"        if {test}:\n            torch.cuda.synchronize()"
    results = job({"train.py": TIMED.format(before=wait, after=wait)}).scan("GPU305")
    assert not any(isinstance(one.fix, Fix) for one in results)


@pytest.mark.parametrize("test", ["step_number % 100 == 0", 'device.type == "cpu"'])
def test_clocks_that_few_steps_wait_for_leave_a_gain(job: MakeJob, test: str) -> None:
    wait = f"        if {test}:\n            torch.cuda.synchronize()"
    program = TIMED.format(before=wait, after=wait).replace(
        "images, labels in loader", "step_number, (images, labels) in enumerate(loader)"
    )
    results = job({"train.py": program}).scan("GPU305")
    assert any(isinstance(one.fix, Fix) and "add up" in one.fix.description for one in results)


NAMED_RUN = """\
import argparse

from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--run", default={default!r})
args = parser.parse_args()


def compare(output, labels):
    output, labels = output.cpu().numpy(), labels.cpu().numpy()
    return abs(output - labels).max()


def train(model, loader, optimizer, rank):
    total = 0.0
    for images, labels in loader:
        output = model(images.cuda())
        if {test}:
            worst.insert(compare(output.detach(), labels))
        loss = criterion(output, labels.cuda())
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


train(model, DataLoader(data, batch_size=16), optimizer, 0)
"""


@pytest.mark.parametrize(
    ("test", "default", "offered"),
    [
        ('rank == 0 and args.run != "debug"', "first", False),
        ('args.run != "debug" and rank == 0', "first", False),
        ('rank == 0 and args.run != "debug"', "debug", True),
        ('rank == 0 and args.run == "debug"', "first", True),
        ('len(images) == 7 and args.run != "debug"', "first", True),
    ],
)
def test_what_the_first_process_logs_by_default_waits_in_each_step(
    job: MakeJob, test: str, default: str, offered: bool
) -> None:
    results = job({"train.py": NAMED_RUN.format(test=test, default=default)}).scan("GPU305")
    assert any(isinstance(one.fix, Fix) and "add up" in one.fix.description for one in results) is offered


PHASES = """\
import torch
from torch.utils.data import DataLoader

loaders = {phase: DataLoader(images_of(phase), batch_size=64, num_workers=8) for phase in ("train", "val")}
model = Net().cuda()
seen = {phase: Meter() for phase in loaders}
for phase in loaders:
    total = 0.0
    for x, y in loaders[phase]:
        with torch.set_grad_enabled(phase == "train"):
            output = model(x.cuda())
            loss = torch.nn.functional.cross_entropy(output, y.cuda())
        total += loss.item()
        CHECKS
        if phase == "train":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(phase, total)
"""
READ = "seen[phase].add(output.detach().cpu().numpy())"
CHECKS = {
    "both branches": (f"if phase == 'train':\n{READ}\nelse:\n{READ}", False),
    "all of a chain": (f"if phase == 'train':\n{READ}\nelif phase == 'test':\n{READ}\nelse:\n{READ}", False),
    "all cases": (f"match phase:\ncase 'train':\n{READ}\ncase 'test':\n{READ}\ncase _:\n{READ}", False),
    "one branch": (f"if len(x) == 64:\n{READ}\nelse:\nprint(len(x))", True),
    "a branch alone": (f"if len(x) == 64:\n{READ}", True),
    "a chain without the rest": (f"if len(x) == 64:\n{READ}\nelif len(x) == 32:\n{READ}", True),
    "some of a chain": (f"if len(x) == 64:\n{READ}\nelif len(x) == 32:\nprint(len(x))\nelse:\n{READ}", True),
    "some cases": (f"match len(x):\ncase 64:\n{READ}\ncase 32:\n{READ}", True),
    "cases of which one does not wait": (f"match len(x):\ncase 64:\n{READ}\ncase _:\nprint(len(x))", True),
    "a last case with a condition": (f"match len(x):\ncase 64:\n{READ}\ncase _ if more:\n{READ}", True),
    "every 100 steps in one branch": (
        f"if len(x) == 64:\n{READ}\nelse:\nsteps += 1\nif steps % 100 == 0:\n    {READ}",
        True,
    ),
}


@pytest.mark.parametrize(("checks", "gains"), CHECKS.values(), ids=CHECKS)
def test_a_wait_in_each_branch_is_one_of_each_step(job: MakeJob, checks: str, gains: bool) -> None:
    deep = 8 if checks.startswith("match") else 4
    first, *rest = checks.split("\n")
    lines = [" " * 8 + first, *(" " * (8 + {"el": 0, "ca": 4}.get(line[:2], deep)) + line for line in rest)]
    made = job({"train.py": PHASES.replace("        CHECKS", "\n".join(lines))})
    fixes = {one.finding.span.line: one.fix for one in made.scan("GPU305")}
    assert isinstance(fixes[13], Fix) is gains
    if not gains:
        assert fixes[13].reason.endswith("as well, which no fix changes")


LISTED = """\
import torch
from torch.utils.data import DataLoader

for step, (x, y) in enumerate(DataLoader(images, batch_size=64, num_workers=8)):
    outputs = model(x.cuda())
    loss = criterion(outputs, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tops = [output.topk(2) for output in outputs]
    shares = [top[0].item() for top in tops]
    {use}
"""
USES = {
    "every 100 steps": (
        "if step % 100 == 0:\n        print(f'{shares}')",
        "`shares` is used in line 13 every few steps only: compute it there",
    ),
    "at two places every 100 steps": (
        "if step % 100 == 0:\n        print(f'{shares}')\n        keep(shares)",
        "`shares` is used every few steps only: compute it there",
    ),
    "in each step as well": (
        "keep(shares)\n    if step % 100 == 0:\n        print(f'{shares}')",
        "the value is used in the same step, and not only to log it or to add it up",
    ),
}


@pytest.mark.parametrize(("use", "reason"), USES.values(), ids=USES)
def test_the_reason_tells_whether_each_step_uses_a_list(job: MakeJob, use: str, reason: str) -> None:
    assert job({"train.py": LISTED.format(use=use)}).refusal("GPU305") == reason


SPOKEN = """\
import argparse

import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--text", default="Good morning")
parser.add_argument("--file", default=FILE)
args = parser.parse_args()


class Sentences(Dataset):
    def __init__(self, sentences, tokenizer):
        self.sentences, self.tokenizer = sentences, tokenizer

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, index):
        return self.tokenizer.encode(self.sentences[index])


def sentences():
    if args.file != "":
        return open(args.file).read().split("\\n")
    return [args.text]


def speak(model, tokenizer):
    loader = DataLoader(Sentences(sentences(), tokenizer), batch_size=1, num_workers=0)
    with torch.no_grad():
        for batch in loader:
            save(model.cuda().inference(batch.cuda()))


if __name__ == "__main__":
    speak(torch.load("model.pt"), torch.load("tokenizer.pt"))
"""


def test_a_list_that_holds_one_sentence_by_default_gets_no_workers(job: MakeJob) -> None:
    made = job({"speak.py": SPOKEN.replace("FILE", "''")})
    assert "one or two batches hold all samples" in made.refusal("GPU303")


def test_a_file_of_sentences_that_is_read_by_default_gets_workers(job: MakeJob) -> None:
    made = job({"speak.py": SPOKEN.replace("FILE", "'book.txt'")})
    assert made.offer("GPU303").edits[0].text == "4"
