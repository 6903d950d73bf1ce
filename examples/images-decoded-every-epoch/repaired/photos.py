"""Photographs that preprocess.py has decoded, cropped and resized."""

import json
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Photos(Dataset):
    """Rows of one array on disk: an item is a copy of a few kilobytes."""

    def __init__(self, folder: Path):
        if not (folder / "pixels.npy").exists():
            raise SystemExit(f"no pixels in {folder}; preprocess.py makes them")
        self.pixels = np.load(folder / "pixels.npy", mmap_mode="r")
        self.labels = np.load(folder / "labels.npy")
        self.classes = json.loads((folder / "classes.json").read_text())

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(np.array(self.pixels[index])), int(self.labels[index])
