"""Samples that are drawn with a random state that the program seeds: workers would draw others in each run unless
PyTorch is seeded too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
IMPORTS
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor

SEEDS


class Pairs(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    @staticmethod
    def in_order(first, second):
        return (first, second) if DRAW else (second, first)

    def __getitem__(self, index):
        one = to_tensor(Image.open(self.files[index]))
        return torch.cat(Pairs.in_order(one, one.flip(0)))


def main(files):
    model = torch.load("model.pt").cuda()
    loader = DataLoader(Pairs(files), batch_size=16OPTIONS)
    with torch.no_grad():
        for images in loader:
            print(model(images.cuda()).argmax())


if __name__ == "__main__":
    main(open("files.txt").read().split())
"""
PYTHON, NUMPY = ("import random", "random.random() < 0.5"), ("import numpy as np", "np.random.rand() < 0.5")
REASON = "it does not seed PyTorch"


def program(library: tuple[str, str], seeds: str, options: str = "") -> str:
    imports, draw = library
    filled = PROGRAM.replace("IMPORTS", imports).replace("SEEDS", seeds).replace("DRAW", draw)
    return filled.replace("OPTIONS", options)


@pytest.mark.parametrize(
    ("library", "seeds", "options"),
    [
        (PYTHON, "random.seed(42)", ""),
        (PYTHON, "random.seed(42)", ", shuffle=False, num_workers=0"),
        (NUMPY, "np.random.seed(42)", ""),
    ],
)
def test_draws_that_only_other_libraries_seed_stay_in_the_process(
    job: MakeJob, library: tuple[str, str], seeds: str, options: str
) -> None:
    assert REASON in job({"score.py": program(library, seeds, options)}).refusal("GPU303")


def test_seeds_of_a_module_of_the_tree_count(job: MakeJob) -> None:
    files = {"seeds.py": "import random\n\ndef fix(seed):\n    random.seed(seed)\n"}
    made = job({"score.py": program(PYTHON, "from seeds import fix\nfix(1)"), **files})
    assert REASON in made.refusal("GPU303")


@pytest.mark.parametrize(
    ("library", "seeds", "options"),
    [
        (PYTHON, "random.seed(42)\ntorch.manual_seed(42)", ""),
        (PYTHON, "random.seed(42)\nfrom transformers import set_seed\nset_seed(42)", ""),
        (PYTHON, "", ""),  # each run draws other numbers as it is
        (NUMPY, "import random\nrandom.seed(42)", ""),
        (PYTHON, "random.seed(42)", ", shuffle=True"),
        (PYTHON, "random.seed(42)", ", generator=torch.Generator().manual_seed(1)"),
        (PYTHON, "random.seed(42)", ", worker_init_fn=random.seed"),
    ],
)
def test_draws_that_workers_leave_as_they_are_get_workers(
    job: MakeJob, library: tuple[str, str], seeds: str, options: str
) -> None:
    made = job({"score.py": program(library, seeds, options)})
    made.repair("GPU303")
    assert "num_workers=4" in made.text("score.py")


def test_samples_that_seed_themselves_get_workers(job: MakeJob) -> None:
    text = program(PYTHON, "random.seed(42)").replace("        one =", "        random.seed(index)\n        one =")
    made = job({"score.py": text})
    made.repair("GPU303")
    assert "num_workers=4" in made.text("score.py")


def test_settings_of_workers_stay_where_draws_would_differ(job: MakeJob) -> None:
    text = program(
        PYTHON, "random.seed(42)\nimport yaml\ncfg = yaml.safe_load(open('conf.yaml'))", ", num_workers=WORKERS"
    )
    files = {"score.py": text.replace("WORKERS", "cfg['num_workers']"), "conf.yaml": "batch: 16\nnum_workers: 0\n"}
    assert REASON in job(files).refusal("GPU303")
