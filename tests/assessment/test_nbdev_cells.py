"""Cells of notebooks from which nbdev makes modules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.assessment.scans import bases

SAYS = "a cell that nbdev does not export"
SETTINGS = {"settings.ini": "[DEFAULT]\nlib_path = photos\nnbs_path = nbs\n"}
FIRST = "import os\n\nimport torch"
MODE = 'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"'
STEPS = """\
model = torch.nn.Linear(2, 2).cuda()
for x in loader:
    model(x.cuda()).sum().backward()
    optimizer.step()
"""


def _notebook(*cells: str) -> str:
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": one} for one in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.mark.parametrize(
    ("cells", "more", "holds"),
    [
        (("# default_exp losses", f"#export\n{FIRST}", MODE, STEPS), {}, True),
        (("#| default_exp losses", f"#| export\n{FIRST}", MODE, STEPS), {}, True),
        ((f"# export\n{FIRST}", MODE, STEPS), SETTINGS, True),
        ((f"#exports\n{FIRST}", MODE, STEPS), SETTINGS, True),
        ((f"# export\n{FIRST}", MODE, STEPS), {}, False),
        (("#| default_exp losses", f"#| export\n{FIRST}", f"#| export\n{MODE}", STEPS), {}, False),
        ((FIRST, MODE, STEPS), SETTINGS, False),  # an experiment beside the library
    ],
)
def test_only_exported_cells_are_run_by_jobs(
    tmp_path: Path, cells: tuple[str, ...], more: dict[str, str], holds: bool
) -> None:
    (found,) = bases(tmp_path, {"nbs/losses.ipynb": _notebook(*cells), **more}, "GPU414")
    assert (SAYS in found) is holds and found.startswith("low") is holds
