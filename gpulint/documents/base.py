"""The document: one file, decoded, with whatever syntax trees its kind has, each built once on demand."""

from __future__ import annotations

import codecs
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpulint import regex
from gpulint.budget import too_long
from gpulint.failures import Failure, is_about_file
from gpulint.finding import Problem
from gpulint.libraries import BUILT_IN, Models
from gpulint.rule import Kind
from gpulint.source import SourceText, Span

if TYPE_CHECKING:
    from gpulint.documents.inline_python import InlineProgram, InlinePython
    from gpulint.documents.python import PythonModule
    from gpulint.documents.shell import Script
    from gpulint.documents.tasks import Task

T = TypeVar("T")

LAUNCHERS = frozenset({Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW})
"""Kinds of documents that may carry programs."""

_CODING = regex.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = regex.compile(rb"^[ \t\f]*(#|$)")
_LINE_END = regex.compile(rb"\r\n?|\n")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_FOR_FILES = frozenset({"idna", "punycode", "undefined"})
"""Codecs of domain names, whose time grows with the square of the text, and one that refuses every text."""


class Unreadable(Exception):
    """A file that holds no text gpulint can read; the message says why."""


def decode(data: bytes, kind: Kind | None = None) -> tuple[str, str]:
    """Text and codec name of a file: BOM first, then a PEP 263 cookie of Python, then UTF-8, last Latin-1.

    Raises:
        Unreadable: NUL bytes (binary data), or a cookie that names no known codec or one that does not fit.
    """
    for mark, codec in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(codec), codec
            except UnicodeDecodeError as error:
                raise Unreadable(f"not valid {codec} text: {error.reason}") from None
    if b"\0" in data:
        raise Unreadable("binary file (contains NUL bytes)")
    name = _declared(data) if kind is Kind.PYTHON else None
    if name is not None:
        return _decoded(data, name), name
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def _declared(data: bytes) -> str | None:
    """The codec that a comment in the first two lines names; the second counts if the first is blank or a comment."""
    for line in _LINE_END.split(data, 2)[:2]:
        if cookie := _CODING.match(line):
            return cookie.group(1).decode("ascii", "replace")
        if not _BLANK.match(line):
            return None
    return None


def _decoded(data: bytes, name: str) -> str:
    """The text by a codec of any name, whatever that codec does."""
    try:
        codec = codecs.lookup(name).name
    except Exception:
        raise Unreadable(f"unknown encoding {name!r} declared") from None
    if codec in _NOT_FOR_FILES:
        raise Unreadable(f"encoding {name!r} declared, which is not one for files")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes, by the codecs of string literals
            text = data.decode(codec)
        text.encode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not valid {name} text: {error.reason} at byte {error.start}") from None
    except UnicodeEncodeError:
        raise Unreadable(f"not valid {name} text: it holds a lone surrogate") from None
    except Exception as error:
        raise Unreadable(f"not valid {name} text: {error}") from None
    return text


class Document:
    """One file. Sub-classes (one per kind) override the trees that they have; nothing here raises on bad content."""

    kind: Kind
    models: Models = BUILT_IN
    """What is known of job formats."""
    may_hold_jobs = True
    """False if the identifiers in a Python file tell that no call in it describes a job."""

    def __init__(self, path: Path, text: str, encoding: str = "utf-8") -> None:
        self.path = path
        self.source = SourceText(text)
        self.encoding = encoding
        self.problems: list[Problem] = []
        self.failures: list[Failure] = []
        """What readers raised."""
        self._matches: dict[re.Pattern[str], bool] = {}

    def problem(
        self,
        message: str,
        line: int | None = None,
        column: int | None = None,
        *,
        is_error: bool = True,
        cell: int | None = None,
    ) -> None:
        """Record why (part of) this document could not be read."""
        self.problems.append(Problem(self.path, message, line, column, is_error, cell))

    def note_bounds(self, scripts: Iterable[Script]) -> None:
        """Note the first of ``scripts`` with more commands than are read, and the first with too long a value."""
        noted = set[str]()
        for script in scripts:
            expander = script.expander()
            expander.settle()
            for message, offset in (
                ("the script has too many commands: those from here on were not analysed", script.cut),
                (too_long("a variable", expander.longest), expander.cut),
            ):
                if offset is not None and message not in noted:
                    noted.add(message)
                    self.problem(message, script.fragment.span(offset, offset).line, is_error=False)

    @cached_property
    def python(self) -> PythonModule | None:
        """The Python module of a Python file, of a notebook's code cells, or of programs within a launcher."""
        return self._contained(self.read_python, None)

    @cached_property
    def inline(self) -> InlinePython | None:
        """Python within a launcher, if it holds any."""
        from gpulint.documents.inline_python import InlinePython, may_hold_python

        if self.kind not in LAUNCHERS or not may_hold_python(self.source.text.encode("utf-8", "replace")):
            return None
        return self._contained(lambda: InlinePython(self.path, self.read_inline()), None)

    @cached_property
    def scripts(self) -> tuple[Script, ...]:
        """All shell in the document: the file itself, ``%%bash`` cells, commands of a job spec, CMD of an image."""
        return self._contained(lambda: self._with_models(self.read_scripts()), ())

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """What the document launches, with the resources that it requests."""
        tasks: tuple[Task, ...] = self._contained(self.read_tasks, ())
        for task in tasks:
            self._with_models(task.scripts)
        return tasks

    def _with_models(self, scripts: tuple[Script, ...]) -> tuple[Script, ...]:
        for script in scripts:
            script.use(self.models)
        return scripts

    @property
    def is_configuration(self) -> bool:
        """Whether its keys may be the configuration of a program, which a job's own keys are not."""
        return self.kind is Kind.JOBSPEC and all(task.carries_configuration for task in self.tasks)

    def read_python(self) -> PythonModule | None:
        """Read ``python``; called once."""
        return self.inline.module() if self.inline is not None else None

    def read_inline(self) -> Iterable[InlineProgram]:
        """Read the programs of ``inline``; called once."""
        from gpulint.documents.inline_python import in_scripts

        return in_scripts(self.scripts)

    def read_scripts(self) -> tuple[Script, ...]:
        """Read ``scripts``; called once."""
        return ()

    def read_tasks(self) -> tuple[Task, ...]:
        """Read ``tasks``; called once."""
        return ()

    def _contained(self, read: Callable[[], T], empty: T) -> T:
        """Return what a reader returns; a reader that fails costs this part of this document."""
        try:
            return read()
        except Exception as error:
            if not is_about_file(error):
                raise
            self.failures.append(Failure(self.path, "reader", error))
            return empty

    @cached_property
    def optional_parts(self) -> tuple[tuple[int, int], ...]:
        """(start, end) of shell or YAML that a template writes only under a condition."""
        from gpulint.documents.templates import optional_parts

        return () if self.kind in (Kind.PYTHON, Kind.NOTEBOOK) else optional_parts(self.source.text)

    def is_optional(self, span: Span) -> bool:
        """Return whether a template writes a place only under a condition, so that it may be missing."""
        if not self.optional_parts:
            return False
        at = self.source.offset(span.line, span.column)
        last = bisect_right(self.optional_parts, at, key=lambda part: part[0]) - 1
        return last >= 0 and at < self.optional_parts[last][1]

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """Return whether a pattern is found in the text; each is searched once, however many jobs the document has."""
        if pattern not in self._matches:
            self._matches[pattern] = regex.occurs(pattern, self.source.text)
        return self._matches[pattern]

    def cell_source(self, cell: int | None) -> SourceText:
        """The text that spans with this ``cell`` count in: of one cell in a notebook, else of the whole file."""
        return self.source
