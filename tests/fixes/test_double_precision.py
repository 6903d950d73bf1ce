"""Sums that are kept on the device of a program are in single precision where it may have no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix, Safety

MakeJob = Callable[..., Any]

_LOOP = """\
torch.cuda.empty_cache()
model = model.to(device)
for epoch in range(90):
    total = 0.0
    for images, labels in loader:
        loss = criterion(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total)
"""
_HEAD = "import argparse\n\nimport torch\n\nparser = argparse.ArgumentParser()\n"
_DEVICE = "args = parser.parse_args()\ndevice = torch.device(args.device)\n"


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ('parser.add_argument("-device", type=str)\n', "`-device` may name a device that has no other"),
        ('parser.add_argument("--device", default="cuda")\n', "`--device` may name a device that has no other"),
        ('parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])\n', ""),
        ('parser.add_argument("--device", default="cuda", help="cuda or cpu")\n', ""),
        ('parser.add_argument("--device", type=int, default=0)\n', ""),
        ('parser.add_argument("--log-device", action="store_true")\n', ""),
        ('parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")\n', ""),
        ('parser.add_argument("--device", default="cuda", help="mps, too")\n', "as the tree names `mps`"),
    ],
)
def test_an_option_that_may_name_any_device(job: MakeJob, option: str, why: str) -> None:
    _check(job({"train.py": _HEAD + option + _DEVICE + _LOOP}), why)


def test_an_option_of_another_module_of_the_program(job: MakeJob) -> None:
    settings = (
        "import argparse\n\ndef read():\n    parser = argparse.ArgumentParser()\n"
        '    parser.add_argument("--device", type=str)\n    return parser.parse_args()\n'
    )
    program = f"import torch\n\nfrom settings import read\n\nargs = read()\ndevice = torch.device(args.device)\n{_LOOP}"
    _check(job({"settings.py": settings, "train.py": program}), "`--device` may name")


def test_an_option_that_decides_between_two_devices(job: MakeJob) -> None:
    chosen = 'args = parser.parse_args()\ndevice = torch.device("cuda" if args.device == "gpu" else "cpu")\n'
    option = 'parser.add_argument("--device", type=str)\n'
    _check(job({"train.py": _HEAD + option + chosen + _LOOP}), "")


def test_a_library_that_chooses_the_device(job: MakeJob) -> None:
    program = f"import torch\nfrom accelerate import Accelerator\n\ndevice = Accelerator().device\n{_LOOP}"
    _check(job({"train.py": program}), "as Accelerate may choose a device that has no other")


def test_a_device_of_the_name_of_a_library_chooses_none(job: MakeJob) -> None:
    circuit = 'import pennylane\n\nqubits = pennylane.device("lightning.qubit", wires=4)\n'
    program = f"import torch\n\ndevice = torch.device('cuda')\n{_LOOP}"
    _check(job({"circuit.py": circuit, "train.py": program}), "")


def _check(made: Any, why: str) -> None:
    (fix,) = [one.fix for one in made.scan("GPU305") if isinstance(one.fix, Fix)]
    (read,) = [edit.text for edit in fix.edits if "detach" in edit.text]
    assert ("double" in read) is not bool(why)
    assert why in fix.description
    assert fix.safety is (Safety.UNSAFE if why else Safety.SAFE)
