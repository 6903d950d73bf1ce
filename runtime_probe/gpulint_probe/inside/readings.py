"""What the stacks of a recording say together: phases by the table, and by where in the program the code is.

The table knows functions of libraries and usual names. What no name tells, the flow of the program's values does: code
whose results go into the next step prepares input, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpulint_probe.inside.phases import (
    AWAITS,
    HOST,
    Phase,
    Reading,
    command_phase,
    is_loader,
    is_network,
    named,
    read_stack,
    says,
    writer_calls,
    writes,
)
from gpulint_probe.inside.records import Stack, Statement, of_program
from gpulint_probe.inside.roles import Flow, Role
from gpulint_probe.inside.statements import Frame

_MODELS = ("torch.nn.modules", "torch.optim", "torch.autograd", "torch._tensor")
_WRITES = ("CHECKPOINT", "LOGGING")
_STEPS = ("forward", "backward", "optimizer")
_UPDATES = ("backward", "optimizer")
_OF_PEOPLE = ("START", "INSTALL", "INTERACTIVE", "CHECKPOINT", "COMMUNICATION", "COMPILE")
"""Causes that an evaluation does not hide."""
_MADE = Phase("input", "INPUT", step=True)
_LOGGED = Phase("logging", "LOGGING")
_SAVED = Phase("checkpoint", "CHECKPOINT")
_EVALUATED = Phase("evaluation", "EVALUATION")
_ASKED = Phase("prompt", "INTERACTIVE")
_LAUNCHED = Phase("forward", step=True)
_WAITED = Phase("synchronization", step=True)
_NUMBERS = ("float", "int", "bool")
_HOST = Phase(HOST, "HOST")


def read_stacks(
    stacks: Iterable[Stack], folder: str, *, ranks: bool = False, statements: Iterable[Statement] = ()
) -> dict[int, Reading]:
    """The readings of stacks by their numbers; places below ``folder`` are given relative to it. ``ranks`` if the job
    has ranks that communicate."""
    found = [(stack, read_stack(stack, folder, ranks=ranks)) for stack in stacks]
    told = _Together(found, folder, statements, ranks)
    return {stack.id: told.read(stack, reading) for stack, reading in found}


class _Together:
    def __init__(
        self, found: Sequence[tuple[Stack, Reading]], folder: str, statements: Iterable[Statement], ranks: bool
    ) -> None:
        self._folder, self._ranks = folder, ranks
        self._train = {name for stack, _ in found if _computes(stack) for name in _generators(stack)}
        self._writers: dict[tuple[str, str], set[Phase]] = {}
        for stack, reading in found:
            if reading.phase.cause in _WRITES:
                self._writers.setdefault(_function(stack), set()).add(reading.phase)
        told = {stack.id: reading for stack, reading in found}
        steps = [stack for stack, reading in found if reading.phase.name in _STEPS and not reading.weak]
        steps = [stack for stack in steps if not told[stack.id].by_call] or steps
        updates = [stack for stack, reading in found if reading.phase.name in _UPDATES]
        self._flow = Flow(statements, steps, updates)
        self._frames = {stack.id: self._flow.frames(stack) for stack, _ in found}
        evaluates = {stack.id for stack, _ in found if self._flow.evaluates(self._frames[stack.id])}
        # Where all steps are in evaluations, the job is one: inference.
        trains = self._flow.trains or any(stack.id not in evaluates for stack in steps)
        self._evaluates = evaluates if trains else set()

    def read(self, stack: Stack, reading: Reading) -> Reading:
        """The reading of a stack among all others."""
        frames = self._frames[stack.id]
        phase = reading.phase
        if stack.id in self._evaluates and phase.cause not in _OF_PEOPLE:
            return replace(reading, phase=_EVALUATED)
        if reading.loop and (awaited := self._flow.awaiting(frames)):
            role, at = awaited
            phase = _LOGGED if role is Role.AFTER else Phase(AWAITS, "INPUT")
            return replace(reading, phase=phase, storage=True, place=self._place(at))
        role = self._role(stack, frames)
        storage = reading.storage
        if phase.name == HOST and frames and (started := self._started(stack, frames[-1].statement, role)):
            phase, storage = started, storage or started is _MADE
        elif phase.name == HOST:
            hook = role is Role.NONE and self._flow.in_hook(frames)
            phase = self._code(stack, reading, frames, Role.AFTER if hook else role)
        elif reading.weak or phase.cause == "DOWNLOAD":
            if role is Role.FEEDS:
                phase = _MADE
            elif role is Role.AFTER and phase.cause == "DOWNLOAD":
                phase = self._saved(stack, frames, role) or _LOGGED
        elif role is Role.AFTER and phase.cause == "INPUT":
            phase = self._no_input(stack, reading, frames)
        return replace(reading, phase=phase, storage=storage)

    def _role(self, stack: Stack, frames: Sequence[Frame]) -> Role:
        """The role of a stack; what is computed before a step is for it, unless it is a metric by its name."""
        role = self._flow.role(stack, frames)
        if role is Role.BEFORE:
            metric = self._says("metric", stack, frames) or self._says("evaluation", stack, frames)
            return Role.NONE if metric else Role.FEEDS
        return role

    def _place(self, at: Statement) -> str:
        return f"{at.file.removeprefix(self._folder.rstrip('/') + '/')}:{at.first}"

    def _code(self, stack: Stack, reading: Reading, frames: Sequence[Frame], role: Role) -> Phase:
        """The phase of code that no name tells.

        Python code in a generator makes batches, unless the generator itself trains (it yields a loss or a progress
        bar). What a function writes belongs to the checkpoint that it saves, or to its logging.
        """
        if any(name not in self._train for name in _generators(stack)):
            return _MADE
        if role is not Role.FEEDS and (saved := self._saved(stack, frames, role)):
            return saved
        if self._flow.polls(frames):
            data = role is not Role.AFTER and self._flow.awaits_input(frames)
            return Phase(AWAITS, "COMMUNICATION" if self._ranks else "INPUT" if data else "HOST")
        if stack.call in ("", *_NUMBERS) and self._flow.of_tensors(frames, ""):
            asked = stack.call or frames[-1].statement.kind in ("if", "while")  # whether a tensor is true
            return _WAITED if asked else _LAUNCHED
        if role is Role.FEEDS:
            return _MADE
        if self._says("evaluation", stack, frames):
            return _EVALUATED
        aside = stack.modules[-1:] == ["threading"] and self._flow.shared(frames) < 0
        written = writes(stack) and (aside or role is Role.AFTER)
        written = written or (role is Role.AFTER and self._in_writer(stack, frames))
        reported = role is Role.AFTER and (is_network(stack) or self._says("logging", stack, frames))
        if written or reported or named("logging", stack):
            return _LOGGED
        return _LAUNCHED if stack.call and self._flow.of_tensors(frames, stack.call) else reading.phase

    def _says(self, name: str, stack: Stack, frames: Sequence[Frame]) -> bool:
        """Return whether a function that the shared one calls has a word of ``name`` in its own."""
        inner = frames[self._flow.shared(frames) + 1 :]
        return any(says(name, stack.functions[frame.index]) for frame in inner)

    def _in_writer(self, stack: Stack, frames: Sequence[Frame]) -> bool:
        """Return whether a function that writes prepares that, or waits for it. A metric is none by its name."""
        inner = frames[self._flow.shared(frames) + 1 :]
        return self._flow.calls_one_of(inner[:1], writer_calls()) and not self._says("metric", stack, frames)

    def _started(self, stack: Stack, at: Statement, role: Role) -> Phase | None:
        """The phase of a command that a statement waits for, or of a person."""
        if "stdin" in at.words and stack.modules[0] != "subprocess":
            return _ASKED
        phase = command_phase(at.words) if "subprocess" in stack.modules or "os" in stack.call.split(".") else None
        if phase is not None and phase.cause == "DOWNLOAD" and role is not Role.NONE:
            return _MADE if role is Role.FEEDS else _SAVED if at.state else _LOGGED
        return phase

    def _saved(self, stack: Stack, frames: Sequence[Frame], role: Role) -> Phase | None:
        """The phase of what writes in a function that saves or logs, or writes weights."""
        if writes(stack) or is_network(stack):
            by_function = self._writers.get(_function(stack), set())
            if writes(stack) and len(by_function) == 1:
                return next(iter(by_function))
            aside = self._flow.shared(frames) < 0
            if (aside or role is Role.AFTER) and self._flow.has_state(frames):
                return _SAVED
        return _SAVED if role is Role.AFTER and self._says("checkpoint", stack, frames) else None

    def _no_input(self, stack: Stack, reading: Reading, frames: Sequence[Frame]) -> Phase:
        """The phase of what looks like input and follows a step."""
        if is_loader(stack):
            return reading.phase
        if reading.phase.name == AWAITS:
            return Phase(AWAITS, "HOST")
        other = named("logging", stack)
        return other or self._code(stack, replace(reading, phase=_HOST), frames, Role.AFTER)


def _computes(stack: Stack) -> bool:
    """Return whether a model or an optimizer runs, not only functions of tensors."""
    return any(module.startswith(_MODELS) for module in stack.modules)


def _generators(stack: Stack) -> list[tuple[str, str]]:
    """The program's own generator functions in a stack."""
    inside = [index for index in stack.generators if index < len(stack.files)]
    return [(stack.files[index], stack.functions[index]) for index in inside if of_program(stack.files[index])]


def _function(stack: Stack) -> tuple[str, str]:
    """File and name of the innermost function of the program itself."""
    for file, function in zip(stack.files, stack.functions, strict=True):
        if of_program(file):
            return file, function
    return "", ""
