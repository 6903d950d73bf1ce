"""The comments of a document of any kind; what only looks like one inside a string does not count."""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint.source import SourceText, Span

if TYPE_CHECKING:
    from gpulint.documents import Document

# A hash that starts a word, as shell, YAML and Dockerfiles have it.
_HASH = regex.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
# IPython's magics and shell lines, which are no Python.
_MAGIC = regex.compile(r"^[ \t]*[%!].*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment; ``alone`` if nothing else stands on its line."""

    text: str
    span: Span
    alone: bool


def comments(document: Document) -> Iterator[Comment]:
    """Comments in source order. Costs a tokenizer's run, so ask only for files that can hold what is looked for."""
    match document.kind:
        case Kind.PYTHON:
            yield from _python(document.source)
        case Kind.NOTEBOOK:
            yield from _notebook(document)
        case Kind.JOBSPEC:
            yield from _outside(document.source, list(_yaml_strings(document.source.text)))
        case Kind.SHELL:
            yield from _shell(document)
        case Kind.DOCKERFILE | Kind.WORKFLOW:
            yield from _outside(document.source, list(_quoted(document.source.text)))


def _python(source: SourceText, cell: int | None = None) -> Iterator[Comment]:
    """Comments of Python code, up to the place where its tokens end to make sense."""
    text = source.text.removeprefix("\ufeff")
    if cell is not None:
        text = _MAGIC.sub("", text)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                span = Span(line, column + 1, line, column + 1 + len(token.string), cell)
                yield Comment(token.string, span, not source.line(line)[:column].strip("\ufeff \t\f"))
    except (tokenize.TokenError, SyntaxError):
        return


def _notebook(document: Document) -> Iterator[Comment]:
    from gpulint.documents.notebook import NotebookDocument

    if isinstance(document, NotebookDocument):
        for cell in document.cells:
            if cell.kind == "code" and not cell.source.text.startswith("%%"):
                yield from _python(cell.source, cell.index)
        yield from _shell(document)


def _shell(document: Document) -> Iterator[Comment]:
    submitted = (script for task in document.tasks for script in task.scripts)
    for script in dict.fromkeys((*document.scripts, *submitted)):
        for comment in script.comments:
            before = document.cell_source(comment.span.cell).line(comment.span.line)[: comment.span.column - 1]
            yield Comment(comment.text, comment.span, not before.strip())


def _outside(source: SourceText, strings: list[tuple[int, int]]) -> Iterator[Comment]:
    """Comments that start outside of ``strings`` (character offsets)."""
    starts = [start for start, _ in strings]
    for match in _HASH.finditer(source.text):
        before = bisect_right(starts, match.start()) - 1
        if before < 0 or match.start() >= strings[before][1]:
            text = match.group().rstrip("\r")
            span = source.span(match.start(), match.start() + len(text))
            yield Comment(text, span, not source.line(span.line)[: span.column - 1].strip())


def _yaml_strings(text: str) -> Iterator[tuple[int, int]]:
    """Flow scalars of a YAML stream. Block scalars hold scripts here, whose comments are comments to the reader."""
    import yaml

    try:
        for token in yaml.scan(text):
            if isinstance(token, yaml.ScalarToken) and token.style not in ("|", ">"):
                yield token.start_mark.index, token.end_mark.index
    except yaml.YAMLError:
        return


def _quoted(text: str) -> Iterator[tuple[int, int]]:
    """Quoted stretches of each line of a Dockerfile."""
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'', text):
        yield match.span()
