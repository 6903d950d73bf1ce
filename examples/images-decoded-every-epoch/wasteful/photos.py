"""Photographs in one folder per class."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

SIDE = 96


class Photos(Dataset):
    """Decodes, crops and resizes a photograph every time that it is asked for."""

    def __init__(self, folder: Path):
        self.files = sorted(folder.glob("*/*.jpg"))
        if not self.files:
            raise SystemExit(f"no photographs in {folder}; make_images.py draws some")
        self.classes = sorted({file.parent.name for file in self.files})

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file = self.files[index]
        image = Image.open(file).convert("RGB")
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        image = image.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        return pixels, self.classes.index(file.parent.name)
