"""Edits that would gain nothing, or stop the program, are not offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

MAPPED = """\
from datasets import Dataset, load_from_disk
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("org/model")


def encode(rows):
    return tokenizer(rows["text"])


data = {data}
model.cuda()
loss.backward()
"""
REPORT = """\
import gc

import torch


def usage():
    gc.collect()
    return torch.cuda.memory_allocated()


def train(model, loader, optimizer):
    for batch in loader:
        model(batch).backward()
        optimizer.step()
        log(usage())
"""
EXPLAINED = """\
import gc

import torch


def train(model, loader, optimizer):
    for batch in loader:
        model(batch).backward()
        optimizer.step()
        # without a collection the graphs in cycles would leak memory
        gc.collect()
"""

EMPTIED = """\
import torch


def train(model, loader, optimizer):
    for batch in loader:
        {above}
        torch.cuda.empty_cache()
        model(batch{more}).backward()
        optimizer.step()
"""
SPOKEN = "# 清理显存以进行生成"
GENERATED = ", model.generate(batch, max_new_tokens=256)"


@pytest.mark.parametrize(
    ("code", "program", "reason"),
    [
        ("GPU311", MAPPED.format(data='load_from_disk("data").map(encode, batched=True)'), "among all cores itself"),
        ("GPU311", MAPPED.format(data='Dataset.from_list(read("rows.json")).map(encode)'), "holds in memory"),
        ("GPU207", REPORT, "reports how much memory"),
        ("GPU207", EXPLAINED, "says what it is for"),
        ("GPU207", EMPTIED.format(above="# needed to avoid OOM by fragmentation", more=""), "says what it is for"),
        ("GPU207", EMPTIED.format(above=SPOKEN, more=""), "says what it is for"),
        ("GPU207", EMPTIED.format(above="# clear the cache", more=GENERATED), "generates text with a model"),
    ],
)
def test_the_reason_is_told(job: MakeJob, code: str, program: str, reason: str) -> None:
    assert reason in job({"train.py": program}).refusal(code)
