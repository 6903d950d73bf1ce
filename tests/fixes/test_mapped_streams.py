"""Maps of data sets that are read as they come, or for which the documentation has an option: no more processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]
EXAMPLE = """\
import torch
from dataclasses import dataclass, field
from typing import Optional

from datasets import load_dataset
from transformers import AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class DataArguments:
    name: str = field(default="org/corpus")
    streaming: bool = field(default=False)
    lazy: bool = field(default=False)
    workers: Optional[int] = field(default=None)


data_args, training_args = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
tokenizer = AutoTokenizer.from_pretrained("org/model", use_fast=False)
raw = load_dataset(data_args.name, streaming=data_args.{option})


def tokenise(rows):
    return tokenizer(rows["text"])


if {test}:
    data = raw.map(tokenise, batched=True, num_proc=data_args.workers, remove_columns=["text"])
else:
    data = raw.map(tokenise, batched=True, remove_columns=["text"])
Trainer(model=model.cuda(), args=training_args, train_dataset=data["train"]).train()
"""


@pytest.mark.parametrize(
    ("option", "test", "edits"),
    [
        ("streaming", "not data_args.streaming", 1),
        ("lazy", "not data_args.lazy", 1),
        ("lazy", "not (data_args.lazy or training_args.do_eval)", 1),
        ("lazy", "training_args.do_train", 2),
        ("lazy", "data_args.name", 2),
    ],
)
def test_only_maps_that_take_processes_get_them(job: MakeJob, option: str, test: str, edits: int) -> None:
    first, *others = job({"train.py": EXAMPLE.format(option=option, test=test)}).scan("GPU311")
    assert len(first.fix.edits) == edits
    assert len(others) == edits - 1  # a map that streams does its work with each batch


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("python train.py --workers 4", False),
        ("torchrun train.py --workers=16 --name org/other", False),
        ("python train.py --workers 1", True),
        ("python train.py --other-workers 4", True),
    ],
)
def test_an_option_that_the_documentation_passes_keeps_its_default(job: MakeJob, text: str, offered: bool) -> None:
    program = EXAMPLE.format(option="streaming", test="not data_args.streaming")
    (result,) = job({"train.py": program, "README.md": f"# Training\n\n```\n{text}\n```\n"}).scan("GPU311")
    assert isinstance(result.fix, Declined) is not offered
    assert offered or "README.md:4" in result.fix.reason
