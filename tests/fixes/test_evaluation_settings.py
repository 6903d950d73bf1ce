"""What evaluation batches of twice the size would change besides evaluation: other loaders, other cases, a score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]

HEAD = """\
import argparse

import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--eval_batch_size", type=int, default=None)
args = parser.parse_args()
model = torch.nn.Linear(8, 2).cuda()
"""
TRAINING = """\
for images, labels in train_loader:
    model(images.cuda()).sum().backward()
"""
EVALUATION = """\
with torch.no_grad():
    for images, labels in val_loader:
        total += {loss}(model(images.cuda()), labels.cuda())
"""


def loaders(size: str, loss: str = "score") -> str:
    return (
        f"train_loader = DataLoader(train, batch_size={size.rpartition(' or ')[2]}, shuffle=True)\n"
        f"val_loader = DataLoader(val, batch_size={size})\n{TRAINING}{EVALUATION.format(loss=loss)}"
    )


def reasons(made: Any) -> str:
    """Return why the findings are left alone, each in a line."""
    return "\n".join(result.fix.reason for result in made.scan("GPU202") if isinstance(result.fix, Declined))


@pytest.mark.parametrize(
    ("size", "new"),
    [
        ("args.eval_batch_size or args.batch_size", "args.eval_batch_size or 2 * args.batch_size"),
        ("args.eval_batch_size or other or args.batch_size", "args.eval_batch_size or other or 2 * args.batch_size"),
        ("args.batch_size", "2 * args.batch_size"),
    ],
)
def test_an_option_that_comes_first_keeps_its_effect(job: MakeJob, size: str, new: str) -> None:
    made = job({"train.py": HEAD + loaders(size)})
    assert made.repair("GPU202") == 1
    assert f"val_loader = DataLoader(val, batch_size={new})\n" in made.text("train.py")


@pytest.mark.parametrize(
    "choice",
    [
        "if args.timed:\n    size = 1\nelse:\n    size = 16\n",
        "size = 1 if args.timed else 16\n",
        "size = 16\nif args.timed:\n    size = 1\n",
    ],
)
def test_a_size_that_is_one_in_some_runs_stays(job: MakeJob, choice: str) -> None:
    assert "to 1 in one case" in job({"train.py": HEAD + choice + loaders("size")}).refusal("GPU202")
    more = choice.replace("size = 1\n", "size = 8\n").replace("size = 1 if", "size = 8 if")
    made = job({"train.py": HEAD + more + loaders("size")})
    assert made.repair("GPU202") == 1
    assert "val_loader = DataLoader(val, batch_size=size)\n" not in made.text("train.py")


@pytest.mark.parametrize("loss", ["CoxPHLoss()", "info_nce", "concordance_index", "criterion"])
def test_losses_that_compare_the_samples_of_a_batch_keep_its_size(job: MakeJob, loss: str) -> None:
    head = HEAD + "criterion = SupConLoss()\n"
    assert "compares the samples of a batch" in job({"train.py": head + loaders("args.batch_size", loss=loss)}).refusal(
        "GPU202"
    )


def test_so_do_they_where_no_loop_over_the_loader_is_seen(job: MakeJob) -> None:
    program = HEAD + "train_loader = DataLoader(train, batch_size=64)\nval_loader = DataLoader(val, batch_size=64)\n"
    program += TRAINING + "save({'val': val_loader})\n"
    assert "compares the samples" in job({"train.py": program + "loss = CoxPHLoss()\n"}).refusal("GPU202")
    assert job({"train.py": program + "loss = BCELoss()\n"}).repair("GPU202") == 1


def test_losses_of_single_samples_do_not(job: MakeJob) -> None:
    program = HEAD + "criterion = torch.nn.CrossEntropyLoss()\n" + loaders("args.batch_size", loss="criterion")
    assert job({"train.py": program}).repair("GPU202") == 1


CASES = """\
train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
if args.saved:
    val_loader = DataLoader(saved, batch_size=args.batch_size)
else:
    val_loader = DataLoader(val, batch_size=args.batch_size{more})
"""


def test_a_loader_that_is_made_in_two_cases_changes_in_both(job: MakeJob) -> None:
    rest = TRAINING + EVALUATION.format(loss="score")
    made = job({"train.py": HEAD + CASES.format(more="") + rest})
    assert made.repair("GPU202")
    assert made.text("train.py").count("batch_size=2 * args.batch_size)") == 2


def test_a_loader_that_drops_the_last_batch_in_one_case_changes_in_none(job: MakeJob) -> None:
    rest = TRAINING + EVALUATION.format(loss="score")
    made = job({"train.py": HEAD + CASES.format(more=", drop_last=True") + rest})
    assert "drop the last batch in another case" in reasons(made)
    assert not made.repair("GPU202")


ENTRY = """\
import argparse

import torch
from data import make

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=512)
parser.add_argument("--eval_batch_size", type=int, default=512)
args = parser.parse_args()
model = torch.nn.Linear(8, 2).cuda()
train_loader, val_loader, few = make(args)
for images, labels in train_loader:
    model(images.cuda()).sum().backward()
with torch.no_grad():
    for images, labels in val_loader:
        show(model(images.cuda()))
    for images, labels in few:
        show(model(images.cuda()))
"""
LOADERS = """\
from torch.utils.data import DataLoader


def make(args):
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val, batch_size=args.eval_batch_size)
    return train_loader, val_loader, DataLoader(few, args.eval_batch_size{more})
"""


def test_an_option_of_several_loaders_stays_where_one_drops_its_last_batch(job: MakeJob) -> None:
    files = {"train.py": ENTRY, "data.py": LOADERS.format(more=", drop_last=True")}
    assert "which drops the last batch" in reasons(job(files))
    made = job({"train.py": ENTRY, "data.py": LOADERS.format(more="")})
    assert made.repair("GPU202")
    assert '"--eval_batch_size", type=int, default=1024' in made.text("train.py")


def test_an_option_of_two_programs_stays_in_both(job: MakeJob) -> None:
    files = {"train.py": ENTRY, "finetune.py": ENTRY, "data.py": LOADERS.format(more="")}
    assert "of its own for the same loader" in reasons(job(files))
