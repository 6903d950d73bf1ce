"""Batches that are objects of a class of the program, which loaders pin only where it has a method for it."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from gpulint.fix import Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy
import torch
from tensordict import tensorclass
from torch.utils.data import DataLoader, Dataset


class Graphs(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.tensor(self.rows[index])


{batch}

loader = DataLoader(Graphs(rows), batch_size=64, num_workers=4, collate_fn={collate})
model = model.cuda()
for epoch in range(90):
    for {target} in loader:
        loss = criterion(model({images}.cuda()), {labels}.cuda())
        loss.backward()
        optimizer.step()
"""
PLAIN = """\
@dataclass
class Rows:
    images: torch.Tensor
    labels: torch.Tensor
"""
COLLATE = """
def collate(samples):
    return Rows(torch.stack(samples), torch.ones(len(samples)))
"""
OBJECT = {"target": "batch", "images": "batch.images", "labels": "batch.labels"}
PARTS = {"target": "rows, labels", "images": "rows.images", "labels": "labels"}
METHOD = """
    def pin_memory(self):
        return Rows(self.images.pin_memory(), self.labels.pin_memory())
"""


def _program(batch: str, collate: str, read: dict[str, str]) -> str:
    return PROGRAM.format(batch=dedent(batch), collate=collate, **read)


@pytest.mark.parametrize(
    ("batch", "collate", "read"),
    [
        (PLAIN + COLLATE, "collate", OBJECT),
        (PLAIN.replace("@dataclass", "@dataclass(frozen=True, slots=True)") + COLLATE, "collate", OBJECT),
        (PLAIN + COLLATE.replace("return", "batch =") + "    return batch\n", "collate", OBJECT),
        (PLAIN + COLLATE, "lambda samples: collate(samples)", OBJECT),
        (PLAIN + COLLATE.replace("(samples)", "(size, samples)", 1), "partial(collate, 3)", OBJECT),
        (PLAIN + COLLATE.replace("torch.ones(len(samples)))", "None), torch.ones(9)"), "collate", PARTS),
        (
            PLAIN
            + """
    @classmethod
    def of(cls, samples):
        return cls(torch.stack(samples), torch.ones(len(samples)))
""",
            "Rows.of",
            OBJECT,
        ),
        (
            PLAIN
            + """
class Collator:
    def __call__(self, samples):
        return Rows(torch.stack(samples), torch.ones(len(samples)))
""",
            "Collator()",
            OBJECT,
        ),
        ("class Base:\n    pass\n\n" + PLAIN.replace("Rows:", "Rows(Base):") + COLLATE, "collate", OBJECT),
    ],
)
def test_objects_without_the_method_are_not_pinned(
    job: MakeJob, batch: str, collate: str, read: dict[str, str]
) -> None:
    made = job({"train.py": _program(batch, collate, read)})
    (found,) = made.scan("GPU301")
    assert "objects of `Rows`, which has no method `pin_memory`" in made.refusal("GPU301")
    assert found.finding.help.startswith("give `Rows` a method `pin_memory`")
    assert not any(isinstance(one.fix, Fix) for one in made.scan("GPU302"))


@pytest.mark.parametrize(
    ("batch", "collate", "read"),
    [
        (PLAIN + METHOD + COLLATE, "collate", OBJECT),
        ("class Base:" + METHOD + "\n" + PLAIN.replace("Rows:", "Rows(Base):") + COLLATE, "collate", OBJECT),
        (PLAIN.replace("@dataclass\n", "").replace("Rows:", "Rows(NamedTuple):") + COLLATE, "collate", OBJECT),
        (PLAIN.replace("@dataclass", "@tensorclass") + COLLATE, "collate", OBJECT),
        (PLAIN.replace("Rows:", "Rows(numpy.Unknown):") + COLLATE, "collate", OBJECT),
        (
            PLAIN + "\n    def __getattr__(self, name):\n        return getattr(self.images, name)\n" + COLLATE,
            "collate",
            OBJECT,
        ),
        (
            """
@dataclass
class Source:
    path: str

def collate(samples):
    return torch.stack(samples), Source("rows.pt")
""",
            "collate",
            {"target": "images, source", "images": "images", "labels": "images"},
        ),
    ],
)
def test_batches_that_loaders_pin(job: MakeJob, batch: str, collate: str, read: dict[str, str]) -> None:
    made = job({"train.py": _program(batch, collate, read)})
    (found,) = made.scan("GPU301")
    assert found.finding.help.startswith("add `pin_memory=True`")
    assert isinstance(found.fix, Fix)


def test_samples_that_are_batches_already(job: MakeJob) -> None:
    program = (
        _program(PLAIN, "None", OBJECT).replace("batch_size=64", "batch_size=None").replace(", collate_fn=None", "")
    )
    program = program.replace(
        "return torch.tensor(self.rows[index])", "return Rows(self.rows[index], self.rows[index])"
    )
    assert "objects of `Rows`" in job({"train.py": program}).refusal("GPU301")


OWN_TENSOR = """
class Boxes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            made = function(*args, **(kwargs or {}))
        return made.as_subclass(cls) if function in (KEPT) else made


def collate(samples):
    return MADE, torch.ones(len(samples))
"""
WHOLE = {"target": "images, labels", "images": "images", "labels": "labels"}
LIBRARY = """\
import torch
from tracks import TrackDataset
from tracks.states import StateTensor
from torch.utils.data import DataLoader

data = TrackDataset("rows")
loader = DataLoader(data, batch_size=64, num_workers=4, persistent_workers=True, COLLATE)
model = model.cuda()
for epoch in range(90):
    for batch in loader:
        assert isinstance(batch["states"], CLASS)
        loss = criterion(model(batch["states"].cuda()), batch["labels"].cuda())
        loss.backward()
        optimizer.step()
"""
OF_LIBRARY = "collate_fn=data.get_collate_fn(return_dict=True)"


def test_tensors_of_a_class_that_pinning_may_not_keep(job: MakeJob) -> None:
    batch = OWN_TENSOR.replace("KEPT", "torch.Tensor.to, torch.Tensor.cuda")
    program = _program(batch.replace("MADE", "torch.stack(samples).as_subclass(Boxes)"), "collate", WHOLE)
    assert "tensors of `Boxes`, whose class pinning may not keep" in job({"train.py": program}).refusal("GPU301")


def test_tensors_of_a_library_that_the_program_checks_for(job: MakeJob) -> None:
    for checked in ("StateTensor", "(StateTensor, list)"):
        program = LIBRARY.replace("COLLATE", OF_LIBRARY).replace("CLASS", checked)
        assert "tensors of `StateTensor`" in job({"train.py": program}).refusal("GPU301")


@pytest.mark.parametrize(
    "program",
    [
        _program(
            OWN_TENSOR.replace("KEPT", "torch.Tensor.pin_memory,").replace("MADE", "Boxes(samples)"), "collate", WHOLE
        ),
        _program(
            OWN_TENSOR.replace("KEPT", "torch.Tensor.to,").replace("MADE", "torch.stack(samples)"), "collate", WHOLE
        ),
        LIBRARY.replace("COLLATE", OF_LIBRARY).replace("CLASS", "torch.Tensor"),
        LIBRARY.replace("COLLATE", OF_LIBRARY).replace("CLASS", "StateTensor").replace("tracks.states", "other"),
        LIBRARY.replace("COLLATE", "shuffle=True").replace("CLASS", "StateTensor"),
    ],
)
def test_tensors_that_pinning_keeps(job: MakeJob, program: str) -> None:
    (found,) = job({"train.py": program}).scan("GPU301")
    assert isinstance(found.fix, Fix)
