"""Which loops draw batches from loaders, and what is (part of) a batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpulint.placement.batch_flow import BatchFlow
from tests.trees import Tree

MakeTree = Callable[..., Tree]
TORCH = "from torch.utils.data import DataLoader\n"


def test_a_loop_draws_from_a_loader_made_in_another_module(tree: MakeTree) -> None:
    made = tree(
        {
            "main.py": "from data import make\nloader = make()\nfor i, x in enumerate(loader):\n    use(x)\n",
            "data.py": TORCH + "def make():\n    return DataLoader(data)\n",
        }
    )
    module = made.module()
    batch_read = made.project.fact(BatchFlow).batch_read(module, module.loops[0])
    assert batch_read is not None
    assert [loader.module.path.name for loader in batch_read.loaders] == ["data.py"]
    assert not batch_read.prepared


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
    module = made.module()
    batch_read = made.project.fact(BatchFlow).batch_read(module, module.loops[0])
    assert batch_read is not None
    assert batch_read.prepared


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
    module = made.module()
    argument = module.calls_by_name["use"][0].args[0]
    assert (made.project.fact(BatchFlow).batch_of(module, argument) is not None) is is_batch
