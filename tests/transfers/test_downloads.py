"""What a program fetches from outside, and whether it is there before the program starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpulint.transfers.downloads import Downloads
from tests.trees import Tree

MakeTree = Callable[..., Tree]


def found(made: Tree, module: str = "main.py") -> list[tuple[str, str]]:
    return [(item.name, item.what) for item in made.project.fact(Downloads).in_module(made.module(module))]


@pytest.mark.parametrize(
    ("code", "download"),
    [
        ("from transformers import AutoModel\nAutoModel.from_pretrained('org/name')", ("AutoModel.from_pretrained", "org/name")),
        ("from datasets import load_dataset\nload_dataset('glue', 'mrpc')", ("load_dataset", "glue")),
        ("from torchvision.datasets import CIFAR10\nCIFAR10('data', download=True)", ("CIFAR10", "CIFAR10")),
        ("import timm\ntimm.create_model('resnet50', pretrained=True)", ("timm.create_model", "")),
        ("import os\nos.system('wget https://host/a.zip')", ("wget", "")),
        ("import subprocess\nsubprocess.run(['curl', '-O', url])", ("curl", "")),
        ("import urllib.request\nurllib.request.urlretrieve('https://host/a', 'a')", ("request.urlretrieve", "https://host/a")),
    ],
)  # fmt: skip
def test_a_download_and_what_it_fetches(tree: MakeTree, code: str, download: tuple[str, str]) -> None:
    assert found(tree(code)) == [download]


@pytest.mark.parametrize(
    "code",
    [
        "from transformers import AutoModel\nAutoModel.from_pretrained('./checkpoints/last')",
        "from transformers import AutoModel\nAutoModel.from_pretrained('org/name', local_files_only=True)",
        "from transformers import AutoModel\nAutoModel.from_pretrained(path)",
        "import os\nos.environ['HF_HUB_OFFLINE'] = '1'\nfrom transformers import AutoModel\nAutoModel.from_pretrained('org/name')",
        "from datasets import load_dataset\nload_dataset('json', data_files='a.json')",
        "from torchvision.datasets import CIFAR10\nCIFAR10('data', download=False)",
        "import timm\ntimm.create_model('resnet50', pretrained=False)",
        "import os\nos.system('cat wget.log')",
        "settings.get('https://host/a')",
    ],
)  # fmt: skip
def test_what_fetches_nothing(tree: MakeTree, code: str) -> None:
    assert found(tree(code)) == []


def test_a_folder_of_the_tree_is_no_hub_name(tree: MakeTree) -> None:
    code = "from transformers import AutoModel\nAutoModel.from_pretrained('org/name')\n"
    assert found(tree({"main.py": code, "org/name/config.json": "{}"})) == []


def test_a_helper_of_another_module_is_named_where_it_is_called(tree: MakeTree) -> None:
    made = tree(
        {
            "main.py": "from helpers import download_data\ndownload_data()\n",
            "helpers.py": "import os\ndef download_data():\n    os.system('wget https://host/a.zip')\n",
        }
    )
    assert [name for name, _ in found(made)] == ["download_data"]
    assert found(made, "helpers.py") == []
