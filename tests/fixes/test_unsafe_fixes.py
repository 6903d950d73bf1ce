"""Programs repaired by unsafe fixes run, and what changes is what the fix says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
import argparse
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
args = parser.parse_args()
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Images(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        image = Image.open("image.png").convert("RGB")
        return torch.full((3,), float(index)) + image.width, index


def main():
    loader = DataLoader(Images(), batch_size=args.batch_size, shuffle=True{workers})
    val_loader = DataLoader(Images(), batch_size=args.batch_size, num_workers=1, persistent_workers=True)
    model = nn.Linear(3, 40).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for epoch in range(3):
        order = []
        for images, indices in loader:
            order += indices.tolist()
            loss = nn.functional.cross_entropy(model(images.to(device)), indices.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(*order)
    with torch.no_grad():
        print(*(len(model(images.to(device))) for images, _ in val_loader))


if __name__ == "__main__":
    main()
"""
IMAGE = "from PIL import Image; Image.new('RGB', (4, 4)).save('image.png')\n"


@pytest.mark.parametrize(("code", "workers"), [("GPU303", ""), ("GPU304", ", num_workers=2")])
def test_workers_that_live_on_give_later_epochs_another_order(job: MakeJob, code: str, workers: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("PIL")
    made = job({"train.py": PROGRAM.format(workers=workers), "image.py": IMAGE})
    made.train("image.py")
    before, _ = made.train("train.py")
    assert "later epochs are" in made.offer(code).description
    assert made.repair(code) == 1
    assert "persistent_workers=True" in made.text("train.py")
    after, _ = made.train("train.py")
    assert after.splitlines()[0] == before.splitlines()[0]
    assert after.splitlines()[1:3] != before.splitlines()[1:3]
    assert [sorted(line.split()) for line in after.splitlines()] == [
        sorted(line.split()) for line in before.splitlines()
    ]


def test_evaluation_has_larger_batches(job: MakeJob) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("PIL")
    made = job({"train.py": PROGRAM.format(workers=""), "image.py": IMAGE})
    made.train("image.py")
    before, _ = made.train("train.py")
    assert made.repair("GPU202") == 1
    after, _ = made.train("train.py")
    assert before.splitlines()[:3] == after.splitlines()[:3]
    assert before.splitlines()[3] == "8 8 8 8 8"
    assert after.splitlines()[3] == "16 16 8"


OWN_SIZE = """\
import argparse
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--train_batch_size", type=int, default=512)
parser.add_argument("--{name}", default=64, type=int)
args = parser.parse_args()
train_loader = DataLoader(train_set, batch_size=args.train_batch_size)
val_loader = DataLoader(val_set, batch_size=args.{name})
for images, labels in train_loader:
    model(images.cuda()).backward()
validate(model, val_loader)
"""


def test_an_option_for_evaluation_keeps_its_meaning(job: MakeJob) -> None:
    made = job(
        {
            "options.py": OWN_SIZE.format(name="eval_batch_size").partition("train_loader =")[0],
            "train.py": "from options import args\nfrom torch.utils.data import DataLoader\n\ntrain_loader ="
            + OWN_SIZE.format(name="eval_batch_size").partition("train_loader =")[2],
        }
    )
    assert made.repair("GPU202") == 1
    assert "default=1024, type=int" in made.text("options.py")
    assert "batch_size=args.eval_batch_size)" in made.text("train.py")


POOL = """\
import multiprocessing as mp
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def train(size):
    loader = DataLoader(ImageFolder("train"), batch_size=size, shuffle=True, pin_memory=True)
    for images, labels in loader:
        model(images.cuda(non_blocking=True)).backward()


def run(size):
    train(size)


if __name__ == "__main__":
    {start}
"""


@pytest.mark.parametrize(
    "start",
    ["mp.Pool(4).map(train, [16, 32])", "mp.Pool(4).map(run, [16, 32])", "mp.Process(target=run, daemon=True).start()"],
)
def test_daemonic_processes_get_no_workers(job: MakeJob, start: str) -> None:
    assert "may not start workers" in job({"train.py": POOL.format(start=start)}).refusal("GPU303")


@pytest.mark.parametrize("start", ["train(16)", "mp.Process(target=train, args=(16,)).start()", "mp.Pool().map(f, [])"])
def test_other_processes_get_workers(job: MakeJob, start: str) -> None:
    assert "num_workers" in job({"train.py": POOL.format(start=start)}).offer("GPU303").edits[-1].text


COLLATE = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def outer(samples):
    return samples


def main():
    {inner}
    loader = DataLoader(ImageFolder("train"), batch_size=8, pin_memory=True, collate_fn={collate})
    for images, labels in loader:
        model(images.cuda(non_blocking=True)).backward()
"""


@pytest.mark.parametrize(
    ("inner", "collate", "told"),
    [
        ("", "outer", False),
        ("", "lambda samples: samples", True),
        ("def inner(samples): return samples", "inner", True),
        ("inner = lambda samples: samples", "inner", True),
    ],
)
def test_functions_that_workers_cannot_be_sent_are_named(job: MakeJob, inner: str, collate: str, told: bool) -> None:
    fix = job({"train.py": COLLATE.format(inner=inner or "pass", collate=collate)}).offer("GPU303")
    assert ("`collate_fn` has to be" in fix.description) is told


def test_what_workers_on_macos_cannot_be_sent_is_a_reason_not_to_start_any(job: MakeJob) -> None:
    program = COLLATE.format(inner="pass", collate="lambda samples: samples")
    files = {
        "load.py": program.replace("def main", "def run"),
        "train.py": "import torch\nfrom load import run\n\n"
        'device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n'
        "run(model.to(device))\n",
    }
    assert "is a lambda" in job(files).refusal("GPU303")


LOGGED = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class AverageMeter:
    def __init__(self):
        self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def train(loader):
    model = nn.Linear(3, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = AverageMeter()
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.item(), len(x))
        print(step, loss.item())
    print("mean", "{:.5f}".format(losses.avg))
    return losses.avg


train_loader = [(torch.randn(8, 3), torch.randint(4, (8,))) for _ in range(120)]
print(type(train(train_loader)))
"""


def test_logs_of_every_step_become_those_of_some_steps(job: MakeJob) -> None:
    pytest.importorskip("torch")
    fixes, printed, after = job({"train.py": LOGGED}).repaired("train.py", "GPU305")
    before = printed.splitlines()
    assert fixes == 2
    assert after.splitlines() == [*before[0:120:50], *before[120:]]
    assert before[-1] == "<class 'float'>"


LISTED = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(loader):
    model = nn.Linear(3, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        labels, found, scores = [], [], []
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            labels.extend(y.cpu().numpy())
            found += out.argmax(1).cpu().tolist()
            scores.append(out.softmax(1).detach().cpu())
        print(labels, found, torch.cat(scores).tolist(), type(labels[0]), type(found[0]))


train_loader = [(torch.randn(8, 3), torch.randint(4, (8,))) for _ in range(12)]
train(train_loader)
"""


def test_lists_that_are_copied_after_the_loop_hold_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    fixes, before, after = job({"train.py": LISTED}).repaired("train.py", "GPU305")
    assert fixes == 3
    assert after == before


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("            loss =", "            print(len(labels))\n            loss =", "read in every step"),
        ("    for epoch in range(2):\n        labels", "    labels", "not emptied before the loop"),
        ("labels", "masks", "too much to keep"),
        ("y.cpu()", "x.cpu()", "too much to keep"),
        ("y.cpu()", "y.flip(0).add(1).cpu()[:4]", "more is done"),
    ],
)
def test_lists_that_cannot_wait_stay(job: MakeJob, before: str, after: str, reason: str) -> None:
    assert before in LISTED
    program = "\n".join(line for line in LISTED.split("\n") if "found +=" not in line and "scores.append" not in line)
    changed = program.replace(before, after).replace("    labels, found, scores = [], [], []\n", "    labels = []\n")
    if "for epoch" in before:
        changed = program.replace(
            "    for epoch in range(2):\n        labels, found, scores = [], [], []\n",
            "    labels, found, scores = [], [], []\n    for epoch in range(2):\n",
        )
    assert reason in job({"train.py": changed}).refusal("GPU305")


CONVERTED = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images, labels = torch.randint(0, 256, (32, 4), dtype=torch.uint8), torch.randint(0, 2, (32,), dtype=torch.int32)
loader = DataLoader(TensorDataset(images, labels), batch_size=8, num_workers=1, pin_memory=torch.cuda.is_available())
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for x, y in loader:
    x = x.float().to(device)
    y = y.long().to(device)
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item(), x.dtype, y.dtype)
"""


def test_batches_that_are_converted_on_the_gpu_have_equal_values(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": CONVERTED})
    fixes, before, after = made.repaired("train.py", "GPU302")
    assert fixes and "x = x.to(device, non_blocking=True).float()\n" in made.text("train.py")
    assert "y = y.to(device, non_blocking=True).long()\n" in made.text("train.py")
    assert after == before and "torch.float32 torch.int64" in before
