"""Folders that some statements of a command write and later ones read, handed on by a system instead."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.shell import Command
from gpulint.documents.yamltree import Node
from gpulint.fix import Edit
from gpulint.launch.transfer_commands import copy_tool, download_tool
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint_fixers.stages.chains import Chain, chain
from gpulint_fixers.stages.divided import without_installs
from gpulint_fixers.stages.kinds import Role, role
from gpulint_fixers.stages.plan import plan

_PATH = regex.compile(r"([\w-]*=)?[\"']?((?:\.{1,2}/|/)?[\w-][\w.-]*(?:/[\w.-]+)*/?)[\"']?")
_NAMES_FOLDER = regex.compile(
    r"--?(?:[^\W_]*[-_])*(?:out\w*|dirs?|dest\w*|data\w*|folders?|paths?|save|target|root|local|set|cache|prefix)(?:[-_][^\W_]*)*|-[dCPoO]"
)
_NAMES_OTHER = regex.compile(r"model|repo|name|tokeni|ckpt|checkpoint|config|input|source|src|from|raw|vocab")
"""Options for what a step reads, and for names that look like paths (``org/model``)."""
_FILE = regex.compile(r"\.[A-Za-z]\w{0,6}$")
_UNPACKS = frozenset({"tar", "unzip", "mkdir", "mv", "cp", "ln", "rsync"})
_CHANGES = _UNPACKS | {"rm", "touch", "chmod", "gunzip", "git"}
"""Commands that change a folder which the step may only read."""


@dataclass(frozen=True, slots=True)
class Word:
    """A path in a statement: where it is in the scalar's value, as it is written and in its plain form."""

    statement: int
    start: int
    text: str
    command: Command
    certain: bool
    """Whether it is a folder or file that a step may write, and no name of something else."""

    @property
    def path(self) -> str:
        """The path without ``./`` and the like."""
        return posixpath.normpath(self.text)

    def below(self, root: str) -> bool:
        """Return whether it is a folder or in it."""
        return self.path == root or self.path.startswith(f"{root}/")


def words(project: Project, chain: Chain) -> list[Word]:
    """The paths that the statements of a command name."""
    script, found = chain.script, list[Word]()
    starts = [sum(len(text) + 1 for text in chain.texts[:number]) for number in range(len(chain.texts))]
    for command in script.scripts[0].commands:
        at = script.source.offset(command.span.line, command.span.column)
        number = max(number for number, start in enumerate(starts) if start <= at)
        for start, text, certain in _of(project, command):
            value = chain.places[number][0] + start - starts[number]
            if chain.node.value.startswith(text, value):
                found.append(Word(number, value, text, command, certain))
    return found


def _of(project: Project, command: Command) -> Iterator[tuple[int, str, bool]]:
    """(place in the script, text, whether it is certainly a folder or file) of paths among a command's words."""
    given = list(command.words[1:])
    transfers = bool(copy_tool(project.models, command) or download_tool(project.models, command))
    plain = [word for word in given if not word.raw.startswith("-")]
    has_source = any(mark in word.raw for word in plain[:-1] for mark in "/:$")
    for before, word in zip([None, *given], given, strict=False):
        matched = _PATH.fullmatch(word.raw)
        if matched is None or (word.raw.startswith("-") and not matched[1]):
            continue
        option = matched[1][:-1] if matched[1] else before.raw if before is not None else ""
        is_path = matched[2].startswith(("/", "./", "../")) or matched[2].endswith("/")
        is_last = word is plain[-1] and ((transfers and has_source) or command.name in _UNPACKS) if plain else False
        certain = is_last or command.name in _CHANGES
        if not certain and (is_path or _NAMES_FOLDER.fullmatch(option)):
            certain = _NAMES_OTHER.search(option.lower()) is None
        if certain or is_path or "/" in matched[2] or _NAMES_FOLDER.fullmatch(option):
            yield word.start + matched.start(2), matched[2], certain
    for target in (redirect.target for redirect in command.redirects if redirect.target is not None):
        if (matched := _PATH.fullmatch(target.raw)) is not None and not matched[1]:
            yield target.start + matched.start(2), matched[2], True


@dataclass(frozen=True, slots=True)
class Handed:
    """What is handed on: where each path is in what a step writes, by the path."""

    places: dict[str, str]
    made: tuple[str, ...]
    """Folders that are there before the first statement."""

    def of(self, word: Word) -> str | None:
        """Return where a path is in what is handed on; "" for all of it, None if it is not in it."""
        root = next((root for root in self.places if word.below(root)), None)
        if root is None:
            return None
        rest = word.path[len(root) :].strip("/")
        return posixpath.join(self.places[root], rest) if rest else self.places[root]


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """What of a command moves."""

    chain: Chain
    numbers: list[int]
    """The statements that move."""
    first: list[int]
    """All statements of the stage, which the job may have as well."""
    handed: Handed
    words: list[Word]

    @property
    def texts(self) -> list[str]:
        """The statements of the stage."""
        return [self.chain.texts[number] for number in self.first]

    def command(self, folder: str) -> str:
        """The command of a step that writes to a folder."""
        parts = list[str]()
        if self.handed.made:
            parts.append(f"mkdir -p {' '.join(posixpath.join(folder, made) for made in self.handed.made)}")
        for number in self.first:
            start, text = self.chain.places[number][0], self.chain.texts[number]
            for word in sorted(self._named(number), key=lambda word: -word.start):
                at = word.start - start
                text = f"{text[:at]}{self._place(folder, word)}{text[at + len(word.text) :]}"
            parts.append(text)
        if any("\n" in part for part in parts):
            return "set -e\n" + "\n".join(parts) + "\n"
        return " &&\n".join(parts) + ("\n" if len(parts) > 1 else "")

    def edits(self, folder: str) -> list[Edit]:
        """Edits that take the statements out of the command, and make the others read a folder."""
        kept = [number for number in range(len(self.chain.places)) if number not in self.numbers]
        made = [
            self.chain.replaced(word.start, word.start + len(word.text), self._place(folder, word))
            for number in kept
            for word in self._named(number)
        ]
        return [*self.chain.without(self.numbers), *made]

    def _named(self, number: int) -> list[Word]:
        return [word for word in self.words if word.statement == number and self.handed.of(word) is not None]

    def _place(self, folder: str, word: Word) -> str:
        ending = "/" if word.text.endswith("/") else ""
        return posixpath.join(folder, self.handed.of(word) or "").rstrip("/") + ending


def divide(project: Project, document: Document, node: Node, span: Span, code: Path) -> Moved | str:
    """Return what moves of a command, with the statement that starts at a place; or why that does not."""
    whole = chain(document, node)
    inner = whole.inner(span) if whole is not None else None
    if whole is None or inner is None:
        return "the command could not be divided into statements"
    if any(command.name in ("cd", "pushd") for command in whole.script.scripts[0].commands):
        return "the command changes the folder that its paths count from"
    made = plan(whole.script, project.models, frozenset({inner}), hands_on=True)
    if isinstance(made, str):
        return made
    if not made.has(inner):
        return made.reasons.get(inner, "it runs in a function, or after the program")
    installs = without_installs(project, made)
    if not made.has(inner):
        return "packages belong in the environment of the job"
    numbers = whole.numbers(made.moved)
    first = whole.numbers([*made.context, *installs, *made.moved])
    if numbers[-1] == len(whole.places) - 1:
        return "nothing follows that uses it"
    found = handed(project, whole, numbers, first, code)
    if isinstance(found, str):
        return found
    every = [word for word in words(project, whole) if not _is_code(project, code, word)]
    return Moved(whole, numbers, first, found, every)


def handed(project: Project, chain: Chain, moved: Sequence[int], first: Sequence[int], code: Path) -> Handed | str:
    """Return what statements that move write and the others read, or why that is not certain.

    ``first`` are all statements of the stage; ``code`` is the folder whose files both have.
    """
    every = [word for word in words(project, chain) if not _is_code(project, code, word)]
    written = [word for word in every if word.statement in moved]
    kept = [word for word in every if word.statement not in first]
    sure = [word for word in written if word.certain]
    roots = {one.path for one in sure for other in kept if other.below(one.path)}
    roots |= {other.path for one in sure for other in kept if other.certain and one.below(other.path)}
    roots = {root for root in roots if not any(root != other and root.startswith(f"{other}/") for other in roots)}
    if not roots:
        return "no folder is named by what it would hand on and by what reads it"
    if odd := next((root for root in sorted(roots) if root.startswith("..") or root in ("/", ".")), None):
        return f"`{odd}` is not a folder of its own"
    if changed := next((word for word in kept if word.command.name in _CHANGES and _in(word, roots)), None):
        return f"`{changed.command.name}` changes `{changed.path}` later, which the job may only read then"
    if stray := _stray(project, chain, moved, written, roots):
        return f"nothing shows that the job reads what `{stray}` writes"
    return _places(sorted(roots))


def _is_code(project: Project, code: Path, word: Word) -> bool:
    path = code / word.path
    return word.path.startswith("/dev/") or (path.is_relative_to(project.root) and project.exists(path))


def _in(word: Word, roots: set[str]) -> bool:
    return any(word.below(root) for root in roots)


def _stray(project: Project, chain: Chain, moved: Sequence[int], written: list[Word], roots: set[str]) -> str | None:
    """A command that moves and names neither a folder that is handed on, nor a file that others which move do."""
    of = {number: {word.path for word in written if word.statement == number} for number in moved}
    for number in moved:
        mine = [word for word in written if word.statement == number]
        passed = any(of[number] & of[other] for other in moved if other != number)
        if not any(_in(word, roots) for word in mine) and not passed:
            commands = [command for command in chain.script.scripts[0].commands if _is_of(chain, command, number)]
            shows = all(role(one, project.models, frozenset()) in (Role.SHOWS, Role.HELPER) for one in commands)
            if not shows:
                return next((command.name for command in commands if command.name), "a command")
    return None


def _is_of(chain: Chain, command: Command, number: int) -> bool:
    lines = [text.count("\n") + 1 for text in chain.texts]
    first = sum(lines[:number]) + 1
    return first <= command.span.line < first + lines[number]


def _places(roots: list[str]) -> Handed:
    if len(roots) == 1:
        (root,) = roots
        return Handed({root: posixpath.basename(root) if _FILE.search(root) else ""}, ())
    places = {root: root.strip("/") for root in roots}
    made = {posixpath.dirname(place) for place in places.values()} - {""}
    return Handed(places, tuple(sorted(made)))
