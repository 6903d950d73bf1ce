import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path

import stage
import torch
from common_job import train_step
from torch.utils.data import DataLoader, Dataset


def slow_file(path):
    """A file whose storage needs three hundredths of a second for each read."""
    while True:
        with contextlib.suppress(BrokenPipeError), open(path, "wb", buffering=0) as file:
            time.sleep(0.03)
            file.write(bytes(1024))
        time.sleep(0.005)


class Frames(Dataset):
    """One small file for each sample, in one folder for each class."""

    def __init__(self, root):
        self.paths = sorted(root.glob("*/*.raw"))

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        content = self.paths[index % len(self.paths)].read_bytes()
        return torch.frombuffer(bytearray(content[:256].ljust(256, b"\0")), dtype=torch.float32)


if __name__ == "__main__":
    root = Path(tempfile.mkdtemp())
    for number in range(40):
        path = root / f"class{number % 4}" / f"{number:05}.raw"
        path.parent.mkdir(exist_ok=True)
        os.mkfifo(path)
        threading.Thread(target=slow_file, args=(path,), daemon=True).start()
    loader = DataLoader(Frames(root), batch_size=8, num_workers=2, shuffle=True)
    for step, batch in zip(stage.steps(6), loader, strict=False):
        train_step(batch)
