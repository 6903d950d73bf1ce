"""What it costs that the process of a trainer makes its batches itself, by the arguments of the trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import levels

TRAINER = """\
from PIL import Image
from torch.utils.data import Dataset
from torchvision.transforms import RandomResizedCrop
from transformers import AutoModelForImageClassification, Trainer, TrainingArguments

crop = RandomResizedCrop(224)

class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        return {"pixel_values": crop(Image.open(self.paths[index]))}

model = AutoModelForImageClassification.from_pretrained("{model}").cuda()
arguments = TrainingArguments("out"{given})
Trainer(model, arguments, train_dataset=Photos(paths)).train()
"""


@pytest.mark.parametrize(
    ("given", "model", "level"),
    [
        ("", "microsoft/resnet-50", "high"),
        (", per_device_train_batch_size=64", "microsoft/resnet-50", "high"),
        (", per_device_train_batch_size=read()", "microsoft/resnet-50", "high"),
        (", per_device_train_batch_size=2", "microsoft/resnet-50", "medium"),
        (", per_device_train_batch_size=2, gradient_accumulation_steps=16", "microsoft/resnet-50", "high"),
        (", per_device_train_batch_size=64", "Salesforce/blip2-opt-2.7b", "medium"),
    ],
)
def test_a_trainer_makes_batches_of_the_size_in_its_arguments(
    tmp_path: Path, given: str, model: str, level: str
) -> None:
    """The work for few samples is little beside a step, and so may be that for many beside one of a large model."""
    text = TRAINER.replace("{model}", model).replace("{given}", given)
    assert levels(tmp_path, {"train.py": text}, "GPU303") == [level]
