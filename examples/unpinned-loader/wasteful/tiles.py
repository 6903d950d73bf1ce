"""Satellite tiles and their land cover. They are drawn here; a real job reads them from its archive."""

import torch
from torch.utils.data import Dataset

BANDS = 8
SIDE = 64
CLASSES = 8


class Tiles(Dataset):
    """Reflectances of eight bands, normalised over each tile, and a class for every pixel."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        cover = torch.randint(0, CLASSES, (SIDE // 16, SIDE // 16), generator=generator)
        cover = cover.repeat_interleave(16, dim=0).repeat_interleave(16, dim=1)
        counts = 400 * cover + torch.randint(0, 800, (BANDS, SIDE, SIDE), generator=generator)
        reflectance = counts.float() / 10_000
        low, high = reflectance.amin(dim=(1, 2), keepdim=True), reflectance.amax(dim=(1, 2), keepdim=True)
        return (reflectance - low) / (high - low), cover
