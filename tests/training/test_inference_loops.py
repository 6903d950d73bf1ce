"""Evaluation loops that build graphs which nobody needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpulint.training.inference_loops import graphs_in_evaluation
from tests.trees import Tree

MakeTree = Callable[..., Tree]
LOOP = "import torch\nmodel.eval()\nfor x in loader:\n    y = model(x)\n"


def loops(made: Tree) -> list[tuple[int, str]]:
    """(line of the loop, model) of what is found."""
    return [(found.loop.lineno, found.model) for found in graphs_in_evaluation(made.project, made.module())]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (LOOP, (3, "model")),
        ("import torch\nnet.eval()\nfor x in loader:\n    y = net.forward(x)\n", (3, "net")),
        ("import torch\ndef test(model):\n    model.eval()\n    for x in loader:\n        y = model(x)\ntest(m)\n", (4, "model")),
        ("import torch\nmodel.eval()\nfor f in folds:\n    for x in f:\n        y = model(x)\n", (3, "model")),
        ("import torch\ndef run(m, x):\n    return m(x)\nmodel.eval()\nfor x in loader:\n    y = run(model, x)\n", (5, "model")),
        ("import torch\nmodel.eval()\nwith torch.autocast('cuda'):\n    for x in loader:\n        y = model(x)\n", (4, "model")),
    ],
)  # fmt: skip
def test_gradients_are_left_on(tree: MakeTree, code: str, expected: tuple[int, str]) -> None:
    assert loops(tree(code)) == [expected]


@pytest.mark.parametrize(
    "code",
    [
        LOOP.replace("import torch\n", ""),
        LOOP.replace("    y =", "    with torch.no_grad():\n        y ="),
        LOOP.replace("model.eval()", "model.eval()\nmodel.train()"),
        "import torch\ntorch.set_grad_enabled(False)\n" + LOOP,
        "import torch\n@torch.inference_mode()\ndef test():\n    model.eval()\n    for x in loader:\n        y = model(x)\n",
        "import torch\ndef test():\n    model.eval()\n    for x in loader:\n        y = model(x)\nwith torch.no_grad():\n    test()\n",
        "import torch\ndef attack():\n    model.eval()\n    for x in loader:\n        x.requires_grad_()\n        y = model(x)\n",
        "import torch\nmodel.eval()\nfor x in loader:\n    model(x).backward()\n    optimizer.step()\n",
        "import torch\nmodel.eval()\ny = model(x)\n",
    ],
)  # fmt: skip
def test_gradients_are_off_or_needed_or_it_is_one_pass(tree: MakeTree, code: str) -> None:
    assert loops(tree(code)) == []
