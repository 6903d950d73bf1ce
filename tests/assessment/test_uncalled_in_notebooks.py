"""Findings of notebooks in functions that no cell calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.assessment.scans import IMAGES, bases

HEAD = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, Dataset\n"
TRAINS = """\
def train(epochs, model, optimizer):
    torch.autograd.set_detect_anomaly(True)
    for epoch in range(epochs):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            loss.backward()
            optimizer.step()
"""
CALL = "train(90, model, optimizer)\n"
CALLER = f"def run(model, optimizer):\n    {CALL}"
NOT_CALLED = {"GPU303": "nothing calls the functions that read it", "GPU414": "nothing calls it"}


def _notebook(*cells: str) -> str:
    made = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": source.splitlines(keepends=True)}
        for source in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _are_lowered(folder: Path, files: dict[str, str]) -> set[bool]:
    lowered = set()
    for code, phrase in NOT_CALLED.items():
        (found,) = bases(folder, files, code)
        assert found.startswith("low") or phrase not in found
        lowered.add(phrase in found)
    return lowered


@pytest.mark.parametrize(
    "cells",
    [
        ("print(1)\n",),
        ("# train(90, model, optimizer)\n",),
        (CALLER,),
        (CALLER, "def main():\n    run(None, None)\n"),
        ("train_loader = 3\nprint('done')\n",),
    ],
)
def test_what_no_cell_calls_has_not_run(tmp_path: Path, cells: tuple[str, ...]) -> None:
    assert _are_lowered(tmp_path, {"net.ipynb": _notebook(HEAD, TRAINS, IMAGES, *cells)}) == {True}


@pytest.mark.parametrize(
    "cells",
    [
        (CALL,),
        (CALLER, "run(model, optimizer)\n"),
        ("globals()['train'](90, model, optimizer)\n",),
        ("import __main__\ngetattr(__main__, 'train')(90, model, optimizer)\n",),
        ("%time train(90, model, optimizer)\n",),
        ("%prun -l 9 train(90, model, optimizer)\n",),
        ("took = %timeit -o train(90, model, optimizer)\n",),
        ("!echo {train(90, model, optimizer)}\n",),
        ("train(90, model, optimizer\n",),
        ("steps = [train]\nfor step in steps:\n    step(90, model, optimizer)\n",),
        ("#| export\nrows = 3\n",),
        ("%run helpers.ipynb\n",),
    ],
)
def test_what_a_cell_calls_or_may_call_costs_as_much(tmp_path: Path, cells: tuple[str, ...]) -> None:
    assert _are_lowered(tmp_path, {"net.ipynb": _notebook(HEAD, TRAINS, IMAGES, *cells)}) == {False}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("%run net.ipynb\n", False),
        ("%run ./lib/net\n", False),
        ("import import_ipynb\nimport net\n", False),
        ("%run subnet.ipynb\n", True),
    ],
)
def test_another_notebook_may_run_it(tmp_path: Path, other: str, expected: bool) -> None:
    files = {"net.ipynb": _notebook(HEAD, TRAINS, IMAGES), "use.ipynb": _notebook(other)}
    assert _are_lowered(tmp_path, files) == {expected}
