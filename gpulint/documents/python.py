"""Python source as an ``ast`` tree with parents, exact character spans and nothing resolved yet."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.compact import FIELDS, KINDS, Parents, compacted
from gpulint.documents.conflicts import UNRESOLVED, conflict_line
from gpulint.documents.newer_syntax import parse
from gpulint.failures import is_about_file
from gpulint.recent import Recent
from gpulint.rule import Kind
from gpulint.source import Fragment, SourceText, Span

if TYPE_CHECKING:
    from gpulint.documents.tasks import Task

N = TypeVar("N", bound=ast.AST)

_PYTHON2 = (
    "Missing parentheses in call to 'print'",
    "Missing parentheses in call to 'exec'",
    "multiple exception types",
)

_SINCE_312 = regex.compile(r"\s*(type\s+\w+\s*(\[.*\])?\s*=|(async\s+)?def\s+\w+\[|class\s+\w+\[)")
"""Statements that Python 3.12 brought: ``type Pair = ...``, ``def first[T](...)``."""
_WRITTEN_INTO = regex.compile(r"\{\{|\{%|^[ \t]{0,40}[!%]+[A-Za-z]", re.MULTILINE)
"""Signs of a template, and of code for notebooks (``%cd folder``): what runs is made from it."""
_F_STRING = regex.compile(r"""\b[fF][rR]?["']""")
"""The start of an f-string, whose fields go on in the next line from Python 3.12 on."""
_MAX_BITS = 10_000
_LONG_INTEGER = regex.compile(rf"0[xXoObB][\da-fA-F_]{{{_MAX_BITS // 4},}}")


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_IN_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_WITH_GAPS = ("keys", "kw_defaults")
"""Lists that hold None where nothing is written."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def children(node: ast.AST) -> list[ast.AST]:
    """Direct children in source order, without the markers for contexts and operators."""
    found: list[ast.AST] = []
    for field in FIELDS[type(node)]:
        value = getattr(node, field, None)
        if value is None:
            continue
        if type(value) is not list:
            found.append(value)
        elif field in _WITH_GAPS:
            found += [part for part in value if part is not None]
        else:
            found += value
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """The node and all below it, outer ones first; as :func:`ast.walk`, without the markers, in half of the time."""
    found = [node]
    for part in found:
        found += children(part)
    return found


def walk_own(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
    """The nodes below a function, without those of the functions and classes in it."""
    found: list[ast.AST] = list(function.body)
    for part in found:
        if not isinstance(part, _SCOPES):
            found += children(part)
    return found


def has_operator(node: ast.AST, *kinds: type[ast.operator]) -> bool:
    """Return whether an operation of one of the kinds is in a node, of which :func:`walk` yields no markers."""
    return any(isinstance(part, ast.BinOp | ast.AugAssign) and isinstance(part.op, kinds) for part in walk(node))


_WALKED = Recent(32)
"""Modules whose nodes were listed last."""
_KEPT = frozenset(
    map(KINDS.__getitem__, (ast.If, ast.IfExp, ast.While, ast.Subscript, ast.Dict, ast.Yield, ast.YieldFrom))
)
"""Kinds of which there are few nodes, and which are asked of nearly every module: their lists are not dropped."""


class TooDeep(SyntaxError):
    """Valid code that no tree can be built of; generated, so a note is enough."""


def _shorten_integers(tree: ast.AST, text: str) -> None:
    """Replace integers that Python cannot write in decimal by infinity, so that all constants can be shown."""
    for node in walk(tree) if _LONG_INTEGER.search(text) else ():
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value.bit_length() > _MAX_BITS:
            node.value = float("inf")


class PythonModule:
    """The tree of one module; ``span_of`` maps character offsets of ``text`` to spans of the owning document."""

    def __init__(self, path: Path, text: str | SourceText, span_of: Callable[[int, int], Span]) -> None:
        """Raises SyntaxError (also for what ``ast`` refuses otherwise: NUL bytes, too deep nesting)."""
        self.path = path
        self._source = SourceText(text) if isinstance(text, str) else text
        self._span_of = span_of
        self.parents = Parents()
        """Parent of every node but the root."""
        self.tell_text_read: Callable[[], object] | None = None
        """Called whenever somebody looks at more than the tree and the places of its nodes."""
        self._places: dict[ast.AST, dict[ast.AST, tuple[str, int]]] = {}
        self._nodes: list[ast.AST] | None
        self._sorted: dict[type[ast.AST], list[Any]] | None = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = parse(self._source.text)
            _shorten_integers(tree, self._source.text)
            self.tree, self._nodes = compacted(tree)
            self._kept = _by_kind(node for node in self._nodes if type(node) in _KEPT)
            _WALKED.add(self)
        except (RecursionError, MemoryError) as error:
            if not is_about_file(error):
                raise
            raise TooDeep("nested too deeply to be analysed; skipped") from None
        except ValueError as error:
            raise SyntaxError(f"cannot be parsed: {error}") from None

    @property
    def source(self) -> SourceText:
        """The text that it was parsed from."""
        if self.tell_text_read is not None:
            self.tell_text_read()
        return self._source

    def go_on_with(self, other: PythonModule) -> None:
        """Take over the text of a module with an equal tree."""
        self._source, self._span_of = other._source, other._span_of

    @property
    def nodes(self) -> list[ast.AST]:
        """All nodes, outer ones first, as :func:`walk` has them; held for a while, as many rules walk the same tree."""
        nodes = self._nodes
        if nodes is None:
            nodes = self._nodes = walk(self.tree)
            _WALKED.add(self)
        return nodes

    def release(self) -> None:
        """Drop the lists of most nodes; the tree is kept."""
        self._nodes = self._sorted = None

    def of(self, *kinds: type[N]) -> Iterator[N]:
        """The nodes of these kinds, kind by kind; sorted for a while, as asking every node of a module takes long."""
        for kind in map(KINDS.__getitem__, kinds):
            if kind in _KEPT:
                yield from self._kept.get(kind, ())
                continue
            if self._sorted is None:
                self._sorted = _by_kind(self.nodes)
            yield from self._sorted.get(kind, ())

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, innermost first."""
        while (up := getattr(node, "parent", None)) is not None:
            yield up
            node = up

    def place(self, node: ast.AST) -> tuple[str, int] | None:
        """The block of its parent that holds a statement, handler or case, and its index there; None for the rest."""
        if not isinstance(node, _IN_BLOCKS) or (parent := self.parents.get(node)) is None:
            return None
        known = self._places.get(parent)
        if known is None:
            blocks = ((name, getattr(parent, name, ())) for name in _BLOCKS)
            known = self._places[parent] = {
                inner: (name, index) for name, block in blocks for index, inner in enumerate(block)
            }
        return known.get(node)

    def offsets(
        self, node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.ExceptHandler
    ) -> tuple[int, int]:
        """(start, end) character offsets of a node in ``text``."""
        return self._offsets(node, self.source)

    @staticmethod
    def _offsets(
        node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.ExceptHandler, source: SourceText
    ) -> tuple[int, int]:
        end_line = node.end_lineno or node.lineno
        end_byte = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        start = source.offset(node.lineno, source.byte_column(node.lineno, node.col_offset))
        return start, source.offset(end_line, source.byte_column(end_line, end_byte))

    def span(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.ExceptHandler) -> Span:
        """Place of a node in the owning document."""
        return self._span_of(*self._offsets(node, self._source))

    def head(self, node: ast.stmt) -> Span:
        """Place of a compound statement's first line (``for x in loader:``) instead of its whole body."""
        start, end = self.offsets(node)
        return self._span_of(start, min(end, start + len(self.source.line(node.lineno)) - self._column(node)))

    def _column(self, node: ast.stmt) -> int:
        """0-based character column of a node."""
        return self.source.byte_column(node.lineno, node.col_offset) - 1

    def span_at(self, start: int, end: int) -> Span:
        """Place in the owning document of the characters ``start:end`` of ``text``."""
        return self._span_of(start, end)

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        """Source text of a node as written."""
        start, end = self.offsets(node)
        return self.source.text[start:end]


def _by_kind(nodes: Iterable[ast.AST]) -> dict[type[ast.AST], list[Any]]:
    found: dict[type[ast.AST], list[Any]] = {}
    for node in nodes:
        kind = type(node)
        if kind in found:
            found[kind].append(node)
        else:
            found[kind] = [node]
    return found


def _is_newer(error: SyntaxError) -> bool:
    """Return whether what cannot be parsed may be the syntax of a newer Python than this one."""
    about_strings = error.msg.startswith("f-string") or (
        error.msg.startswith("unterminated string")
        and "{" in (error.text or "")
        and _F_STRING.search(error.text or "") is not None
    )
    return sys.version_info < (3, 12) and (about_strings or _SINCE_312.match(error.text or "") is not None)


class PythonDocument(Document):
    """A ``.py`` file."""

    kind = Kind.PYTHON
    never_runs = False
    """Whether no version of Python can read it, as far as that is known."""

    def read_tasks(self) -> tuple[Task, ...]:
        """The jobs that calls in it describe."""
        from gpulint.documents.calls import CallRows

        if not self.may_hold_jobs or not self.models.derived(CallRows).may_read(self.source.text):
            return ()
        if self.python is None:
            return ()
        from gpulint.documents.calls import reader

        return tuple(reader.read(self.python, [(0, Fragment(self.source.text, self.source))], self.models))

    def read_python(self) -> PythonModule | None:
        try:
            return PythonModule(self.path, self.source, self.source.span)
        except TooDeep as error:
            self.problem(error.msg, is_error=False)
            return None
        except SyntaxError as error:
            if (line := conflict_line(self.source.text)) is not None:
                self.problem(UNRESOLVED, line, 1)
                return None
            message = error.msg
            if any(hint in message for hint in _PYTHON2):
                message += " (Python 2 code?)"
            elif _is_newer(error):
                message += " (run gpulint with Python 3.12 or newer if this is its syntax)"
            else:
                self.never_runs = not _WRITTEN_INTO.search(self.source.text)
            self.problem(f"syntax error: {message}", error.lineno, error.offset)
            return None
