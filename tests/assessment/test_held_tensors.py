"""What loaders of samples that data sets hold in memory cost without workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, TRAINING, levels

FACES = """\
import os
from PIL import Image
from torchvision import transforms

class Faces(Dataset):
    def __init__(self, root):
        prepare = transforms.Compose([transforms.Resize((64, 64)), transforms.ToTensor()])
        self.images = []
        for name in sorted(os.listdir(root)):
            image = Image.open(os.path.join(root, name)).convert("RGB")
            self.images.append({held})
        self.augment = {augment}

    def __getitem__(self, index):
        return self.augment(self.images[index])

    def __len__(self):
        return len(self.images)

loader = DataLoader(Faces("faces"), batch_size=128, shuffle=True)
"""
TENSOR, FLIP = "prepare(image)", "transforms.RandomHorizontalFlip()"


@pytest.mark.parametrize(
    ("held", "augment", "level"),
    [
        (TENSOR, FLIP, "low"),
        (TENSOR, f"transforms.Compose([{FLIP}, transforms.RandomCrop(56)])", "low"),
        (TENSOR, f"transforms.Compose([{FLIP}, transforms.RandomRotation(9)])", "high"),
        ("image", f"transforms.Compose([{FLIP}, transforms.ToTensor()])", "low"),
    ],
)
def test_turning_held_images_is_work_for_workers_and_flipping_is_none(
    tmp_path: Path, held: str, augment: str, level: str
) -> None:
    program = HEAD + FACES.format(held=held, augment=augment) + TRAINING
    assert levels(tmp_path, {"net.py": "", "train.py": program}, "GPU303") == [level]
