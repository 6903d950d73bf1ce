"""Whether a program can use a GPU at all, and how it spreads its work over several.

Both are read off the program and the modules of the tree that it imports. Absence counts only where all is known: one
import that nobody has heard of makes the answer unknown.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.facts.collecting import collect_scopes
from gpulint.facts.gpu_libraries import (
    CPU_ONLY,
    FRAMEWORKS,
    GPU_LIBRARIES,
    HINT,
    OPAQUE,
    PLAIN_COMMANDS,
    SECOND_DEVICE,
    SOMETIMES,
    TOKENS,
    WHOLE_ON_ONE,
    Approach,
)
from gpulint.facts.scopes import ModuleScopes
from gpulint.finding import Place

if TYPE_CHECKING:
    from gpulint.documents.shell import Command
    from gpulint.jobs import Job, JobLaunch
    from gpulint.project import Project

MAX_MODULES = 80
"""Most modules that one program is followed through."""


class Use(enum.Enum):
    """Whether GPUs are used."""

    YES = enum.auto()
    NO = enum.auto()
    UNKNOWN = enum.auto()


@dataclass(frozen=True, slots=True)
class Parallel:
    """One sign of parallel work in a program."""

    approach: Approach
    name: str
    place: Place


_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_TRAINS = re.compile(r"\.backward\(|\.fit\w*\(|\w*[Tt]rain\w*\(|GradientTape|value_and_grad|\.step\(")
_WORD = re.compile(r"[A-Za-z_]\w*")


class Program:
    """One program: its module and those of the tree that it imports."""

    def __init__(self, modules: tuple[ModuleScopes, ...], heads: frozenset[str], *, cut: bool) -> None:
        self.modules, self._heads, self._cut = modules, heads, cut

    @cached_property
    def use(self) -> Use:
        """YES with an import of a GPU library; NO only where every import is known to do without."""
        if self._heads & GPU_LIBRARIES:
            return Use.YES
        known = self._heads <= CPU_ONLY | SOMETIMES | sys.stdlib_module_names
        texts = [scopes.module.source.text for scopes in self.modules]
        if self._cut or not known or not texts or any(HINT.search(text) or OPAQUE.search(text) for text in texts):
            return Use.UNKNOWN
        return Use.NO

    @property
    def libraries(self) -> frozenset[str]:
        """GPU libraries that it imports, by their top-level names."""
        return self._heads & GPU_LIBRARIES

    @cached_property
    def parallel(self) -> tuple[Parallel, ...]:
        """All signs of parallel work, also where it is only named: an empty answer is what can be trusted."""
        return tuple(sign for scopes in self.modules for sign in _signs(scopes))

    @cached_property
    def pinned(self) -> Place | None:
        """Where a device map puts the whole model on one GPU."""
        for scopes in self.modules:
            if match := WHOLE_ON_ONE.search(scopes.module.source.text):
                return Place(scopes.path, scopes.module.span_at(*match.span()), "the whole model goes to one GPU")
        return None


class GpuUse:
    """GPU use of the programs of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._programs: dict[Path, Program] = {}

    def of(self, path: Path) -> Program:
        """The program in a file of the tree."""
        if path not in self._programs:
            scopes = self._project.scopes_at(path)
            self._programs[path] = self._program([scopes] if scopes is not None else [])
        return self._programs[path]

    def started(self, start: JobLaunch) -> Program | None:
        """The program that a launch starts, also one whose text a job spec carries; None if it is unknown."""
        if start.program is not None:
            return self.of(start.program)
        if start.module is not None:
            return self._program([collect_scopes(start.module)])
        return None

    def uses(self, job: Job) -> Use:
        """Whether anything that the job starts uses a GPU; NO only if all of it is known to use none."""
        answers: set[Use] = set()
        for start in job.launches:
            program = self.started(start)
            if program is not None:
                answers.add(program.use)
            elif start.script is None and not _is_tool(start):
                answers.add(Use.UNKNOWN)
        for item in job.commands:
            if item.command.name not in PLAIN_COMMANDS and not _starts(job, item.command):
                answers.add(Use.UNKNOWN)
        if Use.YES in answers:
            return Use.YES
        return Use.UNKNOWN if Use.UNKNOWN in answers or not job.commands else Use.NO

    def trains(self, program: Program) -> bool:
        """Whether the program, or a module that it imports, trains or fits something."""
        return any(_TRAINS.search(scopes.module.source.text) for scopes in program.modules)

    def _program(self, modules: list[ModuleScopes]) -> Program:
        seen = {scopes.path for scopes in modules}
        heads: set[str] = set()
        at = 0
        while at < len(modules) and len(modules) <= MAX_MODULES:
            scopes = modules[at]
            at += 1
            heads |= self._foreign(scopes)
            for path in sorted(self._project.imported(scopes.path) - seen):
                seen.add(path)
                if (other := self._project.scopes_at(path)) is not None:
                    modules.append(other)
        return Program(tuple(modules), frozenset(heads), cut=at < len(modules))

    def _foreign(self, scopes: ModuleScopes) -> set[str]:
        """Top-level names of the modules that are imported from outside of the tree."""
        found = set()
        for binding in scopes.imports:
            target = self._project.absolute(binding.target, scopes)
            head = target.partition(".")[0]
            if binding.target.startswith("."):
                continue
            if head in GPU_LIBRARIES or self._project.module_path(head, scopes.path) is None:
                found.add(head)
        return found


def _is_tool(start: JobLaunch) -> bool:
    """``python -m pip``, ``srun hostname``: no program of the user's own."""
    return start.launch.module in ("pip", "venv", "ensurepip", "compileall")


def _starts(job: Job, command: Command) -> bool:
    return any(start.launch.command is command for start in job.launches)


def _signs(scopes: ModuleScopes) -> Iterator[Parallel]:
    text = _COMMENT.sub(lambda match: " " * len(match.group()), scopes.module.source.text)
    seen = set[str]()
    for match in _WORD.finditer(text):
        name = match.group()
        approach = TOKENS.get(name) or (Approach.FRAMEWORK if FRAMEWORKS.fullmatch(name) else None)
        if approach is not None and name not in seen:
            seen.add(name)
            yield Parallel(approach, name, Place(scopes.path, scopes.module.span_at(*match.span())))
    if second := SECOND_DEVICE.search(text):
        yield Parallel(Approach.MODEL, second.group(), Place(scopes.path, scopes.module.span_at(*second.span())))
