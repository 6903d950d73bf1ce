"""Waits of branches that programs take only with another value of an option than its default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

TRAIN = """\
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--max-grad-norm", type=float, default={default})
args = parser.parse_args()


def step(model, optimizer, images, labels, max_grad_norm):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    if max_grad_norm > 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        norm = 0.0
    else:
        norm = sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5
    optimizer.step()
    return norm


model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(100):
    for images, labels in loader:
        norm = step(model, optimizer, images.cuda(), labels.cuda(), args.max_grad_norm)
        if epoch % 10 == 0:
            print(norm)
"""


@pytest.mark.parametrize(
    ("default", "passed", "low"),
    [
        ("1.0", ("", "--max-grad-norm 1.0", '--max-grad-norm "$1"'), True),
        ("0.0", ("", "--max-grad-norm 1.0", '--max-grad-norm "$1"'), False),
        ("1.0", ("", "--max-grad-norm 0.0", '--max-grad-norm "$1"'), False),
        ("1.0", ('--max-grad-norm "$1"',), False),
    ],
)
def test_a_branch_beside_the_default_does_not_lead(
    tmp_path: Path, default: str, passed: tuple[str, ...], low: bool
) -> None:
    head = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py "
    jobs = {f"job{number}.sh": f"{head}{given}\n" for number, given in enumerate(passed)}
    (found,) = bases(tmp_path, {"train.py": TRAIN.replace("{default}", default), **jobs}, "GPU305")
    assert ("another value than the default" in found) == low, found
