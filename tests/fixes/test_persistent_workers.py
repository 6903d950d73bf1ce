"""Workers that end with each pass, programs that cannot start any, and steps that are too few or wait in any case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

DATA = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return load(Image.open(self.paths[index]))


"""
TRAIN = """\
for epoch in range(90):
    for step, x in enumerate(loader):
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            {body}
"""
LOADER = "loader = DataLoader(Images(paths), batch_size=64, pin_memory=True)\n"


@pytest.mark.parametrize(
    ("before", "body", "kept"),
    [
        ("", "first = next(iter(loader))", False),
        ("", "for other in loader:\n                break", False),
        ("def sample():\n    for other in loader:\n        return other\n\n\n", "sample()", False),
        ("def score(part):\n    for other in part:\n        model(other.cuda())\n\n\n", "score(loader)", False),
        (
            "def score(part):\n    for other in part:\n        model(other.cuda())\n\n\n",
            "score(DataLoader(test))",
            True,
        ),
        ("", "print(step)", True),
    ],
)
def test_workers_persist_unless_a_pass_begins_within_another(job: MakeJob, before: str, body: str, kept: bool) -> None:
    made = job({"train.py": DATA + LOADER + before + TRAIN.format(body=body)})
    assert made.repair("GPU303")
    assert "num_workers=" in made.text("train.py")
    assert ("persistent_workers=True" in made.text("train.py")) is kept


PASSED_ON = """\
import copy
import pickle
import ray
from mpi4py import MPI


class Client:
    def __init__(self, paths):
        self.loader = DataLoader(Images(paths), batch_size=64, pin_memory=True)

    def parts(self):
        return model.cpu(), self.loader

    def train(self):
        for epoch in range(90):
            for x in self.loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()

    def finish(self, client):
        {use}
"""


@pytest.mark.parametrize(
    ("use", "kept"),
    [
        ("MPI.COMM_WORLD.send({client: self.parts()}, dest=0)", False),
        ("pickle.dump({'loader': self.loader}, open('state.pkl', 'wb'))", False),
        ("return copy.deepcopy(self)", False),
        ("self.queue.put((client, self.loader))", False),
        ("return ray.put(self.loader)", False),
        ("send_parts(client, data=self.parts())", False),
        ("MPI.COMM_WORLD.send(model.state_dict(), dest=0)", True),
        ("pickle.dump(len(self.loader), open('state.pkl', 'wb'))", True),
        ("return copy.deepcopy(model)", True),
        ("torch.save({'epoch': epoch}, 'state.pt')", True),
    ],
)
def test_no_workers_stay_in_a_loader_that_is_pickled(job: MakeJob, use: str, kept: bool) -> None:
    made = job({"train.py": DATA + PASSED_ON.format(use=use)})
    assert made.repair("GPU303")
    assert "num_workers=" in made.text("train.py")
    assert ("persistent_workers=True" in made.text("train.py")) is kept


FACTORY = """\
def make(paths):
    loader = DataLoader(Images(paths), batch_size=64, pin_memory=True)
    return loader


{use}


for epoch in range(90):
    for loader in loaders{values}:
        for x in loader:
            loss = model(x.cuda()).mean()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("use", "values", "kept"),
    [
        ("loaders = {}\nfor client in range(args.clients):\n    loaders[client] = make(client)", ".values()", False),
        ("loaders = []\nfor part in parts:\n    one = make(part)\n    loaders.append(one)", "", False),
        ("loaders = [make(part) for part in parts]", "", False),
        ("loaders = {split: make(split) for split in ['train', 'val']}", ".values()", True),
        ("loaders = [make(paths)]", "", True),
    ],
)
def test_workers_of_many_loaders_end_with_each_pass(job: MakeJob, use: str, values: str, kept: bool) -> None:
    made = job({"train.py": DATA + FACTORY.format(use=use, values=values)})
    assert made.repair("GPU303")
    assert "num_workers=" in made.text("train.py")
    assert ("persistent_workers=True" in made.text("train.py")) is kept


SCRIPT = DATA + LOADER + TRAIN.format(body="print(step)")
WINDOWS = 'import pandas\n\nframe = pandas.read_csv(r"C:\\Users\\ann\\data.csv")\n'
GUARDED = DATA + "def main():\n    {}\n\n\nif __name__ == '__main__':\n    main()\n".format(
    (LOADER + TRAIN.format(body="print(step)")).strip().replace("\n", "\n    ")
)


@pytest.mark.parametrize(
    "files",
    [
        {"prepare.py": WINDOWS},
        {"prepare.py": "import os\n\nif os.name == 'nt':\n    os.system('cls')\n"},
        {"train.py": SCRIPT.replace("\n\n\nclass", "\n\nmps = torch.backends.mps.is_available()\n\n\nclass", 1)},
    ],
)
def test_a_program_of_another_system_without_a_main_guard_gets_no_workers(job: MakeJob, files: dict[str, str]) -> None:
    check_declined(job, "GPU303", {"train.py": SCRIPT, **files}, "without `if __name__ == '__main__'`")


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": SCRIPT, "prepare.py": WINDOWS.replace("C:\\Users", "/home")},
        {"train.py": GUARDED, "prepare.py": WINDOWS},
        {
            "train.py": SCRIPT,
            "prepare.py": WINDOWS,
            "job.sh": "#!/bin/bash\n#SBATCH --gres=gpu:1 --ntasks=1 --cpus-per-task=6\npython train.py\n",
        },
    ],
)
def test_a_program_that_can_start_workers_gets_some(job: MakeJob, files: dict[str, str]) -> None:
    made = job(files)
    assert made.repair("GPU303")
    assert "num_workers=" in made.text("train.py")


LOGGED = """\
import torch
import wandb
from torch.utils.data import DataLoader

loader = DataLoader(Images(paths), batch_size={size}, num_workers=4, pin_memory=True)
scaler = torch.amp.GradScaler("cuda", enabled={scales})
model = torch.nn.Linear(8, 2).cuda()
for epoch in range(90):
    for x in loader:
        loss = model(x.cuda(non_blocking=True)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        wandb.log({{"loss": loss.item()}})
"""


@pytest.mark.parametrize(
    ("size", "scales", "reason"),
    [
        (32, True, "the scaler of gradients waits in line 12"),
        (400, False, "may have fewer than 50 steps"),
    ],
)
def test_logs_are_left_alone(job: MakeJob, size: int, scales: bool, reason: str) -> None:
    check_declined(job, "GPU305", {"train.py": LOGGED.format(size=size, scales=scales)}, reason)


def test_a_log_without_a_scaler_is_made_less_often(job: MakeJob) -> None:
    made = job({"train.py": LOGGED.format(size=32, scales=False)})
    assert made.repair("GPU305")
    assert "if step % 50 == 0:" in made.text("train.py")


AGAIN = """\
import torch

model = torch.nn.Linear(8, 2).cuda()
for epoch in range(90):
    total = 0
    for x in train_loader:
        loss = model(x.cuda(non_blocking=True)).mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
        {more}
"""


@pytest.mark.parametrize(("more", "removed"), [("consume(loss.item())", False), ("scheduler.step()", True)])
def test_a_sum_that_nothing_reads_goes_unless_the_step_reads_the_same_tensor(
    job: MakeJob, more: str, removed: bool
) -> None:
    made = job({"train.py": AGAIN.format(more=more)})
    made.repair("GPU305")
    assert ("total" not in made.text("train.py")) is removed


MAKES_PARTS = """\
def make_parts(name):
    images = Images(paths[name])
    loader = DataLoader(images, batch_size=64)
    return images, loader


def main():
    train_images, train_loader = make_parts("train")
{loaders}
    for epoch in range(90):
        for x in train_loader:
            loss = model(x.cuda()).mean()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
PART_NAMED = "    images_{0}, loader_{0} = make_parts('{0}')"
PART_AGAIN = "    images, loader = make_parts('{0}')"
PARTS_LISTED = """\
    parts = {{}}
    for name in [{names}]:
        parts[name] = make_parts(name)"""


@pytest.mark.parametrize(
    ("loaders", "persistent"),
    [
        ("\n".join(PART_NAMED.format(number) for number in range(3)), True),
        ("\n".join(PART_NAMED.format(number) for number in range(9)), False),
        ("\n".join(PART_AGAIN.format(number) for number in range(9)), True),
        (PARTS_LISTED.format(names="'one', 'two'"), True),
        (PARTS_LISTED.format(names=", ".join(f"'{number}'" for number in range(9))), False),
        ("    parts = [make_parts(name) for name in (" + ", ".join(f"'{number}'" for number in range(9)) + ")]", False),
    ],
)
def test_workers_end_where_a_factory_makes_many_loaders(job: MakeJob, loaders: str, persistent: bool) -> None:
    made = job({"train.py": DATA + MAKES_PARTS.format(loaders=loaders)})
    made.repair("GPU303")
    text = made.text("train.py")
    assert "num_workers=" in text
    assert ("persistent_workers=True" in text) is persistent


@pytest.mark.parametrize(
    "loaders",
    [
        "\n".join(PART_NAMED.format(number) for number in range(30)),
        PARTS_LISTED.format(names=", ".join(f"'{number}'" for number in range(30))),
    ],
)
def test_dozens_of_loaders_get_no_workers(job: MakeJob, loaders: str) -> None:
    made = job({"train.py": DATA + MAKES_PARTS.format(loaders=loaders)})
    assert "each of which would start workers" in made.refusal("GPU303")
    assert "one of dozens of loaders" in made.scan("GPU303")[0].finding.impact.basis


EXTRACTS = """\
def extract(part):
    for images in part:
        model(images.cuda())


"""
TABLE = (
    EXTRACTS
    + "loaders = {name: DataLoader(Images(paths[name]), batch_size=64) for name in ('gallery', 'query')}\n{uses}\n"
)
BY_BRANCH = """\
loader = DataLoader(Images(paths), batch_size=64)
if args.verbose:
    for step, x in enumerate(loader):
        print(step, model(x.cuda()))
{other}    for x in loader:
        model(x.cuda())
"""
ROUNDS = """\
ROUNDS = {rounds}
for epoch in range(90):
    loader = DataLoader(Images(draw(paths)), batch_size=64)
    for _ in range(0, ROUNDS):
        for x in loader:
            model(x.cuda()).mean().backward()
"""


CALLED = """\
def scores(images):
    for x in loader_of(images):
        print(model(x.cuda()))


"""
BY_LAMBDA = f"loader_of = lambda images: DataLoader(Images(images), batch_size=64, num_workers=0)\n{CALLED}"
SEVERAL = """\
def scores(images):
    loader = DataLoader(Images(images), batch_size=64)
    for _ in range(3):
        for x in loader:
            print(model(x.cuda()))


"""
BY_FUNCTION = f"def loader_of(images):\n    return DataLoader(Images(images), batch_size=64)\n\n\n{CALLED}"


@pytest.mark.parametrize(
    ("program", "persistent"),
    [
        (f"{BY_LAMBDA}scores(paths)\nscores(others)\n", False),
        (f"{BY_FUNCTION}scores(paths)\nscores(others)\n", False),
        (f"{SEVERAL}scores(paths)\n", True),
        (TABLE.replace("{uses}", "extract(loaders['gallery'])\nextract(loaders['query'])"), False),
        (TABLE.replace("{uses}", "extract(loaders['gallery'])\nextract(loaders['gallery'])"), True),
        (TABLE.replace("{uses}", "for epoch in range(9):\n    extract(loaders['gallery'])"), True),
        (TABLE.replace("{uses}", "for name in loaders:\n    extract(loaders[name])"), True),
        (f"{EXTRACTS}loader = DataLoader(Images(paths), batch_size=64)\nprint(len(loader))\nextract(loader)\n", False),
        (f"{EXTRACTS}loader = DataLoader(Images(paths), batch_size=64)\nextract(loader)\nextract(loader)\n", True),
        (BY_BRANCH.format(other="else:\n"), False),
        (BY_BRANCH.format(other="if args.again:\n"), True),
        (ROUNDS.format(rounds="1"), False),
        (ROUNDS.format(rounds="3"), True),
    ],
)
def test_workers_persist_only_for_another_pass(job: MakeJob, program: str, persistent: bool) -> None:
    made = job({"train.py": DATA + program})
    made.repair("GPU303")
    text = made.text("train.py")
    assert "num_workers=" in text
    assert ("persistent_workers=True" in text) is persistent


def test_advice_keeps_no_workers_of_a_loader_that_each_epoch_makes(job: MakeJob) -> None:
    (found,) = job({"train.py": DATA + ROUNDS.format(rounds="1")}).scan("GPU303")
    assert found.finding.help == "set `num_workers=` of `loader` to the job's cores per GPU"
