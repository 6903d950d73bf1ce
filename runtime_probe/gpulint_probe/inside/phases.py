"""What a stack says about what its thread is doing, by the table of phases."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gpulint import regex
from gpulint_probe.inside.records import Stack, of_program

HOST = "Python code"
"""The phase of a stack that no other one matches."""
HELPER = "helper process"
IDLE_WORKER = "loader process without work"
LOADER_STARTS = "start of loader processes"
AWAITS = "waiting for another thread or process"
LOCK = "waiting for a lock"
_OF_COMMANDS = {"COMPILE": "compilation", "INSTALL": "install", "DOWNLOAD": "download"}
_WORDS = regex.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True, slots=True)
class Phase:
    """``cause`` is the name of a Cause, or empty where the GPU has been given work; ``step`` marks training."""

    name: str
    cause: str = ""
    step: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """A stack, read: its phase, its place in the program, whether it waits for storage if it waits, and whether it is
    that of a loader process."""

    phase: Phase
    place: str
    storage: bool
    worker: bool
    weak: bool = False
    """The phase is only that of a function around, which may do other things as well."""
    by_call: bool = False
    """The phase is that of a call's name alone."""
    loop: bool = False
    """An event loop waits."""


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
        self._owners = frozenset(entry.get("of", []))
        self.weak = bool(entry.get("weak"))
        self.by_call = not self._frames
        self.of_ranks = bool(entry.get("ranks"))

    def match(self, frames: Sequence[tuple[str, str]], calls: Sequence[str]) -> bool:
        if self._leaf and not self._leaf.match(*frames[0]):
            return False
        if self._frames:
            return any(self._frames.match(*frame) for frame in frames)
        of = [call for call in calls if call.partition(".")[0] not in self._not_of]
        if self._owners:
            of = [call for call in of if not self._owners.isdisjoint(call.split(".")[:-1])]
        return not self._calls.isdisjoint(call.rpartition(".")[2] for call in of)


class _Word:
    def __init__(self, text: str) -> None:
        """Of the table: ``save+model,weights`` or ``log-prob,sum``."""
        self._word, sign, others = next((found for sign in "+-" if (found := text.partition(sign))[1]), (text, "", ""))
        self._others = frozenset(others.split(",")) if others else frozenset()
        self._with = sign == "+"

    def match(self, words: set[str]) -> bool:
        if self._word not in words:
            return False
        return not self._others or self._others.isdisjoint(words) is not self._with


class _Table:
    def __init__(self, data: Mapping[str, Any]) -> None:
        self.rules = [_Rule(entry) for entry in data["phase"]]
        self.storage = _Rule({"name": "storage", "frames": data["storage"]["frames"]})
        self.storage_calls = _Rule({"name": "storage", "calls": data["storage"]["calls"]})
        self.written = _Rule({"name": "written", "calls": data["written"]["calls"]})
        self.writers = frozenset(data["written"]["sure"])
        self.written_by = _Frames(data["written"]["frames"])
        self.words = {name: [_Word(text) for text in words] for name, words in data["words"].items()}
        self.commands = {command: cause for cause, commands in data["commands"].items() for command in commands}
        self.worker = _Frames(data["worker"]["frames"])
        self.loader = _Frames(data["loader"]["frames"])
        self.event_loop = _Rule({"name": "event loop", **data["event_loop"]})


@cache
def _table() -> _Table:
    return _Table(tomllib.loads(files(__package__).joinpath("phases.toml").read_text("utf-8")))


def phase_names() -> dict[str, str]:
    """The cause's name of each phase of the table, empty for phases in which the GPU has work."""
    return {rule.phase.name: rule.phase.cause for rule in _table().rules}


def read_stack(stack: Stack, folder: str, *, ranks: bool = False) -> Reading:
    """The reading of a single stack by the table alone; places below ``folder`` are given relative to it. ``ranks`` if
    the job has ranks that communicate."""
    table, frames, calls = _table(), _frames(stack), stack.call.split()
    rules = (rule for rule in table.rules if ranks or not rule.of_ranks)
    rule = next((rule for rule in rules if rule.match(frames, calls)), None)
    phase = rule.phase if rule else Phase(HOST, "HOST")
    storage = is_network(stack) or table.storage_calls.match(frames, [*calls, *_innermost(stack)])
    worker = any(table.worker.match(*frame) for frame in frames)
    loop = phase.name == HOST and table.event_loop.match(frames, calls)
    weak, by_call = (rule.weak, rule.by_call) if rule else (False, False)
    return Reading(phase, _place(stack, folder), storage, worker, weak, by_call, loop)


def is_network(stack: Stack) -> bool:
    """Return whether a library in a stack reads from a network."""
    return _table().storage.match(_frames(stack), [])


def is_loader(stack: Stack) -> bool:
    """Return whether a library in a stack loads batches, and does nothing else."""
    return any(_table().loader.match(*frame) for frame in _frames(stack))


def writes(stack: Stack) -> bool:
    """Return whether a stack is in a call that writes."""
    table = _table()
    called = table.written.match([], [*stack.call.split(), *_innermost(stack)])
    return called or any(table.written_by.match(*frame) for frame in _frames(stack))


def writer_calls() -> frozenset[str]:
    """Calls of a function that writes."""
    return _table().writers


def says(name: str, function: str) -> bool:
    """Return whether the qualified name of a function has a word of evaluation, checkpoint or logging."""
    found = {word.lower() for word in _WORDS.findall(function)}
    return any(word.match(found) for word in _table().words[name])


def command_phase(words: Iterable[str]) -> Phase | None:
    """The phase of a program that is started, if any of these is the name of one."""
    causes = _table().commands
    cause = next((causes[word] for word in words if word in causes), None)
    return Phase(_OF_COMMANDS[cause], cause) if cause else None


def named(name: str, stack: Stack) -> Phase | None:
    """The phase of a name if a rule of that name matches a stack, whatever other rules do."""
    rules = (rule for rule in _table().rules if rule.phase.name == name)
    return next((rule.phase for rule in rules if rule.match(_frames(stack), stack.call.split())), None)


def _frames(stack: Stack) -> list[tuple[str, str]]:
    """Module and function of the frames; in a forked loader process without those of its parent."""
    names = zip(stack.modules, stack.functions, strict=True)
    found = [(module, function.rpartition(".")[2]) for module, function in names] or [("", "")]
    loop = next((index for index, frame in enumerate(found) if _table().worker.match(*frame)), len(found))
    return found[: loop + 1]


def _innermost(stack: Stack) -> list[str]:
    """The name of the innermost function if it is of the program: it may be a file's ``read`` of its own."""
    own = stack.functions and of_program(stack.files[0])
    return [stack.functions[0].rpartition(".")[2]] if own else []


def _place(stack: Stack, folder: str) -> str:
    """The innermost line of the program itself, not of a library: ``train.py:12 in main``."""
    index = _own(stack)
    if index is None:
        return ""
    function = stack.functions[index]
    where = "" if function == "<module>" else f" in {function.replace('.<locals>', '')}"
    return f"{stack.files[index].removeprefix(folder.rstrip('/') + '/')}:{stack.lines[index]}{where}"


def _own(stack: Stack) -> int | None:
    """Return the index of the innermost frame that is not of a library."""
    for index, (file, function) in enumerate(zip(stack.files, stack.functions, strict=True)):
        if of_program(file) and function != "<frozen>":
            return index
    return None
