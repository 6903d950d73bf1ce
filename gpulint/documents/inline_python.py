"""Python within other documents: ``python - <<EOF``, ``python -c '...'``, ``cat > train.py <<EOF``, ConfigMaps.

All programs of one document make up one module, in order, so that what is asked of Python files can be asked of them.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.newer_syntax import parse
from gpulint.failures import is_about_file
from gpulint.records import dataclass
from gpulint.source import Fragment, Span

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.documents.python import PythonModule
    from gpulint.documents.shell.script import Command, Script

MAX_PROGRAMS = 50
"""Programs of one document, at most."""
MAX_CHARACTERS = 200_000
"""Characters of all of them, at most."""
_PYTHON = regex.compile(r"(?:.*/)?python[\d.]*")
_CODE = regex.compile(r"-[A-Za-z]*c")
_VALUED = ("-W", "-X")
_MAY_HOLD = regex.compile(
    rb"""python(?:[^\n]{0,300}<<|[\d.]*["']?,?\s{1,99}(?:-\s{1,99})?["']?-[A-Za-z]{0,9}c\b|[^\n]{0,300}\s["']?-[A-Za-z]{0,9}c\b)"""
    rb"""|\bread\b[^\n]{0,100}-d[^\n]{0,100}<<"""
    rb"""|<<[^\n]{0,300}\.py\b|\.py\b[^\n]{0,300}<<|\.py["']?:[ \t]*[|>]|\bsource:[ \t]*[|>]"""
)
_BODY = regex.compile(r"\b(?:import|def|for|while|with)\b|\(")


@dataclass(frozen=True)
class InlineProgram:
    """One program; ``name`` is the file that the document writes it to, None if an interpreter is given the text."""

    text: Fragment
    name: str | None = None
    command: Command | None = None
    """The command that runs or writes it."""


def may_hold_python(data: bytes) -> bool:
    """Return whether a document may hold Python, as far as its bytes show."""
    return (b"python" in data or b".py" in data or b"source:" in data) and _MAY_HOLD.search(data) is not None


def in_scripts(scripts: Iterable[Script]) -> Iterator[InlineProgram]:
    """Programs that commands hand to an interpreter, or write to a file."""
    for script in scripts:
        texts = dict[str, Fragment]()
        for command in script.walk():
            found = _of_command(command) or _of_variable(command, texts)
            if found is not None:
                yield found


def _of_variable(command: Command, texts: dict[str, Fragment]) -> InlineProgram | None:
    """``read -r -d '' SCRIPT <<EOF``, which is kept in ``texts``, and then ``printf "%s" "$SCRIPT" > train.py``."""
    words = [word.raw.strip("\"'") for word in command.words]
    if command.heredoc is not None and words[:1] == ["read"] and "-d" in words:
        texts[words[-1]] = command.heredoc
    if words[:1] not in (["printf"], ["echo"]):
        return None
    text = next((texts[name] for word in words[1:] if (name := word.strip("${}")) in texts), None)
    return InlineProgram(text, written, command) if text is not None and (written := _written(command)) else None


def _written(command: Command) -> str:
    """The Python file that a command's output goes to; "" for any other or none."""
    targets = [item.target for item in command.redirects if item.operator.endswith(">")]
    written = next((target.raw.strip("\"'") for target in targets if target is not None), "")
    return written if written.endswith(".py") else ""


def _of_command(command: Command) -> InlineProgram | None:
    words = command.words
    name = (words[0].value or "") if words else ""
    if command.heredoc is not None and name.rpartition("/")[2] in ("cat", "tee"):
        targets = [item.target for item in command.redirects if item.operator.endswith(">")]
        targets += words[1:] if name.endswith("tee") else ()
        written = next((target.raw.strip("\"'") for target in targets if target is not None), "")
        return InlineProgram(command.heredoc, written, command) if written.endswith(".py") else None
    at = next((at for at, word in enumerate(words) if _PYTHON.fullmatch(word.value or "")), None)
    if at is None:
        return None
    at += 1
    while at < len(words):
        text = words[at].value or ""
        if _CODE.fullmatch(text):
            return _handed_over(command, at + 1)
        if not text.startswith("-") or text == "-":
            break
        at += 2 if text in _VALUED else 1
    reads_input = at >= len(words) or words[at].value == "-"
    return InlineProgram(command.heredoc, None, command) if reads_input and command.heredoc is not None else None


def _handed_over(command: Command, at: int) -> InlineProgram | None:
    """The text after ``-c``."""
    from gpulint.documents.shell.nested import script_text

    if at >= len(command.words):
        return None
    word = command.words[at]
    text = script_text(command, word) if word.fragment is command.fragment else word.fragment
    return InlineProgram(text, None, command)


class InlinePython:
    """The programs of one document that can be parsed, as modules of their own and together."""

    def __init__(self, path: Path, programs: Iterable[InlineProgram]) -> None:
        self.path = path
        self.programs: list[InlineProgram] = []
        self._named: dict[str, PythonModule | None] = {}
        left = MAX_CHARACTERS
        for program in islice(programs, MAX_PROGRAMS):
            left -= len(program.text.text)
            text = _parsable(program.text) if left > 0 else None
            if text is not None:
                self.programs.append(InlineProgram(text, program.name, program.command))

    def module(self) -> PythonModule | None:
        """All programs as one module; None if there is none."""
        from gpulint.documents.python import PythonModule

        parts = [program.text for program in self.programs]
        if not parts:
            return None
        starts, text = list[int](), ""
        for part in parts:
            starts.append(len(text))
            text += part.text.rstrip() + "\n"
        joined = _Joined(parts, starts)
        try:
            return PythonModule(self.path, text, joined.span)
        except SyntaxError:  # ``from __future__`` or a magic comment that has to come first
            return None

    def covers(self, span: Span) -> bool:
        """Return whether a place of the document is in one of the programs."""
        whole = (program.text.span(0, len(program.text.text.rstrip())) for program in self.programs)
        at = (span.line, span.column)
        return any((found.line, found.column) <= at < (found.end_line, found.end_column) for found in whole)

    def named(self, name: str) -> PythonModule | None:
        """The program that the document writes to a file of this name."""
        from gpulint.documents.python import PythonModule

        if name not in self._named:
            of_name = (one for one in reversed(self.programs) if (one.name or "").rpartition("/")[2] == name)
            found = next(of_name, None)
            path = self.path.with_name(name)
            self._named[name] = None if found is None else PythonModule(path, found.text.text, found.text.span)
        return self._named[name]

    def given_to(self, command: Command) -> PythonModule | None:
        """The program whose text a command hands to an interpreter."""
        from gpulint.documents.python import PythonModule

        for program in self.programs:
            if program.command is command and program.name is None:
                return PythonModule(self.path, program.text.text, program.text.span)
        return None


class _Joined:
    """Places of several fragments that were joined."""

    def __init__(self, parts: list[Fragment], starts: list[int]) -> None:
        self._parts, self._starts = parts, starts

    def span(self, start: int, end: int) -> Span:
        index = max(bisect_right(self._starts, start) - 1, 0)
        begin = self._starts[index]
        return self._parts[index].span(start - begin, end - begin)


def _parsable(text: Fragment) -> Fragment | None:
    """The text, moved to the left where all of it is indented; None if it is no Python, or too little to look at."""
    if not _BODY.search(text.text):
        return None
    for tried in (text, _dedented(text)):
        if tried is not None and _parses(tried.text):
            return tried
    return None


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(parse(text).body)
    except (SyntaxError, ValueError):
        return False
    except (RecursionError, MemoryError) as error:
        if not is_about_file(error):
            raise
        return False


def _dedented(text: Fragment) -> Fragment | None:
    """The text without the spaces that all of its lines begin with; the first may stand right after a quote."""
    lines = text.text.splitlines(keepends=True)
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    margin = min(indents, default=0)
    if margin == 0:
        return None
    pieces, parts, at, done = list[tuple[int, int]](), list[str](), 0, 0
    for line in lines:
        cut = min(margin, len(line) - len(line.lstrip(" \t")))
        kept = line[cut:]
        pieces.append((done, text.owner_offset(at + cut)))
        inside = text.breaks(at + cut, at + len(line))
        pieces += [(done + here - at - cut, text.owner_offset(here)) for here in inside]
        parts.append(kept)
        at, done = at + len(line), done + len(kept)
    return Fragment("".join(parts), text.owner, tuple(pieces), text.cell)
