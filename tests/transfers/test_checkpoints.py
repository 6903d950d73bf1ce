"""Calls that write a checkpoint, and where to."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from gpulint.transfers.checkpoints import Checkpoints
from tests.trees import Tree

MakeTree = Callable[..., Tree]


@pytest.mark.parametrize(
    ("code", "what", "path"),
    [
        ("import torch\ntorch.save(state, 'a.pt')", "torch.save", "'a.pt'"),
        ("from torch import save\nsave(state, f=where)", "save", "where"),
        ("import pickle\npickle.dump(model, handle)", "pickle.dump", "handle"),
        ("from safetensors.torch import save_file\nsave_file(tensors, filename='a')", "save_file", "'a'"),
        ("model.save_pretrained(out)", "model.save_pretrained", "out"),
        ("accelerator.save_state(folder)", "accelerator.save_state", "folder"),
        ("fabric.save('a.ckpt', state)", "fabric.save", "'a.ckpt'"),
    ],
)
def test_a_write_and_its_path(tree: MakeTree, code: str, what: str, path: str) -> None:
    made = tree(code)
    (save,) = made.project.fact(Checkpoints).in_module(made.module())
    assert save.what == what
    assert save.path is not None
    assert ast.unparse(save.path.node) == path
    assert not save.is_callback


@pytest.mark.parametrize(
    "code",
    [
        "import pickle\npickle.dump(predictions, handle)",
        "tokenizer.save_pretrained(out)",
        "image.save('a.png')",
        "import numpy as np\nnp.save('a.npy', values)",
        "from transformers import TrainingArguments\nTrainingArguments('out', save_strategy='no')",
    ],
)
def test_what_writes_no_model(tree: MakeTree, code: str) -> None:
    made = tree(code)
    assert made.project.fact(Checkpoints).in_module(made.module()) == []


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ("from keras.callbacks import ModelCheckpoint\nModelCheckpoint('best.h5')", "'best.h5'"),
        ("from lightning.pytorch.callbacks import ModelCheckpoint\nModelCheckpoint(dirpath=out)", "out"),
        ("from transformers import TrainingArguments\nTrainingArguments(output_dir='s3://b/out')", "'s3://b/out'"),
    ],
)
def test_frameworks_that_save_on_their_own(tree: MakeTree, code: str, path: str) -> None:
    made = tree(code)
    (save,) = made.project.fact(Checkpoints).in_module(made.module())
    assert save.is_callback
    assert save.path is not None
    assert ast.unparse(save.path.node) == path


def test_a_helper_of_another_module_leads_to_the_write(tree: MakeTree) -> None:
    made = tree(
        {
            "main.py": "from tools import save_checkpoint, save_plot\nsave_checkpoint(state)\nsave_plot(curve)\n",
            "tools.py": "import torch\ndef save_checkpoint(s):\n    write(s)\ndef write(s):\n    torch.save(s, 'a')\n"
            "def save_plot(c):\n    c.draw()\n",
        }
    )
    ((call, save),) = made.project.fact(Checkpoints).through_helpers(made.module())
    assert ast.unparse(call.node) == "save_checkpoint(state)"
    assert (save.call.module.path.name, save.node.lineno) == ("tools.py", 5)
