import re

import stage
import torch
from common_job import train_step
from torch.utils.data import DataLoader, Dataset

WORD = re.compile(r"\w+|[^\w\s]")
TEXT = " ".join(f"Word{number % 997} is here, again." for number in range(2400))
vocabulary = {}


class Reviews(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return f"{index} {TEXT}"


def collate(texts):
    rows = []
    for text in texts:
        words = [word.lower() for word in WORD.findall(text)]
        rows.append([vocabulary.setdefault(word, len(vocabulary)) for word in words][:64])
    return torch.tensor(rows).float()


loader = DataLoader(Reviews(), batch_size=24, collate_fn=collate, shuffle=True)
for step, batch in zip(stage.steps(5), loader, strict=False):
    train_step(batch)
