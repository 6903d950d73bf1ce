"""Parts of training steps that the commands of a program leave out by their options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

MODEL = """\
from torch import nn


class Detector(nn.Module):
    def __init__(self, only_boxes):
        super().__init__()
        self.only_boxes = only_boxes
        self.head = nn.Linear(512, 4)

    def locate(self, scores):
        return [scores[number].item() for number in range(len(scores))]

    def forward(self, images):
        boxes = self.head(images)
        {test}
            return boxes, None
        return boxes, self.locate(boxes.sum(1))
"""
TRAIN = """\
import argparse

import torch
from detector import Detector
from torch.utils.data import DataLoader

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only-boxes", action="store_true")
    parser.add_argument("--evaluate", action="store_true")
    args = parser.parse_args()
    model = Detector(args.only_boxes).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in DataLoader(torch.load("images"), 64, num_workers=4, pin_memory=True):
        boxes, found = model(images.cuda())
        loss = torch.nn.functional.mse_loss(boxes, labels.cuda())
        loss.backward()
        optimizer.step()
"""
EVALUATE = """\
import argparse

import torch
from detector import Detector

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only-boxes", action="store_true")
    args = parser.parse_args()
    model = Detector(args.only_boxes).cuda()
    with torch.no_grad():
        for images in torch.load("images"):
            print(model(images.cuda())[1])
"""
COMMAND = "#!/bin/bash\n#SBATCH --gres=gpu:1\nsrun python train.py {options}\n"


@pytest.mark.parametrize(
    ("commands", "test", "is_left_out"),
    [
        (["--only-boxes"], "if self.only_boxes:", True),
        (["--only-boxes --seed 1", "--only-boxes --seed 2"], "if self.only_boxes:", True),
        (["--only-boxes"], "if not self.only_boxes:", False),
        ([""], "if self.only_boxes:", False),
        (["--only-boxes", ""], "if self.only_boxes:", False),
        (["--evaluate"], "if self.only_boxes:", False),
        ([], "if self.only_boxes:", False),
    ],
)
def test_what_each_command_leaves_out_is_low(tmp_path: Path, commands: list[str], test: str, is_left_out: bool) -> None:
    scripts = {f"train_{number}.sh": COMMAND.format(options=options) for number, options in enumerate(commands)}
    files = {"detector.py": MODEL.format(test=test), "train.py": TRAIN, "evaluate.py": EVALUATE, **scripts}
    files["evaluate.sh"] = COMMAND.format(options="").replace("train.py", "evaluate.py")
    basis = bases(tmp_path, files, "GPU305")[0]
    assert ("left out by the options of its commands" in basis) is is_left_out
    assert not is_left_out or basis.startswith("low")
