"""Fixes of waits that gain nothing alone name the others, and logs of one block get one condition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main

MakeJob = Callable[..., Any]

HEAD = """\
import time

import torch
import wandb
from tqdm import tqdm


def train(model, loader, optimizer, rank, other):
    total = 0.0
    bar = tqdm(loader)
    for step, (x, y) in enumerate(bar):
        loss = torch.nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
"""
TRAINS = """\
        loss.backward()
        optimizer.step()
"""
SUM = "        total += loss.item()\n"
LOG = "        bar.set_postfix(loss=loss.item())\n"
END = "    return total\n"


def told(job: MakeJob, body: str) -> dict[str, str]:
    """The descriptions of the fixes for a loop, by the text of their lines."""
    program = HEAD + body + END
    lines = program.splitlines()
    return {
        lines[one.finding.span.line - 1].strip(): one.fix.description
        for one in job({"train.py": program}).scan("GPU305")
    }


def test_a_log_beside_a_sum_helps_only_together_with_it(job: MakeJob) -> None:
    found = told(job, TRAINS + SUM + LOG)
    assert "it helps only together with the fix of line 16, which may" in found[SUM.strip()]
    assert found[LOG.strip()].endswith("in the progress bar as well; it helps only together with the fix of line 15")


@pytest.mark.parametrize("work", [TRAINS, "        other(x)\n", "        loss.backward()\n"])
def test_a_log_helps_alone_where_the_gpu_gets_work_after_the_other_wait(job: MakeJob, work: str) -> None:
    found = told(job, SUM + work + TRAINS + LOG)
    assert "only together" not in found[LOG.strip()]


def test_a_log_of_another_branch_is_no_partner(job: MakeJob) -> None:
    found = told(job, f"{TRAINS}        if step > 9:\n    {SUM}{LOG}")
    assert "only together" not in found[LOG.strip()]


WANDB = "        wandb.log({{'loss': loss.item()}}{step})\n"


@pytest.mark.parametrize(("step", "says"), [("", True), (", step=step", False)])
def test_a_log_that_counts_its_calls_is_named(job: MakeJob, step: str, says: bool) -> None:
    (description,) = told(job, TRAINS + WANDB.format(step=step)).values()
    assert ("`wandb.log` is given no step and counts its calls" in description) is says


BLOCKS = """\
        if rank == 0:
            bar.set_postfix(loss=loss.item())
            if wandb.run is not None:
                wandb.log({'loss': loss.item()}, step=step)
"""


def test_logs_of_nested_blocks_get_one_condition(job: MakeJob) -> None:
    made = job({"train.py": HEAD + TRAINS + BLOCKS + END})
    assert made.repair("GPU305") > 0
    text = made.text("train.py")
    assert text.count("% 50 == 0") == 1
    assert "        if rank == 0 and step % 50 == 0:\n" in text
    assert "            if wandb.run is not None:\n" in text


def test_a_block_beside_other_work_gets_its_own_condition(job: MakeJob) -> None:
    blocks = "        if rank == 0:\n            model.count()\n            if wandb.run is not None:\n        "
    made = job({"train.py": HEAD + TRAINS + blocks + WANDB.format(step=", step=step") + END})
    assert made.repair("GPU305") > 0
    assert "            if wandb.run is not None and step % 50 == 0:\n" in made.text("train.py")


APART = """\
        shown = {{'loss': loss.item(), 'seconds': time.time() - began}}
        {between}
        bar.set_postfix(**shown)
"""


def test_values_and_the_log_below_get_the_same_condition(job: MakeJob) -> None:
    body = "        began = time.time()\n" + TRAINS + APART.format(between="began = time.time()")
    made = job({"train.py": HEAD + body + END})
    assert made.repair("GPU305") > 0
    text = made.text("train.py")
    assert "        if step % 50 == 0:\n            shown = {" in text
    assert "        if step % 50 == 0:\n            bar.set_postfix(**shown)\n" in text


@pytest.mark.parametrize("between", ["step += 1", "total += shown['loss']"])
def test_values_that_are_used_between_are_read_in_each_step(job: MakeJob, between: str) -> None:
    body = "        began = time.time()\n" + TRAINS + APART.format(between=between)
    made = job({"train.py": HEAD + body + END})
    made.repair("GPU305")
    assert "shown = {'loss': loss.item()" in made.text("train.py")
    assert "            shown = {" not in made.text("train.py")


RETURNED = """\
import torch
import wandb


def losses(model, x, y):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    return {'loss': loss, 'shown': loss.item()}


def train(model, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        found = losses(model, x.cuda(non_blocking=True), y.cuda(non_blocking=True))
        found['loss'].backward()
        optimizer.step()
        print(found['shown'])
"""


def test_returned_tensors_that_are_logged_less_often_say_so(job: MakeJob) -> None:
    description = job({"train.py": RETURNED}).offer("GPU305").description
    assert description.startswith("let `losses` return tensors")
    assert "the loop logs every 50 steps instead of every step" in description


def sides(first: str, second: str, test: str = "other.mode == 'both'") -> str:
    """Two logs in the branches of a condition."""
    log = "            bar.set_postfix({}loss=loss.item())\n"
    return f"        if {test}:\n{log.format(first)}        {second}:\n{log.format('more=y.shape, ')}"


@pytest.mark.parametrize(
    ("sum_line", "logs"),
    [
        (SUM, sides("", "else")),
        (f"        if other.sums == 'all':\n    {SUM}", sides("", "else")),
        (SUM, sides("", "elif other.mode == 'few'") + "        else:\n            bar.set_postfix(last=loss.item())\n"),
    ],
)
def test_a_sum_beside_logs_in_all_branches_is_no_safe_fix(job: MakeJob, sum_line: str, logs: str) -> None:
    """With the safe fix alone each step would wait as before, in the one branch or the other."""
    found = told(job, TRAINS + sum_line + logs)
    assert "it helps only together with the fixes of lines " in found[SUM.strip()]
    made = job({"train.py": HEAD + TRAINS + sum_line + logs + END})
    assert made.repair("GPU305", unsafe=False) == 0
    assert made.repair("GPU305") > 0
    assert made.text("train.py").count("loss.item()") == logs.count("loss.item()")


def test_a_sum_beside_a_log_in_one_branch_is_safe(job: MakeJob) -> None:
    logs = "        if other.mode == 'both':\n            bar.set_postfix(loss=loss.item())\n        else:\n            bar.update()\n"
    assert "only together" not in told(job, TRAINS + SUM + logs)[SUM.strip()]


def test_a_fix_of_the_same_line_is_the_other_one(job: MakeJob) -> None:
    both = "        kept.append(loss.item()); tops.append(y.float().cuda().mean().item())\n"
    program = HEAD.replace("total = 0.0", "kept, tops = [], []") + TRAINS + both + "    return kept, tops, kept[0]\n"
    first = job({"train.py": program}).scan("GPU305")[0].fix.description
    assert "the fixes of line" not in first
    assert "only together" not in first or "the other fix of line 15" in first


def test_the_fixes_that_help_together_are_shown_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(HEAD + TRAINS + SUM + LOG + END)
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", str(tmp_path)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "|+ total += loss.detach()" in shown
    assert "|+ if step % 50 == 0:" in shown
    assert shown.count("only together") == 1


STILL = "each step still waits where line {} copies a number to the GPU"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("        other = torch.tensor(0.0, device='cuda')\n", True),
        ("        other = torch.tensor(0.0, device=loss.device)\n", True),
        ("        other = torch.full((), 0.0, device='cuda')\n", False),
        ("        other = torch.tensor(0.0, device='cpu')\n", False),
        ("        if step % 100 == 0:\n            other = torch.tensor(0.0, device='cuda')\n", False),
        ("        if other == 'x':\n            other = torch.tensor(0.0, device='cuda')\n", False),
    ],
)
def test_a_number_that_each_step_copies_is_named(job: MakeJob, made: str, says: bool) -> None:
    found = told(job, TRAINS + SUM + made)
    assert (STILL.format(16) in found[SUM.strip()]) is says
