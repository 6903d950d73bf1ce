"""What loading in the training process costs where the samples are files that the tree itself holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import IN_USE, bases, levels

_DATA = """\
import argparse
import glob
import os
import torch
from PIL import Image
from pathlib import Path
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

class Photos(Dataset):
    def __init__(self, root, transform=None):
        self.root = root
        LISTING

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return transform(Image.open(self.paths[index]).convert("RGB").resize((224, 224)))

def train(args):
    photos = Photos(args.data)
    loader = DataLoader(photos, batch_size=8, shuffle=True)
    for epoch in range(90):
        for images in loader:
            loss = model(images.cuda()).mean()
            loss.backward()
            optimizer.step()

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="photos/good")
    train(parser.parse_args())
"""
_BOTH = 'self.paths = sorted(glob.glob(os.path.join(root, "**", "*.[jJ]pg")) + glob.glob(f"{root}/**/*.png"))'
_LISTINGS = (
    _BOTH,
    'self.paths = list(Path(self.root).rglob("*.jpg"))',
    'self.paths = sorted(glob.glob("*.jpg", root_dir=root))',
    'self.paths = sorted(glob.glob("*", root_dir=self.root))',
    'self.paths = [os.path.join(root, name) for name in os.listdir(root) if name.endswith(".jpg")]',
    "self.paths = []\n        for name in sorted(os.listdir(root)):\n            self.paths.append(os.path.join(root, name))",
    "self.paths = []\n        for where, _, files in os.walk(root):\n            for name in files:\n"
    "                self.paths.append(os.path.join(where, name))",
)


def _tree(listing: str, photos: int, **others: str) -> dict[str, str]:
    files = {f"photos/good/{number}.jpg": f"{number}" for number in range(photos)}
    return {"train.py": _DATA.replace("LISTING", listing), **files, **others}


@pytest.mark.parametrize("listing", _LISTINGS)
def test_files_of_the_default_folder_are_counted(tmp_path: Path, listing: str) -> None:
    (found,) = bases(tmp_path / "two", _tree(listing, 16), "GPU303")
    assert found.startswith("low") and "workers start in the time of an epoch" in found
    assert levels(tmp_path / "ten", _tree(listing, 80), "GPU303") == ["low"]
    assert levels(tmp_path / "fifty", _tree(listing, 400), "GPU303") == ["high"]


@pytest.mark.parametrize("given", ["args.data", "missing"])
def test_modules_beside_the_data_set_are_no_samples(tmp_path: Path, given: str) -> None:
    """A list of another folder, which the tree does not hold, counts no files of the program's own."""
    listing = 'self.paths = sorted(glob.glob("*", root_dir=Path(root) / "images"))'
    program = _DATA.replace("LISTING", listing).replace("args.data", given)
    files = {"src/train.py": program, **{f"src/part{number}.py": "" for number in range(12)}}
    assert levels(tmp_path, files, "GPU303") == ["high"]


_NAMES = "self.paths = [line.strip() for line in open(root)]"
_LISTS = (
    _NAMES,
    "names = open(root).read().splitlines()\n        self.paths = [f'photos/{name}' for name in names]",
    "self.paths = []\n        with open(root) as lines:\n            for line in lines:\n"
    "                self.paths.append(line.strip())",
    "lines = open(root, 'r')\n        paths = []\n        for line in lines:\n            paths.append(line.strip())\n"
    "        self.paths = paths",
    "self.paths = list(np.loadtxt(root, dtype=str))",
    "self.paths = pd.read_csv(root)",
)


def _listed(listing: str, lines: int, given: str = "lists/train.txt", at: str = "lists/train.txt") -> dict[str, str]:
    program = _DATA.replace("LISTING", listing).replace("photos/good", given)
    program = program.replace("import torch\n", "import numpy as np\nimport pandas as pd\nimport torch\n", 1)
    return {"train.py": program, at: "".join(f"{number}.jpg\n\n" for number in range(lines))}


@pytest.mark.parametrize("listing", _LISTS)
def test_lines_of_a_list_of_the_tree_are_counted(tmp_path: Path, listing: str) -> None:
    (found,) = bases(tmp_path / "two", _listed(listing, 16), "GPU303")
    assert found.startswith("low") and "workers start in the time of an epoch" in found
    assert levels(tmp_path / "many", _listed(listing, 4000), "GPU303") == ["high"]


@pytest.mark.parametrize(
    ("given", "at", "level"),
    [
        ("D:/photos/train/train.txt", "files/train.txt", "low"),
        ("/home/me/photos/train.txt", "files/train.txt", "low"),
        ("/home/me/photos/train.txt", "files/val.txt", "high"),
        ("train.txt", "files/train.txt", "high"),
        ("lists/train.names", "lists/train.names", "high"),
    ],
)
def test_a_list_on_the_machine_of_the_author_is_that_of_the_tree(
    tmp_path: Path, given: str, at: str, level: str
) -> None:
    assert levels(tmp_path, _listed(_NAMES, 16, given, at), "GPU303") == [level]


def test_two_lists_of_a_name_say_nothing(tmp_path: Path) -> None:
    files = {**_listed(_NAMES, 16, "/home/me/train.txt", "first/train.txt"), "second/train.txt": "1.jpg\n"}
    assert levels(tmp_path, files, "GPU303") == ["high"]


def test_a_list_that_is_to_be_filled_says_nothing(tmp_path: Path) -> None:
    files = {**_listed(_NAMES, 16), "README.md": "Put the names of your photos into lists/train.txt.\n"}
    files["train.py"] = IN_USE + files["train.py"]
    assert levels(tmp_path, files, "GPU303") == ["high"]


def test_a_folder_of_classes_is_counted(tmp_path: Path) -> None:
    text = _DATA.replace("LISTING", "pass").replace(
        "Photos(args.data)", 'datasets.ImageFolder(os.path.join(args.data, "train"), transforms.Resize(224))'
    )
    few = {f"photos/good/train/{number % 2}/{number}.jpg": "" for number in range(12)}
    many = {f"photos/good/train/{number % 2}/{number}.jpg": "" for number in range(400)}
    examples = {f"photos/good/train/{number}/{number}.jpg": "" for number in range(3)}
    assert levels(tmp_path / "few", {"train.py": text, **few}, "GPU303") == ["low"]
    assert levels(tmp_path / "examples", {"train.py": text, **examples}, "GPU303") == ["medium"]
    assert levels(tmp_path / "many", {"train.py": text, **many}, "GPU303") == ["medium"]


@pytest.mark.parametrize(
    "others",
    [
        {"photos/good/.gitkeep": ""},
        {"photos/good/README.md": "ask us for the rest"},
        {".gitignore": "photos/\n"},
        {".gitignore": "*.jpg\n"},
        {"README.md": "1. Download the pictures and unpack them into `photos/good`.\n"},
        {"job.sh": "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --data /scratch/photos\n"},
    ],
)
def test_a_folder_whose_files_come_from_elsewhere_says_nothing(tmp_path: Path, others: dict[str, str]) -> None:
    files = _tree(_BOTH, 7)
    assert levels(tmp_path, {**files, "train.py": IN_USE + files["train.py"], **others}, "GPU303") == ["high"]


def test_an_empty_or_unknown_folder_says_nothing(tmp_path: Path) -> None:
    assert levels(tmp_path / "empty", _tree(_BOTH, 0), "GPU303") == ["high"]
    elsewhere = _tree(_BOTH, 7)
    elsewhere["train.py"] = elsewhere["train.py"].replace('default="photos/good"', "required=True")
    assert levels(tmp_path / "required", elsewhere, "GPU303") == ["high"]


_GRAPHS = """\
import os
import pandas as pd
import torch
from torch_geometric.data import Data, Dataset
from torch_geometric.loader import DataLoader
from net import Net

class Prices(Dataset):
    def __init__(self, root="prices"):
        self.root = root
        self._names = []
        super().__init__(root)

    @property
    def raw_dir(self):
        return os.path.join(self.root, "raw")

    @property
    def raw_file_names(self):
        FILES

    def process(self):
        for number, name in enumerate(self.raw_file_names):
            rows = pd.read_csv(os.path.join(self.raw_dir, name))
            torch.save(Data(x=torch.tensor(rows.values)), f"prices/processed/{number}.pt")
            self._names.append(f"{number}.pt")

    def len(self):
        return len(self._names)

    def get(self, index):
        return torch.load(os.path.join("prices/processed", self._names[index]))

prices = Prices()
prices.process()
loader = DataLoader(prices, batch_size=32, shuffle=True)
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(900):
    for batch in loader:
        loss = model(batch.cuda()).mean()
        loss.backward()
        optimizer.step()
"""
_PRICES = "return [name for name in os.listdir(self.raw_dir) if name.endswith('.csv')]"


@pytest.mark.parametrize(
    ("names", "count", "few"),
    [
        (_PRICES, 8, True),
        ("return sorted(os.listdir(self.raw_dir))", 8, True),
        ('"""The files."""\n        return os.listdir(self.raw_dir)', 8, True),
        (_PRICES, 1200, False),
        ("return read_names(self.raw_dir)", 8, False),
        ("if self.old:\n            return os.listdir(self.raw_dir)\n        return find(self.root)", 8, False),
    ],
)
def test_graphs_of_the_files_that_a_property_lists_are_counted(
    tmp_path: Path, names: str, count: int, few: bool
) -> None:
    rows = {f"prices/raw/{number}.csv": "open,close\n1,2\n" for number in range(count)}
    found = levels(tmp_path, {"train.py": _GRAPHS.replace("FILES", names), "net.py": "", **rows}, "GPU303")
    assert found in ([], ["low"]) if few else found[0] != "low"
