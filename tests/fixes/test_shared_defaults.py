"""A number of workers that is the default of a helper: another one is in force for all programs that call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    look = LOOK.replace("loader =", 'if __name__ == "__main__":\n    loader =').replace("\nx, y", "\n    x, y")
    fix = job({**FILES, "look.py": look, "README.md": WINDOWS}).offer("GPU303")
    assert "guard" not in fix.description
