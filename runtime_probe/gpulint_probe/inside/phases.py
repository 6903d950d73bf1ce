"""What a stack says about what its thread is doing, by the table of phases."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from gpulint_probe.inside.records import Stack

HOST = "Python code"
"""The phase of a stack that no other one matches."""
HELPER = "helper process"
IDLE_WORKER = "loader process without work"
AWAITS = "waiting for another thread or process"
LOCK = "waiting for a lock"
_MODELS = ("torch.nn.modules", "torch.optim", "torch.autograd", "torch._tensor")
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python")


@dataclass(frozen=True, slots=True)
class Phase:
    """``cause`` is the name of a Cause, or empty where the GPU has been given work; ``step`` marks training."""

    name: str
    cause: str = ""
    step: bool = False


_MADE = Phase("input", "INPUT", step=True)
_WRITES = ("CHECKPOINT", "LOGGING")


@dataclass(frozen=True, slots=True)
class Reading:
    """A stack, read: its phase, its place in the program, whether it waits for storage if it waits, and whether it is
    that of a loader process."""

    phase: Phase
    place: str
    storage: bool
    worker: bool


class _Frames:
    """A set of patterns for frames."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._modules = {pattern for pattern in patterns if ":" not in pattern}
        self._exact = {pattern for pattern in patterns if ":" in pattern}

    def __bool__(self) -> bool:
        return bool(self._modules or self._exact)

    def match(self, module: str, function: str) -> bool:
        """Return whether a frame is one of these."""
        if f":{function}" in self._exact or f"{module}:{function}" in self._exact:
            return True
        return any(module == name or module.startswith(f"{name}.") for name in self._modules)


class _Rule:
    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.phase = Phase(entry["name"], entry.get("cause", ""), entry.get("step", False))
        self._frames = _Frames(entry.get("frames", []))
        self._leaf = _Frames(entry.get("leaf", []))
        self._calls = frozenset(entry.get("calls", []))
        self._not_of = frozenset(entry.get("not_of", []))
        self.of_ranks = bool(entry.get("ranks"))

    def match(self, frames: Sequence[tuple[str, str]], calls: Sequence[str]) -> bool:
        if self._leaf and not self._leaf.match(*frames[0]):
            return False
        if self._frames:
            return any(self._frames.match(*frame) for frame in frames)
        names = (call.rpartition(".")[2] for call in calls if call.partition(".")[0] not in self._not_of)
        return not self._calls.isdisjoint(names)


class _Table:
    def __init__(self, data: Mapping[str, Any]) -> None:
        self.rules = [_Rule(entry) for entry in data["phase"]]
        self.storage = _Rule({"name": "storage", "frames": data["storage"]["frames"]})
        self.storage_calls = _Rule({"name": "storage", "calls": data["storage"]["calls"]})
        self.written = _Rule({"name": "written", "calls": data["written"]["calls"]})
        self.worker = _Frames(data["worker"]["frames"])


@cache
def _table() -> _Table:
    return _Table(tomllib.loads(files(__package__).joinpath("phases.toml").read_text("utf-8")))


def phase_names() -> dict[str, str]:
    """The cause's name of each phase of the table, empty for phases in which the GPU has work."""
    return {rule.phase.name: rule.phase.cause for rule in _table().rules}


def read_stacks(stacks: Iterable[Stack], folder: str, *, ranks: bool = False) -> dict[int, Reading]:
    """The readings of stacks by their numbers; places below ``folder`` are given relative to it. ``ranks`` if the job
    has ranks that communicate.

    Python code in a generator makes batches, unless the generator itself trains (it yields a loss or a progress bar).
    What a function writes belongs to the checkpoint that it saves, or to its logging.
    """
    found = [(stack, read_stack(stack, folder, ranks=ranks)) for stack in stacks]
    train = {name for stack, _ in found if _computes(stack) for name in _generators(stack)}
    writers: dict[tuple[str, str], set[Phase]] = {}
    for stack, reading in found:
        if reading.phase.cause in _WRITES:
            writers.setdefault(_function(stack), set()).add(reading.phase)

    def phase(stack: Stack, reading: Reading) -> Phase:
        if reading.phase.name != HOST:
            return reading.phase
        if any(name not in train for name in _generators(stack)):
            return _MADE
        by_function = writers.get(_function(stack), set())
        writes = len(by_function) == 1 and _table().written.match([], stack.call.split())
        return next(iter(by_function)) if writes else reading.phase

    return {stack.id: replace(reading, phase=phase(stack, reading)) for stack, reading in found}


def _computes(stack: Stack) -> bool:
    """Return whether a model or an optimizer runs, not only functions of tensors."""
    return any(module.startswith(_MODELS) for module in stack.modules)


def _generators(stack: Stack) -> list[tuple[str, str]]:
    """The program's own generator functions in a stack."""
    inside = [index for index in stack.generators if index < len(stack.files)]
    return [
        (stack.files[index], stack.functions[index])
        for index in inside
        if not any(part in stack.files[index] for part in _LIBRARIES)
    ]


def read_stack(stack: Stack, folder: str, *, ranks: bool = False) -> Reading:
    """The reading of a single stack; see :func:`read_stacks`."""
    table = _table()
    frames = [
        (module, function.rpartition(".")[2]) for module, function in zip(stack.modules, stack.functions, strict=True)
    ] or [("", "")]
    calls = stack.call.split()
    rules = (rule for rule in table.rules if ranks or not rule.of_ranks)
    phase = next((rule.phase for rule in rules if rule.match(frames, calls)), Phase(HOST, "HOST"))
    storage = table.storage.match(frames, calls) or table.storage_calls.match(frames, calls)
    return Reading(phase, _place(stack, folder), storage, any(table.worker.match(*frame) for frame in frames))


def _place(stack: Stack, folder: str) -> str:
    """The innermost line of the program itself, not of a library: ``train.py:12 in main``."""
    index = _own(stack)
    if index is None:
        return ""
    function = stack.functions[index]
    where = "" if function == "<module>" else f" in {function.replace('.<locals>', '')}"
    return f"{stack.files[index].removeprefix(folder.rstrip('/') + '/')}:{stack.lines[index]}{where}"


def _function(stack: Stack) -> tuple[str, str]:
    """File and name of the innermost function of the program itself."""
    index = _own(stack)
    return ("", "") if index is None else (stack.files[index], stack.functions[index])


def _own(stack: Stack) -> int | None:
    """Return the index of the innermost frame that is not of a library."""
    for index, (file, function) in enumerate(zip(stack.files, stack.functions, strict=True)):
        if not (file.startswith("<") or any(part in file for part in _LIBRARIES) or function == "<frozen>"):
            return index
    return None
