"""Switches for a whole process that several modules of one program set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

SEEDS = """\
import os

import torch


def set_seed(seed):
    torch.manual_seed(seed)
    {switch}
"""
DATA = """\
import os

import torch

{switch}


def load():
    return torch.utils.data.DataLoader([1, 2], batch_size=2)
"""
TRAIN = """\
import torch
import data
import seeds

seeds.set_seed(1)
model = torch.nn.Conv2d(3, 8, 3).cuda()
for x in data.load():
    model(x.cuda()).sum().backward()
    optimizer.step()
"""
OFF = "torch.backends.cudnn.enabled = False"
BLOCKS = "os.environ['CUDA_LAUNCH_BLOCKING'] = '1'"


def _files(seeds: str, data: str, train: str = TRAIN) -> dict[str, str]:
    return {"seeds.py": SEEDS.format(switch=seeds), "data.py": DATA.format(switch=data), "train.py": train}


def test_cudnn_is_switched_on_again_in_all_modules_of_a_program(job: MakeJob) -> None:
    made = job(_files(OFF, OFF))
    found = {result.finding.path.name: result for result in made.scan("GPU414")}
    assert found.keys() == {"seeds.py", "data.py"}
    assert found["seeds.py"].finding.help.startswith("remove the line, also in data.py:5, and set `torch.backends")
    for result in found.values():
        assert isinstance(result.fix, Fix)
        assert sorted(edit.path.name for edit in result.fix.edits) == ["data.py", "seeds.py"]
        assert "in 2 modules" in result.fix.description
    assert made.repair("GPU414") > 0
    for name in found:
        assert "cudnn.enabled" not in made.text(name)
        assert "torch.backends.cudnn.deterministic = True" in made.text(name)


def test_nothing_is_said_of_reproducible_runs_where_cudnn_is_deterministic(job: MakeJob) -> None:
    deterministic = OFF + "\ntorch.backends.cudnn.deterministic = True"
    for result in job(_files(OFF, deterministic)).scan("GPU414"):
        assert "deterministic" not in result.finding.help


def test_programs_that_share_no_switch_are_repaired_by_themselves(job: MakeJob) -> None:
    other = TRAIN.replace("import seeds\n", "").replace("seeds.set_seed(1)\n", "")
    one = TRAIN.replace("import data\n", "").replace("data.load()", "loader")
    made = job(_files(OFF, OFF, one) | {"other.py": other})
    for result in made.scan("GPU414"):
        assert "also in" not in result.finding.help
        assert isinstance(result.fix, Fix)
        assert {edit.path for edit in result.fix.edits} == {result.finding.path}


def test_a_reason_in_one_module_is_one_for_the_program(job: MakeJob) -> None:
    made = job(_files(OFF, f"# workaround, do not remove: cuDNN crashes here\n{OFF}"))
    assert not made.scan("GPU414")


def test_a_switch_that_a_function_sets_only_sometimes_keeps_nothing_off(job: MakeJob) -> None:
    sometimes = TRAIN.replace("seeds.set_seed(1)", "if torch.cuda.device_count() > 9:\n    seeds.set_seed(1)")
    found = {one.finding.path.name: one.fix for one in job(_files(OFF, OFF, sometimes)).scan("GPU414")}
    fix = found["data.py"]
    assert isinstance(fix, Fix)
    assert {edit.path.name for edit in fix.edits} == {"data.py"}


def test_no_fix_where_one_of_the_modules_keeps_it_off(job: MakeJob) -> None:
    chained = "torch.backends.cudnn.benchmark = torch.backends.cudnn.enabled = False"
    found = {one.finding.path.name: one.fix for one in job(_files(OFF, chained)).scan("GPU414")}
    fix = found["seeds.py"]
    assert isinstance(fix, Declined)
    assert "data.py:5 keeps it off" in fix.reason


@pytest.mark.parametrize("value", ["1", "0"])
def test_a_variable_goes_from_all_modules_that_set_it(job: MakeJob, value: str) -> None:
    made = job(_files(BLOCKS, BLOCKS.replace("'1'", f"'{value}'")))
    paths = {"seeds.py", "data.py"} if value == "1" else {"seeds.py"}
    for result in made.scan("GPU414"):
        assert isinstance(result.fix, Fix)
        assert {edit.path.name for edit in result.fix.edits} == paths


SCRIPT = """\
#!/bin/bash
#SBATCH --gres=gpu:4
{export}
{prefix}python {program}
"""
BLOCKED = """\
import os

{switch}
import torch

net = torch.nn.Linear(3, 8).cuda()
for x in loader:
    net(x.cuda()).sum().backward()
    optimizer.step()
"""
EXPORT = "export CUDA_LAUNCH_BLOCKING=1"


@pytest.mark.parametrize(("export", "prefix"), [(EXPORT, ""), ("", "CUDA_LAUNCH_BLOCKING=1 ")])
@pytest.mark.parametrize("switch", [BLOCKS, BLOCKS.replace("'1'", "'true'")])
def test_a_variable_goes_from_a_program_and_from_what_starts_it(
    job: MakeJob, export: str, prefix: str, switch: str
) -> None:
    script = SCRIPT.format(export=export, prefix=prefix, program="train.py")
    made = job({"train.py": BLOCKED.format(switch=switch), "job.sh": script})
    found = {result.finding.path.name: result for result in made.scan("GPU414")}
    assert found.keys() == {"train.py", "job.sh"}
    assert "(also in train.py:3)" in found["job.sh"].finding.help
    for result in found.values():
        assert isinstance(result.fix, Fix)
        assert {edit.path.name for edit in result.fix.edits} == {"train.py", "job.sh"}
        assert "in 2 files" in result.fix.description
    assert made.repair("GPU414") > 0
    assert not any("BLOCKING" in made.text(name) for name in ("train.py", "job.sh"))


def test_scripts_that_start_the_same_program_are_other_runs(job: MakeJob) -> None:
    script = SCRIPT.format(export=EXPORT, prefix="", program="train.py")
    made = job({"train.py": BLOCKED.format(switch=""), "one.sh": script, "two.sh": script})
    for result in made.scan("GPU414"):
        assert "also in" not in result.finding.help
        assert isinstance(result.fix, Fix)
        assert {edit.path for edit in result.fix.edits} == {result.finding.path}


def test_a_script_that_starts_another_program_is_left_to_itself(job: MakeJob) -> None:
    script = SCRIPT.format(export=EXPORT, prefix="", program="other.py")
    made = job({"train.py": BLOCKED.format(switch=BLOCKS), "other.py": BLOCKED.format(switch=""), "job.sh": script})
    for result in made.scan("GPU414"):
        assert isinstance(result.fix, Fix)
        assert {edit.path for edit in result.fix.edits} == {result.finding.path}


TWICE = """\
import torch

{top}


def main():
    {inside}
    net = torch.nn.Conv2d(3, 8, 3).cuda()
    for x in loader:
        net(x.cuda()).sum().backward()
        optimizer.step()


main()
"""


@pytest.mark.parametrize("switch", ["torch.autograd.set_detect_anomaly(True)", OFF], ids=["anomalies", "cuDNN"])
def test_both_switches_of_a_module_go(job: MakeJob, switch: str) -> None:
    made = job({"train.py": TWICE.format(top=switch, inside=switch)})
    first, second = made.scan("GPU414")
    assert "also in train.py:7" in first.finding.help and "also in train.py:3" in second.finding.help
    assert made.repair("GPU414") > 0
    assert not made.scan("GPU414")
