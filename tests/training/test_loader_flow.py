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


@pytest.mark.parametrize(
    ("call", "batch_sizes"),
    [
        ("make('warmup')", [1]),
        ("make(mode='train')", [2]),
        ("make('test')", [3]),
        ("make('val', short=True)", [4]),
        ("make('val')", [3]),
        ("make(mode)", [1, 2, 3, 4]),
        ("make(*modes, short=True)", [1, 2, 4]),
        ("Data().make('train')", [2]),
    ],
)
def test_constants_of_a_call_choose_what_a_function_returns(tree: MakeTree, call: str, batch_sizes: list[int]) -> None:
    body = """\
def make({first}mode, short=False):
    if mode == "warmup":
        return DataLoader(data, 1)
    elif mode in ("train", "all"):
        return DataLoader(data, 2)
    if not short:
        return DataLoader(data, 3)
    return DataLoader(data, 4)
"""
    method = "class Data:\n" + "".join(f"    {line}\n" for line in body.format(first="self, ").splitlines())
    made = tree(f"{TORCH}{body.format(first='')}{method}loader = {call}\n")
    module = made.module()
    loaders = made.project.fact(LoaderFlow).loaders_of(module, module.top.bindings["loader"][0].value)
    assert sorted(ast.literal_eval(loader.node.args[1]) for loader in loaders) == batch_sizes


def test_a_mode_that_is_set_anew_chooses_nothing(tree: MakeTree) -> None:
    made = tree(
        f"{TORCH}def make(mode):\n    mode = mode or MODE\n    if mode == 'train':\n        return DataLoader(data, 1)\n"
        "    return DataLoader(data, 2)\nloader = make('train')\n"
    )
    module = made.module()
    assert len(made.project.fact(LoaderFlow).loaders_of(module, module.top.bindings["loader"][0].value)) == 2


@pytest.mark.parametrize(
    ("constructor", "found"),
    [
        ("def __init__(self, data, size, workers=8): super().__init__(data, size, num_workers=workers)", ["workers"]),
        ("def __init__(self, data, *args, **kwargs): super().__init__(data, *args, **kwargs)", ["args", "size"]),
        ("name = 'own'", ["size"]),
    ],
)
def test_a_constructor_of_the_tree_is_no_loader_class(tree: MakeTree, constructor: str, found: list[str]) -> None:
    made = tree(
        TORCH + f"class Own(DataLoader):\n    {constructor}\n"
        "class Photos(Own):\n    def __init__(self, size, workers=8): super().__init__(load(), size)\n"
    )
    calls = [ast.unparse(loader.node) for loader in made.project.fact(LoaderFlow).in_module(made.module())]
    assert len(calls) == len(found)
    assert all(word in call for word, call in zip(found, calls, strict=True))
