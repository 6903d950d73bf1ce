"""Loaders that get 0 workers from a command: a choice where the program's own default is another number."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, bases, scan

_PARSED = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=DEFAULT)
args = parser.parse_args()
"""
_LOADER = IMAGES.replace("shuffle=True", "shuffle=True, num_workers=args.num_workers")
_CHOICE = "a command passes 0 over another default"


def _files(default: str, command: str, parsed: str = _PARSED) -> dict[str, str]:
    program = parsed.replace("DEFAULT", default) + HEAD + _LOADER + TRAINING
    return {"net.py": "", "train.py": program, "run.sh": f"#!/bin/bash\n#SBATCH --gres=gpu:1\n{command}\n"}


@pytest.mark.parametrize(
    ("default", "command", "chosen"),
    [
        ("4", "python train.py --num-workers 0", True),
        ("4", "torchrun --nproc_per_node=2 train.py --num-workers=0", True),
        ("0", "python train.py --num-workers 0", False),
        ("0", "python train.py", False),
    ],
)
def test_a_command_that_passes_0_over_another_default(tmp_path: Path, default: str, command: str, chosen: bool) -> None:
    found = bases(tmp_path, _files(default, command), "GPU303")
    of_loader = next(one for one in found if "batches of 128" in one)
    assert of_loader.startswith("low") is chosen, found
    assert (_CHOICE in of_loader) is chosen


_CLICK = """\
import click

@click.command()
@click.option("--num-workers", type=int, default=DEFAULT)
def main(num_workers):
"""


def test_options_of_click_have_defaults_as_well(tmp_path: Path) -> None:
    data, loader = IMAGES.split("loader =")
    inner = ("loader =" + loader + TRAINING).replace("shuffle=True", "shuffle=True, num_workers=num_workers")
    body = "".join(f"    {line}\n" for line in inner.splitlines()) + "\nmain()\n"
    for default in ("4", "0"):
        program = HEAD + data + _CLICK.replace("DEFAULT", default) + body
        files = {"train.py": program, "run.sh": "#SBATCH --gres=gpu:1\npython train.py --num-workers 0\n"}
        found = next(one for one in bases(tmp_path / default, files, "GPU303") if "batches of 128" in one)
        assert (_CHOICE in found) is (default == "4")


def test_the_message_names_the_command(tmp_path: Path) -> None:
    def said(folder: str, files: dict[str, str]) -> tuple[str, str]:
        report = scan(tmp_path / folder, files)
        found = [one.finding for one in report.results if one.finding.rule.code == "GPU303"]
        (of_loader,) = [one for one in found if one.path.name == "train.py"]
        return of_loader.message, of_loader.related[0].message

    message, note = said("passed", _files("0", "python train.py --num-workers 0"))
    assert message.endswith("('run.sh' passes 0 workers)") and note == "0 workers are passed here"
    message, note = said("default", _files("0", "python train.py"))
    assert message.endswith("by default") and note == "0 workers by default"


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("| `--num_workers` | 0 | workers of the loader (keep 0 for HDF5) |", True),
        ("- Keep `--num_workers 0`: more leave the ranks hanging", True),
        ("Set `num_workers=0`, as the samples fill the memory", True),
        ("- If the loader hangs, set `--num_workers 0`", False),
        ("    python train.py --num_workers 0 --data photos.hdf5", False),
        ("| `--num_workers` | 0 | workers of the loader |", False),
    ],
)
def test_documentation_gives_a_reason(tmp_path: Path, line: str, known: bool) -> None:
    files = {**_files("0", "python train.py"), "README.md": f"# Photos\n\n{line}\n"}
    (found,) = bases(tmp_path, files, "GPU303")
    assert ("the documentation gives a reason" in found) is known
