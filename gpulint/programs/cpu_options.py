"""Commands whose arguments keep a program on the CPU: ``--accelerator cpu``, ``--no-cuda``, ``trainer.accelerator=cpu``
of Hydra."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.option_parser import passed_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.launch.job import Job, JobLaunch

_DEVICES = frozenset({"accelerator", "device", "device-type", "trainer"})
"""What says on which device a program computes, by the last part of a dotted name (``--trainer.accelerator``); with
``trainer=cpu`` Hydra takes the trainer's configuration for the CPU."""
_OFF = frozenset({"no-cuda", "no-gpu", "use-cpu", "cpu-only", "disable-cuda"})
"""Switches that leave the GPUs aside, as does ``--cpu``; ``--cpu 1`` is a number of cores."""
_COUNTS = frozenset({"gpus", "num-gpus", "n-gpus", "n-gpu", "ngpus"})
"""Numbers of GPUs. In a job without any, ``--gpus 0`` is no number of one of them."""
_TRUE = frozenset({"true", "1", "yes"})
_NAMES_GPU = regex.compile(r"(?:^|[=\s\"'])(?:cuda|gpu)(?::\d{1,3})?$", re.IGNORECASE)
"""Arguments that put something on a GPU beside that."""


def told_to_use_cpu(job: Job, start: JobLaunch) -> bool:
    """Return whether a job that requests no GPU tells a program to compute on the CPU, and names no GPU beside that."""
    if job.gpus is not None and job.gpus.value != 0:
        return False
    given = dict(arguments_of(start))
    if any(value is not None and _NAMES_GPU.search(value) for value in given.values()):
        return False
    return any(value is not None and _says_cpu(name, value.lower()) for name, value in given.items())


def arguments_of(start: JobLaunch) -> Iterator[tuple[str, str | None]]:
    """Yield the names and values of the options and of Hydra's overrides that a command passes; names have ``-`` for
    ``_``."""
    for name, option in passed_options(start.launch.args).items():
        yield name.lstrip("-").replace("_", "-"), option.value
    for word in start.launch.args:
        name, equals, _ = word.text.partition("=")
        if equals and not name.startswith("-"):
            yield name.lstrip("+~").replace("_", "-"), word.after(len(name) + 1).value


def _says_cpu(name: str, value: str) -> bool:
    last = name.rpartition(".")[2]
    return (
        (last in _DEVICES and value.strip("\"'") == "cpu")
        or (last in _OFF and value in _TRUE)
        or (last == "cpu" and value == "true")
        or (last in _COUNTS and value == "0")
    )
