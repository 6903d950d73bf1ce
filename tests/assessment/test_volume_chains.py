"""Files of volumes, as the transforms tell that cut parts of three dimensions out of them (GPU303)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.test_sample_work import found

HEARTS = """\
import h5py
from monai import transforms
{before}
def read_h5(path):
    data = h5py.File(path, "r")
    return data["image"][:], data["label"][:]

class Hearts(Dataset):
    def __init__(self, names):
        self.names = names
        self.transforms = transforms.Compose([{steps}])

    def __getitem__(self, index):
        image, label = read_h5(self.names[index])
        return self.transforms({{"image": image, "label": label}})

loader = DataLoader(Hearts(names), batch_size=2, shuffle=True)
"""


@pytest.mark.parametrize(
    ("steps", "before"),
    [
        ("transforms.RandCropByPosNegLabeld(keys=['image'], label_key='label', spatial_size=(48, 48, 48))", ""),
        ("transforms.RandSpatialCropSamplesd(['image'], [96, 96, 96], 4)", ""),
        ("transforms.SpatialPadd(keys=['image'], spatial_size=SIZE)", "SIZE = (112, 112, 80)"),
        ("transforms.Spacingd(['image'], pixdim=(1.5, 1.5, 2.0))", ""),
        ("RandomCrop((112, 112, 80)), ToTensor()", "from crops import RandomCrop, ToTensor"),
    ],
)
def test_files_of_which_parts_of_three_dimensions_are_cut_are_volumes(tmp_path: Path, steps: str, before: str) -> None:
    assert "volume reading" in found(tmp_path, HEARTS.format(steps=steps, before=before))


@pytest.mark.parametrize(
    "steps",
    [
        "transforms.RandSpatialCropd(['image'], roi_size=(256, 256))",
        "transforms.Resized(['image'], spatial_size=(3, 224, 224))",
        "transforms.RandFlipd(['image'], spatial_axis=0)",
        "transforms.NormalizeIntensityd(['image'], (120, 118, 104), (58, 57, 59))",
    ],
)
def test_files_of_images_are_no_volumes(tmp_path: Path, steps: str) -> None:
    basis = found(tmp_path, HEARTS.format(steps=steps, before=""))
    assert "volume" not in basis and "file reading" in basis
