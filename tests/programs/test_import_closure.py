"""All that belongs to a program, for advice that rests on something being absent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpulint.programs.import_closure import LOWER_PRECISION, WholeProgram, whole_program
from tests.trees import Tree


def program(root: Path, name: str, **files: str) -> WholeProgram:
    made = Tree(root, {stem.replace("__", "."): text for stem, text in files.items()})
    found = whole_program(made.project, made.module(name))
    assert found is not None
    return found


def test_users_what_they_import_and_their_launchers_belong_to_it(tmp_path: Path) -> None:
    found = program(
        tmp_path,
        "engine.py",
        engine__py="import torch\nimport losses\n",
        losses__py="import torch\n",
        train__py="import torch\nimport engine\nimport switches\nmodel.cuda()\nengine.fit(model)\n",
        switches__py="import timm.models\n",
        other__py="autocast = 1\n",
        run__sh="python train.py --bf16\n",
    )
    assert {module.path.stem for module in found.own} == {"engine", "losses"}
    assert {module.path.stem for module in found.modules} == {"engine", "losses", "train", "switches"}
    assert found.imports("timm")
    assert not found.imports("tim")
    assert found.mentions(re.compile("--bf16"))
    assert not found.mentions(re.compile("autocast"))


@pytest.mark.parametrize(
    "text",
    ["autocast()", "use_amp", "args.amp", "from apex import x", "--fp16", "model.half()", "allow_tf32", "bfloat16",
     "Trainer(precision=16)", 'config["precision"]', "load_in_8bit"],
)  # fmt: skip
def test_words_of_lower_precision(text: str) -> None:
    assert LOWER_PRECISION.search(text)


@pytest.mark.parametrize(
    "text", ["example", "sample = 1", "clamp(0, 1)", "precision, recall = score(y)", "float32", "behalf"]
)
def test_other_words(text: str) -> None:
    assert not LOWER_PRECISION.search(text)
