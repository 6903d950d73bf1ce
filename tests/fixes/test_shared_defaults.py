"""A number of workers that is the default of a helper: another one is in force for all programs that call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined
from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

HELPER = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def make_loader(batch_size=32, num_workers=0):
    return DataLoader(ImageFolder("train"), batch_size=batch_size, num_workers=num_workers, pin_memory=True)
"""
TRAIN = """\
from data import make_loader


def main():
    loader = make_loader(batch_size=64)
    for epoch in range(90):
        for x, y in loader:
            loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
LOOK = """\
from data import make_loader

loader = make_loader()
x, y = next(iter(loader))
print(x.shape)
"""
WINDOWS = "```powershell\npython train.py\n```\n"
FILES = {"data.py": HELPER, "train.py": TRAIN}


def test_a_default_that_an_unguarded_program_leaves_in_force_stays(job: MakeJob) -> None:
    files = {**FILES, "look.py": LOOK, "README.md": WINDOWS}
    check_declined(job, "GPU303", files, "`num_workers` is a default of `make_loader`, which look.py:3 calls without")


def test_programs_that_try_a_part_out_count_as_well(job: MakeJob) -> None:
    files = {**FILES, "test_look.py": LOOK, "README.md": WINDOWS}
    check_declined(job, "GPU303", files, "which test_look.py:3 calls without")


def test_a_default_of_a_constructor_stays_as_well(job: MakeJob) -> None:
    held = HELPER.replace("def make_loader(", "class Data:\n    def __init__(self, ").replace(
        "    return DataLoader(", "        self.loader = DataLoader("
    )
    train = TRAIN.replace("make_loader(batch_size=64)", "Data(batch_size=64).loader").replace("make_loader", "Data")
    look = LOOK.replace("make_loader()", "Data().loader").replace("make_loader", "Data")
    files = {"data.py": held, "train.py": train, "look.py": look, "README.md": WINDOWS}
    check_declined(job, "GPU303", files, "`num_workers` is a default of `Data`, which look.py:3 calls without")


def test_a_fix_says_which_program_needs_a_guard(job: MakeJob) -> None:
    fix = job({**FILES, "look.py": LOOK}).offer("GPU303")
    assert "which look.py:3 calls without a main guard" in fix.description
    assert [edit.path.name for edit in fix.edits] == ["data.py"]


def test_a_guarded_program_keeps_no_default_from_changing(job: MakeJob) -> None:
    guarded = LOOK.replace("loader =", 'if __name__ == "__main__":\n    loader =').replace("\nx, y", "\n    x, y")
    files = {**FILES, "look.py": guarded.replace("print", "    print"), "README.md": WINDOWS}
    fix = job(files).offer("GPU303")
    assert "guard" not in fix.description


SPLITS = """\
import argparse

from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def make(args):
    train = DataLoader(ImageFolder("train", transform=augment), batch_size=64, {order}num_workers=args.workers)
    val = DataLoader(ImageFolder("val"), batch_size=64, num_workers=args.workers)
    return train, val


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    train, val = make(parser.parse_args())
    for epoch in range(90):
        for x, y in train:
            criterion(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
        for x, y in val:
            model(x.cuda())


if __name__ == "__main__":
    main()
"""
OTHER_ORDER = "later epochs are shuffled differently"


@pytest.mark.parametrize(("order", "said"), [("shuffle=True, ", True), ("", False)])
def test_a_fix_speaks_of_all_loaders_that_get_the_default(job: MakeJob, order: str, said: bool) -> None:
    offers = [result.fix.description for result in job({"train.py": SPLITS.format(order=order)}).scan("GPU303")]
    assert [OTHER_ORDER in one for one in offers] == [said, said]


@pytest.mark.parametrize(("order", "said"), [("shuffle=True, ", True), ("", False)])
def test_a_fix_speaks_of_the_loaders_that_it_changes_as_well(job: MakeJob, order: str, said: bool) -> None:
    program = SPLITS.format(order=order).replace(", num_workers=args.workers", "").replace("args", "_")
    program = program.replace("shuffle=True, num_workers=_.workers", "shuffle=True")
    offers = [result.fix.description for result in job({"train.py": program}).scan("GPU303")]
    assert [OTHER_ORDER in one for one in offers] == [said, said]


MAPPED = """\
from datasets import load_dataset
from torch.utils.data import DataLoader


def read(name, tokenizer):
    def tokenized(row):
        return tokenizer(row["text"])

    return load_dataset(name).map({mapped})


def main():
    loader = DataLoader(read("imdb", tokenizer), batch_size=64, collate_fn=collate)
    for epoch in range(90):
        for batch in loader:
            model(batch["x"].cuda()).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("mapped", ["lambda row: tokenizer(row['text'])", "tokenized", "tokenized, num_proc=4"])
def test_a_table_does_not_hold_what_maps_it(job: MakeJob, mapped: str) -> None:
    assert "`dataset` holds" not in job({"train.py": MAPPED.format(mapped=mapped)}).offer("GPU303").description


@pytest.mark.parametrize(
    ("before", "after"),
    [("load_dataset(name)", "load_dataset(name, streaming=True)"), ("from datasets", "from pipelines")],
)
def test_a_stream_holds_what_maps_it(job: MakeJob, before: str, after: str) -> None:
    program = MAPPED.format(mapped="lambda row: row").replace(before, after)
    (result,) = job({"train.py": program}).scan("GPU303")
    said = result.fix.reason if isinstance(result.fix, Declined) else result.fix.description
    assert "`dataset` holds a lambda" in said or "stream" in said


TRAINER = """\
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, args, images):
        self.args, self.images = args, images

    def train_loader(self):
        return DataLoader(self.images, batch_size=64, shuffle=True, num_workers={number})

    def test_loader(self, images):
        return DataLoader(images, batch_size=self.args.test_size)

    def run(self):
        loader, held_out = self.train_loader(), self.test_loader(ImageFolder("test"))
        for epoch in range(90):
            for x, y in loader:
                criterion(model(x.cuda()), y.cuda()).backward()
                optimizer.step()
            for x, y in held_out:
                model(x.cuda())
"""


@pytest.mark.parametrize(
    ("number", "given"),
    [
        ("self.args.loader_workers", "num_workers=self.args.loader_workers"),
        ("8", "num_workers=4"),
        ("count", "num_workers=4"),
    ],
)
def test_a_loader_gets_the_setting_of_those_beside_it(job: MakeJob, number: str, given: str) -> None:
    made = job({"train.py": TRAINER.format(number=number)})
    made.repair("GPU303")
    assert f"self.args.test_size, {given}" in made.text("train.py").replace("\n" + 26 * " ", " ")


def test_a_setting_of_those_beside_it_that_is_0_is_for_a_person(job: MakeJob) -> None:
    program = TRAINER.format(number="self.workers").replace(
        "args, images\n\n", "args, images\n        self.workers = 0\n\n"
    )
    reasons = [
        result.fix.reason for result in job({"train.py": program}).scan("GPU303") if isinstance(result.fix, Declined)
    ]
    assert any("the loaders beside it get `self.workers`, which may be 0" in reason for reason in reasons)


DESCRIBED = '''\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def make_loader(batch_size=32, num_workers=0, seed=0):
    """Return the loader of the training.

    batch_size (int): samples, by default 32
    num_workers (int, defaults to 0): processes; 0 workers load in the training process
    seed (int, defaults to 0): of the order
    """
    return DataLoader(ImageFolder("train"), batch_size=batch_size, num_workers=num_workers, pin_memory=True)
'''


def test_a_docstring_that_states_the_default_follows_it(job: MakeJob) -> None:
    made = job({"data.py": DESCRIBED, "train.py": TRAIN})
    made.repair("GPU303")
    text = made.text("data.py")
    assert "num_workers=4, seed=0" in text
    assert "num_workers (int, defaults to 4): processes; 0 workers load" in text
    assert "seed (int, defaults to 0)" in text
