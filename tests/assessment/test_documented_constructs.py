"""Constructs whose reason the documentation, or a comment of a program beside, gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import IN_USE, bases
from tests.assessment.test_documented_programs import SLOW

WITHOUT_CUDNN = SLOW.replace("model =", "torch.backends.cudnn.enabled = False\nmodel =", 1)


@pytest.mark.parametrize(
    ("note", "level"),
    [
        ("`torch.backends.cudnn.enabled = False` is needed: torch 2.2.0 segfaults on the first convolution\n", "low"),
        ("We train with cuDNN disabled due to CUDNN_STATUS_EXECUTION_FAILED.\n", "low"),
        ("Needs CUDA 11.8 and cuDNN 8.\n", "high"),
        ("cuDNN crashes are fixed by a newer driver.\n", "high"),
    ],
)
def test_the_documentation_says_why_cudnn_is_off(tmp_path: Path, note: str, level: str) -> None:
    (found,) = bases(
        tmp_path, {"train.py": IN_USE + WITHOUT_CUDNN, "README.md": f"Run `python train.py`.\n\n{note}"}, "GPU414"
    )
    assert found.startswith(level)


@pytest.mark.parametrize(
    ("comment", "level"),
    [
        ("# num_workers=0, pin_memory=False: required on this cluster to avoid crashes of the loader", "low"),
        ("# num_workers=0 for now", "high"),
    ],
)
def test_a_program_beside_says_why_there_are_no_workers(tmp_path: Path, comment: str, level: str) -> None:
    beside = f"import train\n\n{comment}\nloader = DataLoader(train.data, num_workers=0)\n"
    (found,) = bases(tmp_path, {"train.py": SLOW, "look.py": beside}, "GPU303")
    assert found.startswith(level)
