"""What of a job's script moves to a stage before it, and whether the job sees what that writes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.shell import Command, Script
from gpulint.documents.tasks import Task
from gpulint.fix import Edit
from gpulint.launch.transfer_commands import install_tool, words_of
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint_fixers.stages.blocks import ShellBlock, block_around
from gpulint_fixers.stages.pieces import Piece
from gpulint_fixers.stages.plan import Plan, plan
from gpulint_fixers.stages.writing import text_of

NO_BLOCK = "only commands with lines of their own in a block of text (`|`) are moved"
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE_HOME", "TORCH_HOME")


_PACKAGE = regex.compile(r"[A-Za-z0-9][\w.-]*")
_FOR_GPUS = frozenset(
    "flash-attn bitsandbytes vllm xformers apex transformer-engine mamba-ssm causal-conv1d deepspeed liger-kernel "
    "sglang flashinfer-python pynvml nvidia-ml-py".split()
)
"""Packages that are of no use, or cannot be built, where there is no GPU."""


def without_installs(project: Project, made: Plan) -> list[Piece]:
    """Take installs out of what moves: both containers need the packages, as neither sees the other's disk, but those
    for GPUs alone stay in the job."""
    installs = [
        piece for piece in made.moved if any(install_tool(project.models, command) for command in piece.commands)
    ]
    made.moved = [piece for piece in made.moved if piece not in installs]
    last = made.moved[-1].first if made.moved else 0
    return [piece for piece in installs if piece.first < last and not _is_for_gpus(piece)]


def _is_for_gpus(piece: Piece) -> bool:
    """``pip install flash-attn --no-build-isolation``, and nothing else."""
    return bool(piece.commands) and all(_installs_for_gpus(words_of(command)) for command in piece.commands)


def _installs_for_gpus(words: Sequence[str]) -> bool:
    at = list(words).index("install") if "install" in words else 0
    if not at or not words[at - 1].rpartition("/")[2].startswith("pip"):
        return False
    found = [_PACKAGE.match(word) for word in words[at + 1 :] if not word.startswith("-")]
    return bool(found) and all(one is not None and re.sub(r"[._]", "-", one[0]).lower() in _FOR_GPUS for one in found)


@dataclass(frozen=True, slots=True, eq=False)
class Divided:
    """A job, the block with its script, and what of that runs before."""

    document: Document
    task: Task
    block: ShellBlock
    plan: Plan
    installs: list[Piece]

    @property
    def body(self) -> str:
        """The script of the stage."""
        return text_of([*self.plan.context, *self.installs], self.plan.moved)

    @property
    def steps(self) -> str:
        """How much of it moves, in words."""
        count = len(self.plan.moved)
        return "the step" if count == 1 else f"{count} steps"

    def edits(self, note: str) -> list[Edit]:
        """Edits that take the steps out of the job, and say so in a comment."""
        path, moved = self.document.path, self.plan.moved
        at = self.block.outer(moved[0].start)
        comment = Edit(path, Span(at, 1, at, 1), f"{self.block.indent}# {note}\n")
        return [comment, *(Edit(path, lines_of(self.block, piece), "") for piece in moved)]

    def unseen(self, folders: Sequence[str], volume: str) -> str | None:
        """Return why the job would not see what its first steps write."""
        if not folders:
            return f"what it writes is gone with the container: mount {volume} in both"
        task, context = self.task, self.plan.context
        stray = next((one for one in self.plan.moved if not writes_to(one.commands, context, task, folders)), None)
        if stray is None:
            return None
        name = next((command.name for command in stray.commands if command.name), "it")
        return f"nothing shows that `{name}` writes to a folder that the next container sees ({folders[0]})"


def divide(project: Project, document: Document, task: Task, span: Span, *, needs: bool = True) -> Divided | str:
    """Return what moves of the script with a command, or why that does not; without ``needs`` others may."""
    block = block_around(document, span.line)
    if block is None:
        return NO_BLOCK
    inner = block.inner(span)
    made = plan(block.script, project.models, frozenset({inner} if needs else ()))
    if isinstance(made, str):
        return made
    kept = without_installs(project, made)
    if needs and not made.has(inner):
        return made.reasons.get(inner, "it runs in a function, or after the program")
    return Divided(document, task, block, made, kept) if made.moved else "nothing of it can move"


def lines_of(block: ShellBlock, piece: Piece) -> Span:
    return Span(block.outer(piece.start), 1, block.outer(piece.last) + 1, 1)


def writes_to(
    commands: Sequence[Command], context: Sequence[Piece | Script], task: Task, folders: Sequence[str]
) -> bool:
    """Return whether a step names a shared folder, works in one, or fills a cache that is in one."""
    words = [word.text for command in commands for word in command.argv[1:]]
    words += [redirect.target.raw for command in commands for redirect in command.redirects if redirect.target]
    if any(_is_in(path, folders) for word in words for path in _paths(word)):
        return True
    entered = [
        command.argv[1].text
        for other in context
        for command in other.commands
        if command.name == "cd" and len(command.argv) > 1
    ]
    where = entered[-1] if entered else task.working_dir or ""
    if _is_in(where, folders) and not any(path for word in words for path in _paths(word)):
        return True
    env = {item.name: item.value or "" for item in task.env}
    env |= {item.name: item.value.raw for other in context for item in other.assignments if item.value}
    fetches = any(command.name in ("hf", "huggingface-cli") for command in commands)
    return fetches and any(_is_in(env.get(name, ""), folders) for name in _CACHES)


def _paths(word: str) -> Iterator[str]:
    """Absolute paths in a word: ``/data``, ``--out=/data``, and Tekton's ``$(workspaces.data.path)/set``."""
    path = word.partition("=")[2] if word.startswith("-") and "=" in word else word
    if path.startswith(("/", "$(workspaces.")):
        yield path


def _is_in(path: str, folders: Sequence[str]) -> bool:
    path = posixpath.normpath(path.strip("\"'")) if path else ""
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)
