"""Reviews as rows of token ids. They are drawn here; a real job reads them from its tokenised corpus."""

import torch
from torch.utils.data import Dataset

VOCABULARY = 8192
LENGTH = 64
PADDING = 0


class Reviews(Dataset):
    """``count`` reviews; the first eight words of a good one come from other words than those of a bad one."""

    def __init__(self, count: int, seed: int):
        self.count = count
        self.seed = seed

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(self.seed + index)
        tokens = torch.randint(1000, VOCABULARY, (LENGTH,), generator=generator)
        good = index % 2
        tokens[:8] = torch.randint(1 + 400 * good, 401 + 400 * good, (8,), generator=generator)
        words = int(torch.randint(16, LENGTH + 1, (), generator=generator))
        tokens[words:] = PADDING
        return tokens, good
