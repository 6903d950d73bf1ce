"""Launchers that are named after a test: one that requests GPUs for a program which tests a model is a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpulint.cli import main

EVALUATION = """\
import torch
from torch.utils.data import DataLoader

if __name__ == "__main__":
    model = Net().cuda()
    model.load_state_dict(torch.load("model.pt"))
    model.eval()
    for x, y in DataLoader(Images("test"), batch_size=64, num_workers=8, pin_memory=True):
        hits = (model(x.cuda(non_blocking=True)).argmax(1) == y.cuda(non_blocking=True)).sum()
        print(hits.item())
"""
LAUNCHER = "#!/bin/bash\n#SBATCH --gres=gpu:4\nsrun python "


def headings(capsys: Any) -> list[str]:
    main(("scan", "--no-cache", "--impact", "low"))
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("==>")]


def test_a_program_that_tests_a_model_stands_under_its_job(tree: Path, capsys: Any) -> None:
    (tree / "test_net.py").write_text(EVALUATION)
    (tree / "test_net.sh").write_text(f"{LAUNCHER}test_net.py\n")
    assert headings(capsys) == ["==> Job 'test_net.sh' (test_net.sh:2 -> test_net.py): 4 GPUs"]


def test_a_launcher_that_tries_the_training_out_is_no_job(tree: Path, capsys: Any) -> None:
    (tree / "evaluate.py").write_text(EVALUATION)
    (tree / "test_smoke.sh").write_text(f"{LAUNCHER}evaluate.py\n")
    assert not any("test_smoke.sh" in line for line in headings(capsys))
