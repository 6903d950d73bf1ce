"""Numbers of workers in configuration files: what the loaders that read them make per sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
import numpy as np
import torch
from omegaconf import OmegaConf
from PIL import Image
from torch.utils.data import DataLoader, Dataset

cfg = OmegaConf.load("config.yaml")


class Rows(Dataset):
    def __init__(self, path):
        self.rows = torch.from_numpy(np.load(path))
        self.labels = torch.from_numpy(np.load(path + ".labels"))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"rows": self.rows[index], "label": self.labels[index].long()}


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return {"rows": np.asarray(Image.open(self.paths[index])), "label": index}


MAKE
for epoch in range(90):
    for batch in loader:
        loss = criterion(model(batch["rows"].cuda()), batch["label"].cuda())
        loss.backward()
        optimizer.step()
"""
PLAIN = 'loader = DataLoader(Rows("train.npy"), batch_size=32, shuffle=True, num_workers=cfg.num_workers)'
OPTIONS = """\
options = {"batch_size": 32, "num_workers": cfg.num_workers}
loader = DataLoader(Rows("train.npy"), shuffle=True, **options)"""
OTHER = 'DataLoader(Photos(paths), batch_size=32, num_workers=cfg["num_workers"])'
READS = "loader = DataLoader(Photos(paths), batch_size=32, shuffle=True, num_workers=cfg.num_workers)"
UNKNOWN = "loader = DataLoader(load(cfg), batch_size=32, shuffle=True, num_workers=cfg.num_workers)"


def _made(job: MakeJob, make: str) -> Any:
    return job({"train.py": PROGRAM.replace("MAKE", make), "config.yaml": "lr: 0.1\nnum_workers: 0\n"})


@pytest.mark.parametrize("make", [PLAIN, OPTIONS])
def test_no_workers_where_all_loaders_look_samples_up(job: MakeJob, make: str) -> None:
    assert "only loaders whose samples are in memory" in _made(job, make).refusal("GPU303")


@pytest.mark.parametrize("make", [READS, UNKNOWN, f"{PLAIN}\nothers = {OTHER}"])
def test_workers_where_a_loader_may_do_more(job: MakeJob, make: str) -> None:
    results = _made(job, make).scan("GPU303")
    (made,) = [result.fix for result in results if result.finding.path.suffix == ".yaml"]
    assert isinstance(made, Fix)
    assert "4 workers" in made.description
    assert ("random states" in made.description) is (make == UNKNOWN)


OPTION = """\
import argparse

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=DEFAULT)
    args = parser.parse_args()
    model = Net().cuda()
    train_loader = DataLoader(Images("train"), batch_size=64, num_workers=FIRST, shuffle=True)
    val_loader = DataLoader(Images("val"), batch_size=64, num_workers=0)
    for epoch in range(90):
        for x in train_loader:
            model(x.cuda()).mean().backward()
            optimizer.step()
        with torch.no_grad():
            for x in val_loader:
                print(model(x.cuda()).mean().item())


if __name__ == "__main__":
    main()
"""
VALIDATES = 'val_loader = DataLoader(Images("val"), batch_size=64'


@pytest.mark.parametrize(
    ("default", "first", "number"),
    [
        ("0", "args.workers", "args.workers, persistent_workers=args.workers > 0"),
        ("0", "2 * args.workers", "4, persistent_workers=True"),
        ("0", "0", "4, persistent_workers=True"),
    ],
)
def test_a_loader_without_workers_gets_those_of_the_option_that_is_raised_for_another(
    job: MakeJob, default: str, first: str, number: str
) -> None:
    made = job({"train.py": OPTION.replace("DEFAULT", default).replace("FIRST", first)})
    made.repair("GPU303")
    joined = " ".join(made.text("train.py").split())
    assert f"{VALIDATES}, num_workers={number})" in joined
    assert ("default=4" in joined) is (first == "args.workers")


@pytest.mark.parametrize(
    ("commands", "line"),
    [
        (["python train.py --workers 0"], 1),
        (["torchrun \\", "  src/other.py", "", "python -u train.py \\", "  --lr 1 \\", "  --workers=0"], 6),
        (["python train.py --workers 0", "python train.py --lr 1"], 0),
        (["python train.py --workers 4"], 0),
        (["python pretrain.py --workers 0"], 0),
        (["The program train.py knows --workers 0."], 0),
    ],
)
def test_a_documented_command_that_passes_0_has_to_change_as_well(job: MakeJob, commands: list[str], line: int) -> None:
    program = OPTION.replace("DEFAULT", "0").replace("FIRST", "args.workers")
    made = job({"train.py": program, "README.md": "\n".join(commands) + "\n"})
    (found,) = [one for one in made.scan("GPU303") if one.finding.span.line == 18]
    assert isinstance(found.fix, Fix)
    said = f"README.md:{line} passes 0, which has to change as well"
    assert (said in found.fix.description) is bool(line)
    assert [one.span.line for one in found.finding.related if one.path.name == "README.md"] == ([line] if line else [])
