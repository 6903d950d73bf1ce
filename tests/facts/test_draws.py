"""Which loops draw batches from loaders, and what is (part of) a batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.facts.conftest import Tree

MakeTree = Callable[..., Tree]
TORCH = "from torch.utils.data import DataLoader\n"


def test_a_loop_draws_from_a_loader_made_in_another_module(tree: MakeTree) -> None:
    made = tree(
        {
            "main.py": "from data import make\nloader = make()\nfor i, x in enumerate(loader):\n    use(x)\n",
            "data.py": TORCH + "def make():\n    return DataLoader(data)\n",
        }
    )
    scopes = made.module()
    draw = made.project.draws.draw(scopes, scopes.loops[0])
    assert draw is not None
    assert [loader.scopes.path.name for loader in draw.loaders] == ["data.py"]
    assert not draw.prepared


@pytest.mark.parametrize(
    "prepare",
    [
        "loader = accelerator.prepare(DataLoader(data))",
        "model, loader = accelerator.prepare(net, DataLoader(data))",
        "loader = DataLoader(data)\nmodel, loader = accelerator.prepare(model, loader)",
    ],
)
def test_accelerate_puts_batches_on_the_device(tree: MakeTree, prepare: str) -> None:
    made = tree(f"{TORCH}{prepare}\nfor x in loader:\n    use(x)\n")
    scopes = made.module()
    draw = made.project.draws.draw(scopes, scopes.loops[0])
    assert draw is not None
    assert draw.prepared


@pytest.mark.parametrize(
    ("body", "is_batch"),
    [
        ("use(batch)", True),
        ("use(batch['image'])", True),
        ("images, labels = batch\n    use(images)", True),
        ("for part in batch:\n        use(part)", True),
        ("use(model)", False),
        ("use(step)", False),
    ],
)
def test_what_comes_out_of_a_loader(tree: MakeTree, body: str, is_batch: bool) -> None:
    made = tree(TORCH + f"step = 0\nloader = DataLoader(data)\nfor batch in loader:\n    {body}\n")
    scopes = made.module()
    argument = scopes.calls_by_name["use"][0].args[0]
    assert (made.project.draws.batch(scopes, argument) is not None) is is_batch
