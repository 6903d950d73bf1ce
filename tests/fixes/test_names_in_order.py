"""Fixes read no name before the module binds it: the cells of a notebook run one after another."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix, Safety

MakeJob = Callable[..., Any]

LOADS = """\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
pictures = datasets.ImageFolder("pictures", transform=transforms.ToTensor())
loader = DataLoader(pictures, batch_size=64, shuffle=True, num_workers=4)
"""
MOVES = """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(9, 9).to(device)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(20):
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = model(images).sum()
        loss.backward()
        optimizer.step()
"""
TESTED, PLAIN = "pin_memory=torch.cuda.is_available()", "pin_memory=True"


def notebook(*cells: str) -> str:
    """Return a notebook with code cells."""
    parts = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": text} for text in cells]
    return json.dumps({"cells": parts, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def pinned(offer: Fix) -> str:
    """Return what a fix writes to pin memory."""
    (text,) = [edit.text for edit in offer.edits if "pin_memory" in edit.text]
    return text.strip(", \n")


@pytest.mark.parametrize(
    ("cells", "passed"),
    [
        ((LOADS, f"import torch\n{MOVES}"), PLAIN),
        (("import torch", LOADS, MOVES), TESTED),
        ((f"import torch\n{LOADS}", MOVES), TESTED),
        ((f"{LOADS}import torch", MOVES), PLAIN),
    ],
)
def test_cells_in_order(job: MakeJob, cells: tuple[str, ...], passed: str) -> None:
    offer = job({"train.ipynb": notebook(*cells)}).offer("GPU301")
    assert offer.safety is Safety.SAFE
    assert pinned(offer) == passed


@pytest.mark.parametrize("call", ["early", "late"])
def test_functions_run_where_they_are_called(job: MakeJob, call: str) -> None:
    head, _, made = LOADS.partition("loader = ")
    cell = f"{head}def make():\n    return {made}"
    imported, called = f"import torch\n{MOVES}", "loader = make()\n"
    cells = (f"{cell}{called}", imported) if call == "early" else (cell, f"import torch\n{called}{MOVES}")
    offer = job({"train.ipynb": notebook(*cells)}).offer("GPU301")
    assert pinned(offer) == (PLAIN if call == "early" else TESTED)


@pytest.mark.parametrize("early", [True, False])
def test_loaders_beside_each_other(job: MakeJob, early: bool) -> None:
    first = LOADS if early else f"import torch\n{LOADS}"
    second = f"import torch\nother = DataLoader(pictures, batch_size=64, num_workers=4, {TESTED})\n"
    offer = job({"train.ipynb": notebook(first, second, MOVES)}).offer("GPU301")
    assert pinned(offer) == (PLAIN if early else TESTED)


@pytest.mark.parametrize("early", [True, False])
def test_scripts_as_notebooks(job: MakeJob, early: bool) -> None:
    text = f"{LOADS}import torch\n{MOVES}" if early else f"import torch\n{LOADS}{MOVES}"
    offer = job({"train.py": text}).offer("GPU301")
    assert pinned(offer) == (PLAIN if early else TESTED)


EVALUATES = """\
def evaluate(model, loader):
    model.eval()
    total = 0
    for images, labels in loader:
        total += (model(images.cuda()).argmax(1) == labels.cuda()).sum()
    return total / len(loader)
"""


@pytest.mark.parametrize("early", [True, False])
def test_decorators_run_at_their_definition(job: MakeJob, early: bool) -> None:
    """Whatever a fixer writes: `@torch.no_grad()` needs the name where the function is defined."""
    used = "import torch\nmodel = torch.load('model.pt').cuda()\nevaluate(model, loader)\n"
    cells = (LOADS, EVALUATES, used) if early else (LOADS, "import torch", EVALUATES, used)
    made = job({"test.ipynb": notebook(*cells)})
    if early:
        assert "`torch` has no value yet" in made.refusal("GPU203")
    else:
        assert any("@torch.no_grad()" in edit.text for edit in made.offer("GPU203").edits)


def test_what_a_comprehension_binds_has_a_value(job: MakeJob) -> None:
    """The new text has loops of its own over names that a loop below binds as well."""
    program = """\
    import torch

    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        for name, weight in model.named_parameters():
            if torch.isnan(weight.grad).any():
                print(name)
        optimizer.step()
    """
    assert any("for name, weight in" in edit.text for edit in job({"train.py": program}).offer("GPU305").edits)
