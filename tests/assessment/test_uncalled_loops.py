"""Waits in a function that only loops in methods lead to which nothing in the tree calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

UTILS = """\
def score(predicted, labels, names):
    for name in names:
        keep(name, compare(predicted[labels == name].cpu().numpy()), labels[labels == name].cpu().numpy())
"""
STRATEGY = """\
import torch
from lib.utils import score


class Strategy:
    def setup(self):
        self.model = torch.nn.Linear(2, 2).cuda()

    def run_training(self, loader, optimizer):
        for images, labels in loader:
            images, labels = images.cuda(), labels.cuda()
            output = self.model(images)
            loss = torch.nn.functional.cross_entropy(output, labels)
            loss.backward()
            optimizer.step()
            result = score(output, labels, names)
            print(result)
"""
PROGRAM = """\
import torch
from lib.strategy import Strategy

if __name__ == "__main__":
    strategy = Strategy()
    strategy.setup()
    for images, labels in loader:
        strategy.model(images.cuda()).mean().backward()
        optimizer.step()
    {call}
"""
PUBLIC = """\
[project]
name = "lib"
classifiers = ["Programming Language :: Python :: 3"]
"""
JOB = "#!/bin/bash\n#SBATCH --gres=gpu:1\ntorchrun --nproc-per-node 1 train.py\n"
PHRASE = "nothing calls the function with the loop"


@pytest.mark.parametrize(
    ("call", "more", "uncalled"),
    [
        ("pass", {}, True),
        ("strategy.run_training(loader, optimizer)", {}, False),
        ("pass", {"pyproject.toml": PUBLIC}, False),
        ("pass", {"pyproject.toml": PUBLIC, "train.sbatch": JOB}, True),
        ("strategy.run_training(loader, optimizer)", {"pyproject.toml": PUBLIC, "train.sbatch": JOB}, False),
        ("getattr(strategy, 'run_training')(loader, optimizer)", {"train.sbatch": JOB}, False),
    ],
)
def test_a_loop_in_a_method_that_no_program_of_the_tree_calls(
    tmp_path: Path, call: str, more: dict[str, str], uncalled: bool
) -> None:
    files = {
        "lib/__init__.py": "",
        "lib/utils.py": UTILS,
        "lib/strategy.py": STRATEGY,
        "train.py": PROGRAM.format(call=call),
        **more,
    }
    found = bases(tmp_path, files, "GPU305")
    assert found
    assert all((PHRASE in one) is uncalled for one in found)
    assert not uncalled or all(one.startswith("low") for one in found)


@pytest.mark.parametrize("calls", [True, False])
def test_another_loop_leads_to_the_place_as_well(tmp_path: Path, calls: bool) -> None:
    score = "from lib.utils import score\n" if calls else ""
    step = (
        "        result = score(strategy.model(images.cuda()), labels.cuda(), names)\n        print(result)\n"
        if calls
        else ""
    )
    program = score + PROGRAM.format(call="pass").replace("    pass\n", "").replace(
        "        optimizer.step()\n", "        optimizer.step()\n" + step
    )
    files = {"lib/__init__.py": "", "lib/utils.py": UTILS, "lib/strategy.py": STRATEGY, "train.py": program}
    assert any(PHRASE in one for one in bases(tmp_path, files, "GPU305")) is not calls
