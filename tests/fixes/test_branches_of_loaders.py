"""Loaders that branches bind to one name get the same options: what reads the name may get any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
import argparse

import torch
from torch.utils.data import DataLoader

from keeping import keep

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=8)
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--resume")


def evaluate(model, val_loader):
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            print(accuracy(model(x.cuda()), y.cuda()))


def main():
    args = parser.parse_args()
    model = Net().cuda()
    loaders = None
    if args.resume:
        val_loader = DataLoader(Images("kept"), FIRST)
    if not args.resume:
        val_loader = DataLoader(Images("val"), batch_size=args.batch_size, num_workers=0)
        STORE
    train_loader = DataLoader(Images("train"), batch_size=args.batch_size, num_workers=args.workers, shuffle=True)
    for epoch in range(90):
        for x, y in train_loader:
            criterion(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
        evaluate(model, val_loader)


main()
"""
KEEPING = """\
import torch


def keep(kept, path):
    torch.save(kept, path + ".part")
"""
SAME = "batch_size=args.batch_size, num_workers=0"
WRITES = [
    'torch.save({"images": val_loader}, "kept.pt")',
    'keep({"images": val_loader}, "kept.pt")',
    "kept = {'images': val_loader}\n        keep(kept, 'kept.pt')",
]


def _fixes(job: MakeJob, code: str, first: str, store: str = "print(args)") -> list[Any]:
    text = PROGRAM.replace("FIRST", first).replace("STORE", store)
    return [result.fix for result in job({"train.py": text, "keeping.py": KEEPING}).scan(code)]


@pytest.mark.parametrize("store", WRITES)
def test_no_branch_gets_lasting_workers_where_one_may_not(job: MakeJob, store: str) -> None:
    fixes = _fixes(job, "GPU303", SAME, store)
    assert len(fixes) == 2
    for fix in fixes:
        assert isinstance(fix, Fix)
        assert any("args.workers" in edit.text for edit in fix.edits)
        assert not any("persistent_workers" in edit.text for edit in fix.edits)


def test_both_branches_get_lasting_workers(job: MakeJob) -> None:
    for fix in _fixes(job, "GPU303", SAME):
        assert isinstance(fix, Fix)
        assert sum("persistent_workers" in edit.text for edit in fix.edits) == 2


def test_evaluation_batches_of_both_branches_grow_together(job: MakeJob) -> None:
    fixes = _fixes(job, "GPU202", SAME)
    assert len(fixes) == 2
    for fix in fixes:
        assert isinstance(fix, Fix)
        assert [edit.text for edit in fix.edits] == ["2 * args.batch_size"] * 2


def test_a_branch_that_may_drop_its_last_batch_keeps_the_size_of_both(job: MakeJob) -> None:
    fixes = _fixes(job, "GPU202", SAME + ", drop_last=True")
    assert fixes
    assert all(isinstance(fix, Declined) for fix in fixes)


def test_a_branch_with_a_size_of_its_own(job: MakeJob) -> None:
    (fix,) = [one for one in _fixes(job, "GPU202", "batch_size=1, num_workers=0") if isinstance(one, Fix)]
    assert [edit.text for edit in fix.edits] == ["2 * args.batch_size"]
