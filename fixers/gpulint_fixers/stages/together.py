"""Copies and archives that a job lays out on its node's own disk, all at the same time instead of one by one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence, Set

from gpulint.documents import Document
from gpulint.documents.shell import Command
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.launch.job import Job
from gpulint.launch.local_copies import recurses
from gpulint.launch.transfer_commands import words_of
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint_fixers.stages.pieces import Piece, pieces

_UNPACKS = frozenset({"tar", "unzip", "unrar"})
_COPIES = frozenset({"cp", "rsync"})
_PLACES = _COPIES | {"scp", "mv"}
_MAKES = frozenset({"mkdir", "echo", "printf", "date"})
_TARGETS = {"tar": ("-C", "--directory"), "unzip": ("-d",)}
_MAX_AT_ONCE = 16
ALONE = "what it copies or unpacks goes to the node's own disk, and nothing beside it is independent"
_STOPS = re.compile(r"-\w*e|-o$|errexit")


@dataclass(frozen=True, eq=False)
class _Transfer:
    """A command that reads ``sources`` and fills ``target``; both as written, without quotes and braces."""

    command: Command
    sources: tuple[str, ...]
    target: str


@dataclass(frozen=True, eq=False)
class _Step:
    """Lines that can start in the background: one transfer, or a loop of them."""

    piece: Piece
    transfers: tuple[_Transfer, ...]
    times: int
    """How often each transfer runs, at least 1."""

    @property
    def is_long(self) -> bool:
        """Whether it unpacks an archive or copies a folder."""
        return any(one.command.name in _UNPACKS or recurses(words_of(one.command)) for one in self.transfers)


def together(project: Project, document: Document, job: Job, span: Span) -> Fix | Declined:
    """The fix that starts the transfer at ``span`` and its neighbours at the same time, and waits for all of them."""
    (script,) = document.scripts
    group = next(
        (group for group in _groups(project, document) if any(_covers(step.piece, span) for step in group)), None
    )
    if group is None or sum(step.times for step in group if step.is_long) < 2:
        return Declined(ALONE)
    if any(command.name == "set" and _stops(command) for command in script.commands):
        return Declined("the script stops at the first error, which commands in the background do not cause")
    if any(command.background for command in script.commands):
        return Declined("`wait` would also wait for what the script has in the background")
    unpacks = any(one.command.name in _UNPACKS for step in group for one in step.transfers)
    if unpacks and job.task.system == "slurm" and _cores(job) < 2:
        return Declined("the job has one core, on which archives cannot be unpacked at the same time")
    return Fix(
        "copy and unpack at the same time what is independent, and wait for all of it before the program starts",
        Safety.UNSAFE,
        tuple(_edits(document, group)),
    )


def _cores(job: Job) -> int:
    """The cores that the batch script has on its node: those of all its tasks there."""
    per_task, tasks = (count.value if count is not None else None for count in (job.cpus, job.tasks_per_node))
    return (per_task or 1) * (tasks or 1)


def _stops(command: Command) -> bool:
    return any(_STOPS.match(word.text) for word in command.argv[1:])


def _covers(piece: Piece, span: Span) -> bool:
    return piece.first <= span.line <= piece.last


@query
def _groups(project: Project, document: Document) -> tuple[list[_Step], ...]:
    """Return the runs of independent steps of a script, from the first long step of each to its last."""
    return tuple(map(_without_short_ends, _runs(document)))


def _runs(document: Document) -> Iterator[list[_Step]]:
    """Runs of independent steps with nothing but new folders, messages and variables between them."""
    group, placed = list[_Step](), set[str]()
    for piece in pieces(document) or ():
        step = _step(piece)
        placed.update(path for command in piece.commands for path in _placed(command))
        if step is None:
            passes = all(command.name in _MAKES and not command.blocks for command in piece.commands)
            if not passes or piece.functions:
                yield group
                group = []
            continue
        earlier = [one for at in group for one in at.transfers]
        if any(_depends(later, one, placed) for later in step.transfers for one in earlier):
            yield group
            group = []
        group.append(step)
    yield group


def _without_short_ends(group: list[_Step]) -> list[_Step]:
    """A run from its first long step to the last: single files are not worth waiting for."""
    numbers = [number for number, step in enumerate(group) if step.is_long]
    return group[numbers[0] : numbers[-1] + 1] if numbers else []


def _step(piece: Piece) -> _Step | None:
    """The transfers of a piece; None if it does anything else."""
    if piece.functions:
        return None
    others = [command for command in piece.commands if command.name not in _MAKES]
    transfers = [found for command in others if (found := _transfer(command)) is not None]
    if not transfers or len(transfers) < len(others):
        return None
    loops = {block.key: block for command in piece.commands for block in command.blocks}
    if not loops:
        alone = len(piece.commands) == 1 and not piece.assignments and _is_whole(piece, transfers[0].command)
        return _Step(piece, tuple(transfers), 1) if alone else None
    times = _times(piece)
    (first, *more) = loops.values()
    each = all(any(piece_name in source for source in one.sources for piece_name in _names(piece)) for one in transfers)
    simple = not more and first.kind == "loop" and all(_is_whole(piece, one.command) for one in transfers)
    if times is None or not simple or not each or times * len(transfers) > _MAX_AT_ONCE * 2:
        return None
    return _Step(piece, tuple(transfers), times)


def _names(piece: Piece) -> list[str]:
    """``$id`` for the variable of the loop."""
    return [f"${item.name}" for item in piece.assignments if item.choices is not None]


def _times(piece: Piece) -> int | None:
    """Return how many words the loop goes through, as far as they are written out in the script."""
    loops = [item for item in piece.assignments if item.choices is not None]
    if len(loops) != 1 or len(piece.assignments) != 1:
        return None
    (script,) = {command.script for command in piece.commands}
    words = script.expander().words(loops[0].choices or (), piece.commands[0])
    known = all(word.known and not re.search(r"[*?{]", word.text) for word in words)
    return len(words) if words and known and len(words) <= _MAX_AT_ONCE else None


def _transfer(command: Command) -> _Transfer | None:
    """Return what a command unpacks or copies, and where to; None if it is another command, or not certain."""
    raw = [re.sub(r"[\"'{}]", "", word.raw) for word in command.words]
    if command.name not in _UNPACKS | _COPIES or raw[:1] != [command.name] or command.heredoc is not None:
        return None
    if command.piped_from or command.piped_to or command.in_function or command.in_subshell or command.conditional:
        return None
    flags = _TARGETS.get(command.name, ())
    target = next((raw[at + 1] for at, word in enumerate(raw[:-1]) if word in flags), "")
    plain = [word for word in raw[1:] if not word.startswith("-") and word != target]
    if command.name == "tar":
        if "x" not in raw[1] and "--extract" not in raw:
            return None
        plain = plain[0 if raw[1].startswith("-") else 1 :][:1]
    elif command.name == "unzip":
        plain = plain[:1]
    elif len(plain) >= 2:
        *plain, target = plain
    else:
        return None
    return _Transfer(command, tuple(plain), posixpath.normpath(target or ".")) if plain else None


def _placed(command: Command) -> Iterator[str]:
    """Paths that a copy makes by name: ``$TMPDIR/a.zip`` of ``cp store/a.zip $TMPDIR``."""
    if command.name not in _PLACES or command.conditional or command.in_function:
        return
    plain = [word for word in command.argv[1:] if not word.word.raw.startswith("-")]
    if len(plain) >= 2:
        target = re.sub(r"[\"'{}]", "", plain[-1].word.raw)
        names = [re.split(r"[/:]", word.text.rstrip("/"))[-1] for word in plain[:-1]]
        yield from (posixpath.normpath(posixpath.join(target, name)) for name in names)
        if posixpath.splitext(target)[1]:
            yield posixpath.normpath(target)


def _depends(later: _Transfer, earlier: _Transfer, placed: Set[str]) -> bool:
    """Return whether a transfer may read what an earlier one writes, or write below what that makes.

    An archive that a copy has put in its place (``placed``) comes from no archive that is unpacked beside it.
    """
    unpacked = earlier.command.name in _UNPACKS
    sources = [one for one in later.sources if not unpacked or posixpath.normpath(one) not in placed]
    if any(_is_below(source, earlier.target) for source in sources):
        return True
    return later.target != earlier.target and _is_below(later.target, earlier.target)


def _is_below(path: str, folder: str) -> bool:
    path = posixpath.normpath(path)
    if folder == ".":
        return not path.startswith(("/", "~", "$"))
    return path == folder or path.startswith(f"{folder}/")


def _is_whole(piece: Piece, command: Command) -> bool:
    """Return whether a command has its lines for itself."""
    source, span = piece.source, command.span
    before = source.line(span.line)[: span.column - 1]
    after = source.line(span.end_line)[span.end_column - 1 :].strip()
    return not before.strip() and (not after or after.startswith("#")) and not command.redirects


def _edits(document: Document, group: Sequence[_Step]) -> Iterator[Edit]:
    for step in group:
        for one in step.transfers:
            span = one.command.span
            yield Edit(document.path, Span(span.end_line, span.end_column, span.end_line, span.end_column), " &")
    last = group[-1].piece
    yield Edit(document.path, Span(last.last + 1, 1, last.last + 1, 1), "wait\n")
