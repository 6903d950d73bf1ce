"""Data sets that others take their samples from."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import indent

import pytest

from gpulint.placement.inner_sets import sets_within
from gpulint.workload.taken_samples import inner_sets
from gpulint.workspace.module_index import NodeRef
from tests.trees import Tree

HEAD = """\
from torch.utils.data import ConcatDataset, Dataset, Subset, random_split
from torchvision.datasets import MNIST, ImageFolder

class Outer(Dataset):
    def __init__(self, base=None, other=None):
        {init}

    def __getitem__(self, index):
        {get}

train = {made}
"""


def made_by(folder: Path, init: str, get: str, made: str, kept: bool = True) -> list[str]:
    get, *helpers = get.split("\n\n")
    after = "".join(indent(f"\n\n{helper}", "    ") for helper in helpers)
    code = HEAD.format(init=init.replace("\n", "\n        "), get=get.replace("\n", "\n        ") + after, made=made)
    tree = Tree(folder, {"main.py": code})
    module = tree.module()
    (call,) = (part.value for part in module.syntax.of(ast.Assign) if ast.unparse(part.targets[0]) == "train")
    source = NodeRef(module, call)
    found = sets_within(tree.project, [source])[1:] if kept else inner_sets(tree.project, source)
    return sorted(ast.unparse(one.node) for one in found)


@pytest.mark.parametrize(
    ("init", "get", "made", "inner"),
    [
        ("self.base = base", "return self.base[index]", "Outer(ImageFolder('a'))", ["ImageFolder('a')"]),
        ("self.base = base", "return self.base[index]", "Outer(base=ImageFolder('a'))", ["ImageFolder('a')"]),
        ("self.base = base", "base = self.base\nreturn base[index]", "Outer(ImageFolder('a'))", ["ImageFolder('a')"]),
        ("self.base = base", "return self.base.__getitem__(index)", "Outer(MNIST('a'))", ["MNIST('a')"]),
        ("self.base = base", "return self.base[index]", "Outer(Subset(MNIST('a'), [1]))", ["MNIST('a')"]),
        ("self.base = Subset(base, [1])", "return self.base[index]", "Outer(MNIST('a'))", ["MNIST('a')"]),
        ("self.base = base", "return self.base[index]", "Outer(random_split(MNIST('a'), [1, 2])[0])", ["MNIST('a')"]),
        (
            "self.base = base",
            "return self.base[index]",
            "Outer(ConcatDataset([MNIST('a'), MNIST('b')]))",
            ["MNIST('a')", "MNIST('b')"],
        ),
        ("self.base = base", "return self.base[index]", "Outer(MNIST('a') + MNIST('b'))", ["MNIST('a')", "MNIST('b')"]),
        ("self.base = base", "return self.base[0][index]", "Outer([MNIST('a')])", ["MNIST('a')"]),
        ("self.base = base", "return self.base[index % 2][index]", "Outer({0: MNIST('a')})", ["MNIST('a')"]),
        ("self.base = base", "return [one[index] for one in self.base]", "Outer([MNIST('a')])", ["MNIST('a')"]),
        (
            "self.parts = {}\nself.parts['a'] = base",
            "return {name: part[index] for name, part in self.parts.items()}",
            "Outer(MNIST('a'))",
            ["MNIST('a')"],
        ),
        (
            "self.parts = [MNIST(name) for name in base]",
            "return self.parts[index % 2][index]",
            "Outer(['a', 'b'])",
            ["MNIST(name)"],
        ),
        ("self.base, self.other = base, other", "return self.other[index]", "Outer(1, MNIST('a'))", ["MNIST('a')"]),
        (
            "self.base = base",
            "return self.base[index]",
            "Outer(Outer(MNIST('a')))",
            ["MNIST('a')", "Outer(MNIST('a'))"],
        ),
        ("self.base = base", "return len(self.base)", "Outer(MNIST('a'))", []),
        ("self.base = base", "return self.base.targets[index]", "Outer(MNIST('a'))", []),
        ("self.base = [one for one in base]", "return self.base[index]", "Outer(MNIST('a'))", []),
        ("self.base = [base[i] for i in range(9)]", "return self.base[index][0]", "Outer(MNIST('a'))", []),
        ("self.base = list(base)", "return self.base[index]", "Outer(MNIST('a'))", []),
        ("self.base = base", "return self.base[index]", "Outer([1, 2])", []),
        ("self.base = base", "return self.base[index]", "Outer(open('a').read())", []),
    ],
)
def test_data_sets_within_others_are_found(tmp_path: Path, init: str, get: str, made: str, inner: list[str]) -> None:
    assert made_by(tmp_path, init, get, made) == inner


@pytest.mark.parametrize(
    ("init", "get", "inner"),
    [
        (
            "self.base = base\nself.rows = [base[i] for i in range(9)]",
            "if self.rows is None:\n    return self.base[index]\nreturn self.rows[index]",
            [],
        ),
        (
            "self.base, self.rows = base, None",
            "if self.rows is None:\n    self.fill()\nreturn self.rows[index]\n\n"
            "def fill(self):\n    self.rows = [self.base[i] for i in range(9)]",
            [],
        ),
        (
            "self.base, self.last = base, None",
            "self.keep(index)\nreturn self.last\n\ndef keep(self, index):\n    self.last = self.base[index]",
            ["MNIST('a')"],
        ),
    ],
)
def test_samples_that_are_read_once_are_not_taken_again(tmp_path: Path, init: str, get: str, inner: list[str]) -> None:
    assert made_by(tmp_path, init, get, "Outer(MNIST('a'))", kept=False) == inner
