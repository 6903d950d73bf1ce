"""The text of a stage before a job, and the edits that take its steps out of the job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpulint.documents import Document
from gpulint.fix import Edit
from gpulint.launch.job import Job
from gpulint.launch.transfer_commands import install_tool
from gpulint.libraries import Models
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint_fixers.edits.statements import without_gaps
from gpulint_fixers.stages import slurm
from gpulint_fixers.stages.announcements import only_says
from gpulint_fixers.stages.caches import are_shared
from gpulint_fixers.stages.kinds import CONTAINER_OPTIONS, CONTAINERS, repeats
from gpulint_fixers.stages.pieces import Piece, is_directive
from gpulint_fixers.stages.plan import Plan
from gpulint_fixers.stages.prefetch import Prefetch


def can_fetch(job: Job, document: Document, made: Plan, models: Models) -> bool:
    """Return whether a step before the job could fill the hub's cache that the job's program reads."""
    program = made.program
    if program is None or CONTAINER_OPTIONS.search(program.text):
        return False
    if any(word in program.text for word in CONTAINERS):
        return False
    (script,) = document.scripts
    if any(install_tool(models, command) and not made.has(command.span) for command in script.commands):
        return False  # the packages may not be there before the job
    return are_shared(job, document)


_COMPUTES = re.compile(r"\bpython[\d.]*\s+(?!-m\s+(?:venv|virtualenv|pip)\b|-c\b)|SLURM_CPUS_PER_TASK")
"""A stage that needs the job's cores and memory, other than for installs and downloads."""


@dataclass(frozen=True, eq=False)
class Stage:
    """What runs before a script: pieces of it, and downloads of its programs."""

    document: Document
    plan: Plan
    fetch: Prefetch
    is_job: bool

    @property
    def name(self) -> str:
        """The stage's file."""
        path = self.document.path
        stem = re.sub(r"(?i)^submit[_-]?|[_-]?submit$", "", path.stem)
        return f"{stem}_prepare{path.suffix or '.sh'}" if stem else f"prepare{path.suffix or '.sh'}"

    @property
    def submit(self) -> str:
        """The file that submits both, if they are jobs."""
        stem = self.document.path.stem
        if not self.is_job:
            return ""
        return f"{stem}_all.sh" if "submit" in stem.lower() else f"{stem}_submit.sh"

    @property
    def goes_on(self) -> bool:
        """Whether the job starts although a step of the stage failed, as the script went on after an installation that
        did."""
        return self.is_job and self.plan.installs and not self.fetch.lines and not self._sets_options

    @property
    def _sets_options(self) -> bool:
        return any(command.name == "set" for piece in self.plan.context for command in piece.commands)

    def description(self) -> str:
        """Return what the fix does."""
        count = len(self.plan.moved) + len(self.fetch.lines)
        what = "the step" if count == 1 else f"{count} steps"
        how = (
            f"a job without GPUs; submit both with {self.submit}" if self.submit else "which needs no GPU; run it first"
        )
        said = f"move {what} before the program to {self.name}, {how}; both must see the folders that are written"
        left = slurm.site_defaults(self.document) if self.is_job else ""
        return f"{said}; the new job takes the site's default {left}" if left else said

    def text(self) -> str:
        """The script."""
        first, moved = self.document.source.line(1), self.plan.moved
        computes = any(_COMPUTES.search(piece.text) for piece in moved)
        where = "in a job that holds none" if self.is_job else "to run where none is held"
        lines = [
            first if first.startswith("#!") else "#!/bin/bash",
            f"# What {self.document.path.name} does before its program uses a GPU, {where}.",
            "# It assumes that the folders and environments that it writes are on storage that both see.",
            *(slurm.header(self.document, cpus=computes) if self.is_job else ()),
            "",
        ]
        body = [line for line in self._body().strip("\n").split("\n") if self._submission(line) is None]
        return "\n".join(lines).rstrip("\n") + "\n\n" + "\n".join(body) + "\n"

    def _body(self) -> str:
        context = dict.fromkeys([*self.plan.context, *(self.plan.before if self.fetch.lines else ())])
        stops = not (
            any(repeats(piece.text) for piece in self.plan.moved)
            or any(command.name == "set" for piece in context for command in piece.commands)
            or self.goes_on
        )
        why = "the job starts only if all of this succeeds" if self.is_job else "what follows needs what comes before"
        guard = f"set -e  # {why}\n" if stops else ""
        text = ""
        for piece in sorted([*context, *self.plan.moved], key=lambda piece: piece.first):
            if guard and piece in self.plan.moved and not (self.is_job and self.plan.installs):
                text, guard = f"{text}\n{guard}{_shown(piece)}", ""
                continue
            text += f"\n{_shown(piece)}" if _gap(piece) else _shown(piece)
        if self.fetch.lines:
            text += f"\n{guard}" + "".join(f"{line}\n" for line in self.fetch.lines)
        return text

    def edits(self) -> list[Edit]:
        """Edits that take the pieces out, and put a note in the place of the first one."""
        moved, path = self.plan.moved, self.document.path
        first = moved[0].start if moved else self._paragraph()
        lines, says = list[tuple[int, int]](), False
        for piece in moved:
            joins = says and piece.start == lines[-1][1] + 1  # what a line announces goes with it
            lines[-1:] = [(lines[-1][0], piece.last)] if joins else [*lines[-1:], (piece.start, piece.last)]
            says = only_says(piece)
        removals = [Edit(path, Span(start, 1, last + 1, 1), "") for start, last in lines]
        below = self.document.source.line(lines[0][1] + 1 if lines else first)
        gap = "\n" if below.startswith("#") and not below.startswith(("#SBATCH", "#!")) else ""  # a comment of its own
        note = Edit(path, Span(first, 1, first, 1), self._note() + gap)
        return [note, *removals[:1], *without_gaps(self.document.source, removals)[1:], *self._usage()]

    def _usage(self) -> Iterator[Edit]:
        """Edits of comments that say how the job is submitted: it needs the stage now."""
        source, moved = self.document.source, self.plan.moved
        for number in range(1, len(source.line_starts) + 1 if self.submit else 1):
            found = self._submission(source.line(number))
            if found is not None and not any(piece.start <= number <= piece.last for piece in moved):
                span = Span(number, found.start() + 1, number, found.end() + 1)
                yield Edit(self.document.path, span, f"bash {found[1]}{self.submit}")

    def _submission(self, line: str) -> re.Match[str] | None:
        """``sbatch jobs/train.sh`` in a comment, where that is this script."""
        if not line.lstrip().startswith("#") or is_directive(line.lstrip()):
            return None
        return re.search(rf"\bsbatch\s+((?:[\w.~-]*/)*){re.escape(self.document.path.name)}(?![\w.-]*\w)", line)

    def _paragraph(self) -> int:
        """The first line of the program's paragraph, below an empty line or the directives."""
        source, first = self.document.source, self.plan.program.start if self.plan.program is not None else 1
        while first > 1 and source.line(first - 1).strip() and not source.line(first - 1).startswith(("#!", "#SBATCH")):
            first -= 1
        return first

    def _note(self) -> str:
        if not self.is_job:
            return f"# Run {self.name} first, where no GPU is held: it prepares the data.\n"
        lines = [f"# {self.name} has prepared this job; {self.submit} submits both."]
        if self.fetch.complete:
            lines.append("export HF_HUB_OFFLINE=1  # all that the program loads has been fetched")
        return "".join(f"{line}\n" for line in lines)


def text_of(context: Sequence[Piece], moved: Sequence[Piece]) -> str:
    """The text of pieces in order, as a script that a container runs."""
    chosen = sorted(dict.fromkeys([*context, *moved]), key=lambda piece: piece.first)
    return "".join(f"\n{_shown(piece)}" if _gap(piece) else _shown(piece) for piece in chosen).strip("\n") + "\n"


def _shown(piece: Piece) -> str:
    return piece.comments + piece.text


def _gap(piece: Piece) -> bool:
    """Return whether an empty line stands above."""
    return not piece.source.line(piece.start - 1).strip()
