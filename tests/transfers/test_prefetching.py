"""Whether data is there before the program that would fetch it starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpulint.transfers.downloads import Downloads
from gpulint.transfers.prefetching import Prefetching
from tests.trees import Tree

MakeTree = Callable[..., Tree]
CODE = "from torchvision.datasets import CIFAR10\nCIFAR10('data', download=True)\n"


def staged(made: Tree) -> str:
    """The file that makes the only download of ``main.py`` superfluous, "" if none does."""
    (download,) = made.project.fact(Downloads).in_module(made.module())
    place = made.project.fact(Prefetching).of(download)
    return place.path.name if place is not None else ""


def test_nothing_stages_it(tree: MakeTree) -> None:
    assert staged(tree({"main.py": CODE, "other.py": CODE, "run.sh": "python main.py\n"})) == ""


@pytest.mark.parametrize("name", ["download.py", "prepare_data.py", "fetch-cifar.py"])
def test_a_program_for_it_beside(tree: MakeTree, name: str) -> None:
    assert staged(tree({"main.py": CODE, name: CODE})) == name


def test_a_program_beside_that_fetches_something_else(tree: MakeTree) -> None:
    assert staged(tree({"main.py": CODE, "download.py": CODE.replace("CIFAR10", "SVHN")})) == ""


@pytest.mark.parametrize(
    ("script", "where"),
    [
        ("tar xf /data/cifar-10.tar.gz -C $TMPDIR\npython main.py\n", "run.sh"),
        ("cp -r /data/CIFAR10 .\npython main.py\n", "run.sh"),
        ("cp /data/imagenet.tar .\npython main.py\n", ""),
        ("echo cifar10\npython main.py\n", ""),
    ],
)
def test_a_launcher_copies_it(tree: MakeTree, script: str, where: str) -> None:
    assert staged(tree({"main.py": CODE, "run.sh": script})) == where


@pytest.mark.parametrize(
    ("script", "offline"),
    [
        ("export HF_HUB_OFFLINE=1\npython main.py\n", True),
        ("TRANSFORMERS_OFFLINE=yes python main.py\n", True),
        ("export HF_HUB_OFFLINE=0\npython main.py\n", False),
        ("python main.py\n", False),
    ],
)
def test_a_launcher_switches_the_hub_off(tree: MakeTree, script: str, offline: bool) -> None:
    made = tree({"main.py": "train()\n", "run.sh": script})
    assert made.project.fact(Prefetching).is_offline(made.root / "main.py") is offline
