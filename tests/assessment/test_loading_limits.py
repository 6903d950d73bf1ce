"""Copies of batches that workers take far longer to make."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, TRAINING, impacts

DATA = """\
import albumentations as A
import cv2
import torchio
from batchgenerators.transforms.spatial_transforms import SpatialTransform
from monai.transforms import Rand2DElastic
from scipy.ndimage import map_coordinates
from torchvision import transforms

class Views:
    def __init__(self, size):
        self.chain = transforms.Compose([SpatialTransform(patch_size=size, do_elastic_deform=True), transforms.ToTensor()])

    def __call__(self, image):
        return self.chain(image)


class Photos(Dataset):
    def __init__(self, paths, transform):
        self.paths, self.transform = paths, transform

    def __getitem__(self, index):
        image = cv2.cvtColor(cv2.imread(self.paths[index]), cv2.COLOR_BGR2RGB)
        image = cv2.resize(image, (224, 224))
        {own}
        return self.transform(image), self.labels[index]


chain = {chain}
loader = DataLoader(Photos(paths, chain), batch_size=256, shuffle=True, num_workers={workers})
"""
PLAIN = "transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])"


def _level(folder: Path, chain: str, own: str = "pass", workers: str = "4") -> tuple[str, str]:
    data = DATA.format(chain=chain, own=own, workers=workers)
    (found,) = impacts(folder, {"net.py": "", "train.py": HEAD + data + TRAINING})["GPU301"]
    return str(found.level), found.basis


@pytest.mark.parametrize(
    ("chain", "own"),
    [
        ("Views(224)", "pass"),
        ("A.Compose([A.HorizontalFlip(), A.ElasticTransform(alpha=120, p=0.5)])", "pass"),
        ("transforms.Compose([transforms.ElasticTransform(alpha=50.0), transforms.ToTensor()])", "pass"),
        ("transforms.Compose([Rand2DElastic((20, 20), (1, 2)), transforms.ToTensor()])", "pass"),
        (PLAIN, "image = map_coordinates(image, self.grid)"),
    ],
)
def test_pinning_gains_little_beside_elastic_deformations(tmp_path: Path, chain: str, own: str) -> None:
    level, basis = _level(tmp_path, chain, own)
    assert level == "low"
    assert "its workers take far longer for a batch" in basis


@pytest.mark.parametrize(
    ("chain", "workers"),
    [
        (PLAIN, "4"),
        ("A.Compose([A.HorizontalFlip(), A.RandomBrightnessContrast()])", "4"),
        ("transforms.Compose([SpatialTransform(do_elastic_deform=False), transforms.ToTensor()])", "4"),
        ("Views(224)", "32"),  # as many workers keep up
    ],
)
def test_usual_images_are_pinned(tmp_path: Path, chain: str, workers: str) -> None:
    level, basis = _level(tmp_path, chain, workers=workers)
    assert level == "medium", basis
