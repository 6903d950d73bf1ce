"""Loaders from which nothing draws a batch."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.undrawn_loaders import UndrawnLoaders
from tests.trees import Tree

MakeTree = Callable[..., Tree]
TORCH = "from torch.utils.data import DataLoader\n"


def undrawn(tree: Tree, name: str = "main.py") -> list[bool]:
    """Whether nothing draws from the loaders of a module, in source order."""
    made = tree.project.fact(LoaderFlow).in_module(tree.module(name))
    return [tree.project.fact(UndrawnLoaders).is_undrawn(loader) for loader in made]


@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("x = DataLoader(data)", False),  # for whoever imports it
        ("x = DataLoader(data)\nprint(len(x), x.batch_size)", True),
        ("x = DataLoader(data)\nprint(len(x))\nfirst = next(iter(x))", False),
        ("x = DataLoader(data)\ny = x\nprint(len(y))", True),
        ("x = DataLoader(data)\nif x is not None:\n    print(len(x) if x else 0)", True),
        ("x = DataLoader(data)\nprint(len(x))\nuse(x)", False),
        ("x = DataLoader(data)\nprint(len(x), locals())", False),
        ("x = DataLoader(data)\nprint(len(x), model.eval())", True),
        ("def f(kept):\n    return len(kept)\nx = DataLoader(data)\nf(kept=x)", True),
        ("def f(kept):\n    return list(kept)\nx = DataLoader(data)\nf(kept=x)", False),
        ("x = DataLoader(data)\nprint(len(x))\nx = other\nfor batch in x: pass", True),
        ("def f():\n    x = DataLoader(data)\n    global y\n    y = x", False),
        ("def f():\n    return 1, DataLoader(data)\ndef g():\n    size, x = f()", True),
        ("def f():\n    return 1, DataLoader(data)\ndef g():\n    size, x = f()\nh = f", False),
        ("def f():\n    return 1, DataLoader(data)\ndef g():\n    return list(f()[1])", False),
        ("def f():\n    return 1, DataLoader(data)\ndef g():\n    return f()[0]", True),
        ("x = DataLoader(data)\nd = {'a': 1, 'b': x}\nfor k in ('a', 'c'):\n    use(d[k])", True),
        ("x = DataLoader(data)\nd = {'a': 1, 'b': x}\nfor k in ('a', 'b'):\n    use(d[k])", False),
        ("x = DataLoader(data)\nd = {'a': 1, 'b': x}\nfor k in names:\n    use(d[k])", False),
        ("x = DataLoader(data)\nd = {'b': x}\nn = ['a']\nfor k in n:\n    use(d[k])", True),
        ("x = DataLoader(data)\nd = {'b': x}\nn = ['a']\nn.append('b')\nfor k in n:\n    use(d[k])", False),
        ("x = DataLoader(data)\nd = {'b': x}\nfor k, v in d.items():\n    use(v)", False),
        ("def f(t):\n    return list(t['a'])\nx = DataLoader(data)\nf({'a': 1, 'b': x})", True),
        ("def f(t):\n    return list(t['b'])\nx = DataLoader(data)\nf({'a': 1, 'b': x})", False),
        ("def f():\n    d = {}\n    d['b'] = DataLoader(data)\n    use(d['a'])", True),
        ("def f():\n    d = {}\n    d['b'] = DataLoader(data)\n    use(d['b'])", False),
        ("def f():\n    d = {}\n    d['b'] = DataLoader(data)\n    return d", False),
    ],
)
def test_uses_of_a_loader(tree: MakeTree, code: str, left: bool) -> None:
    assert undrawn(tree(f"{TORCH}{code}\n")) == [left]


def test_another_file_may_draw_from_it(tree: MakeTree) -> None:
    files = {"main.py": f"{TORCH}x = DataLoader(data)\nprint(len(x))\n", "train.py": "from main import x\n"}
    assert undrawn(tree(files)) == [False]


@pytest.mark.parametrize(("last", "left"), [("print(1)", True), ("print(x", False)])
def test_a_cell_that_cannot_be_read_may_draw_from_it(tree: MakeTree, last: str, left: bool) -> None:
    cells = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for source in (f"{TORCH}x = DataLoader(data)\nprint(len(x))", last)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    assert undrawn(tree({"a.ipynb": json.dumps(notebook)}), "a.ipynb") == [left]
