"""Which calls make data loaders."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from gpulint.training.loader_flow import LoaderFlow
from tests.trees import Tree

MakeTree = Callable[..., Tree]
TORCH = "from torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(
    ("code", "variables"),
    [
        (TORCH + "train = DataLoader(data)", ["train"]),
        ("from torch.utils.data import DataLoader as DL\nx = DL(data)", ["x"]),
        ("import torch\nmake = torch.utils.data.DataLoader\nx = make(data)", ["x"]),
        ("from torch_geometric.loader import DataLoader\nx = DataLoader(graphs)", ["x"]),
        (TORCH + "run(DataLoader(data))", [""]),
        ("from llama_index import DataLoader\nx = DataLoader(data)", []),
        ("x = load(data)", []),
    ],
)
def test_calls_that_make_loaders(tree: MakeTree, code: str, variables: list[str]) -> None:
    made = tree(code)
    assert [loader.variable for loader in made.project.fact(LoaderFlow).in_module(made.module())] == variables


def test_other_modules_may_give_a_loader_class_another_name(tree: MakeTree) -> None:
    made = tree(
        {
            "fast.py": "import torch.utils.data as data\nFast = data.DataLoader\n",
            "faster.py": "from fast import Fast as Faster\n",
            "main.py": "from functools import partial\nfrom faster import Faster\nmake = partial(Faster, num_workers=4)\n"
            "x, y = make(first), Faster(second)\nz = other(third)\n",
        }
    )
    found = made.project.fact(LoaderFlow).in_module(made.module())
    assert [ast.unparse(loader.node) for loader in found] == ["make(first)", "Faster(second)"]


def test_graph_samplers_are_told_from_graph_loaders(tree: MakeTree) -> None:
    made = tree(
        "from torch_geometric.loader import DataLoader, NeighborLoader\na = NeighborLoader(g)\nb = DataLoader(g)\n"
    )
    assert [one.samples_graph for one in made.project.fact(LoaderFlow).in_module(made.module())] == [True, False]
