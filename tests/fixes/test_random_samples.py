"""What fixes that give loaders workers say of random numbers, and of the programs that start them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
import cv2
import nibabel as nib
import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T
from torchvision.transforms import functional as F
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
prepare = T.Compose([T.{module}, T.ToTensor()])


def load_sample(path):
    return F.normalize(F.to_tensor(Image.open(path)), [0.5], [0.5])


def read_scan(path):
    return F.rotate(Image.open(path), np.random.uniform(9))


class Scans(Dataset):
    def __init__(self, table, transform=None):
        self.dataset = pd.read_csv(table)
        self.mask_paths = sorted(self.dataset["mask"])
        self.transform = transform

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        return {sample}


def main():
    steps = [T.{passed}, T.ToTensor()]
    loader = DataLoader(Scans("scans.csv", T.Compose(steps)), batch_size=64, shuffle=True)
    for epoch in range(90):
        for images in loader:
            criterion(model(images.cuda())).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
IMAGE = "Image.open(self.mask_paths[index])"


def described(job: MakeJob, sample: str, passed: str = "Resize(64)", module: str = "Resize(64)") -> str:
    program = PROGRAM.format(sample=sample, passed=passed, module=module)
    description = job({"train.py": program}).offer("GPU303").description
    assert isinstance(description, str)
    return description


@pytest.mark.parametrize(
    ("sample", "steps"),
    [
        (f"self.transform({IMAGE})", {"passed": "RandomRotation(9)"}),
        (f"prepare({IMAGE})", {"module": "RandomRotation(9)"}),
        (f"np.random.permutation(np.array({IMAGE}))", {}),
        (f"self.transform(other_steps({IMAGE}).augmented())", {}),
        (f"F.center_crop({IMAGE}, [np.random.randint(64)])", {}),
        ("read_scan(self.mask_paths[index])", {}),
        ("library.draw_sample(self.mask_paths[index])", {}),
    ],
)
def test_samples_of_random_numbers_are_said_to_change(job: MakeJob, sample: str, steps: dict[str, str]) -> None:
    assert "which have their own random states and stay alive" in described(job, sample, **steps)


@pytest.mark.parametrize(
    "sample",
    [
        f"self.transform({IMAGE})",
        f"prepare({IMAGE})",
        "tokenizer(self.dataset['text'][index], np.array(Image.open(self.mask_paths[index])))",
        "torch.from_numpy(nib.load(self.mask_paths[index]).get_fdata())",
        f"F.center_crop({IMAGE}, [64, 64])",
        f"torch.from_numpy(cv2.flip(np.array({IMAGE}), 1))",
        f"library.upsampled({IMAGE}).resample(16000)",
        "load_sample(self.mask_paths[index])",
        "torch.from_numpy(cv2.resize(cv2.imread(self.dataset['scan'][index]), (64, 64))).permute(2, 0, 1)",
    ],
)
def test_samples_without_random_numbers_stay_the_same(job: MakeJob, sample: str) -> None:
    description = described(job, sample)
    assert "random states" not in description
    assert "which stay alive, so later epochs are shuffled differently" in description


@pytest.mark.parametrize(
    ("collate", "draws"),
    [
        ("lambda batch: torch.stack(batch)", False),
        ("lambda batch: mixup(batch)", True),
        ("collates[0]", True),
    ],
)
def test_what_puts_samples_together_may_draw(job: MakeJob, collate: str, draws: bool) -> None:
    program = PROGRAM.format(sample=f"self.transform({IMAGE})", passed="Resize(64)", module="Resize(64)")
    program = program.replace("shuffle=True", f"shuffle=True, collate_fn={collate}")
    assert ("random states" in job({"train.py": program}).offer("GPU303").description) is draws


TRAINER = """\
import librosa
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, Wav2Vec2FeatureExtractor, Wav2Vec2ForSequenceClassification


class Speech(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.extract = Wav2Vec2FeatureExtractor.from_pretrained("facebook/wav2vec2-base")

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        sound = librosa.load(self.paths[index], sr=16000)[0]
        return {{"input_values": self.extract(sound, sampling_rate=16000).input_values[0]}}


def main(folder="speech"):
    model = Wav2Vec2ForSequenceClassification.from_pretrained("facebook/wav2vec2-base")
    args = TrainingArguments("out", per_device_train_batch_size=8, num_train_epochs=10, fp16=True)
    Trainer(model, args, train_dataset=Speech(sorted(listed(folder)))).train()


{start}
"""


@pytest.mark.parametrize(("start", "needs"), [("main()", True), ("if __name__ == '__main__':\n    main()", False)])
def test_a_trainer_needs_a_main_guard_as_well(job: MakeJob, start: str, needs: bool) -> None:
    description = job({"train.py": TRAINER.format(start=start)}).offer("GPU303").description
    assert ("an `if __name__ == '__main__'` where processes are spawned" in description) is needs


def test_a_trainer_on_windows_gets_its_guard_first(job: MakeJob) -> None:
    program = TRAINER.format(start=r"main('D:\\speech\\train')")
    assert "without `if __name__ == '__main__'`" in job({"train.py": program}).refusal("GPU303")
