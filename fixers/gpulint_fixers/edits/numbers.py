"""Another number in the place of one in any file, with the help text and the comment that name it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.call_syntax import with_defaults
from gpulint.finding import Place
from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.source import SourceText, Span
from gpulint.workspace.module_index import ModuleIndex

_NUMBERS = regex.compile(r"\d+")
_UNITS = "(?:training |global |optimizer )?(?:steps?|iterations?|iters?|updates|batches)|workers|processes"
"""What numbers of settings count."""


def replace_number(project: Project, place: Place, old: int, new: str) -> tuple[Edit, ...] | None:
    """Edits that write ``new`` for ``old``; None if the place does not hold that number."""
    document = project.document(place.path)
    if document is None:
        return None
    source, span = document.cell_source(place.span.cell), place.span
    text = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    if text.replace("_", "") != str(old):
        return None
    grouped = f"{int(new):_}" if "_" in text and new.isdecimal() else new
    return Edit(place.path, span, grouped), *follow(project, place, old, new)


def follow(project: Project, place: Place, old: int, new: str) -> Iterator[Edit]:
    """Edits of what says ``default: 4`` or ``every 4 steps`` beside a default that changes: the option's help, and a
    comment on its line."""
    document = project.document(place.path)
    if document is None:
        return
    source, span = document.cell_source(place.span.cell), place.span
    named = re.compile(rf"(?i)\bdefault\w*\W{{0,3}}(?:is |to |value )?\W?(?<![\d.]){old}(?![\d.]*\d)")
    counted = re.compile(rf"(?i)\b(?:every|each|after) {old}\b|\b{old}(?= (?:{_UNITS})\b)")
    for start, end in [*_comment(source, span), *_help(project, place, source)]:
        alone = len(_NUMBERS.findall(source.text, start, end)) == 1  # another one may follow from it
        found = [*named.finditer(source.text, start, end)]
        for match in found or (counted.finditer(source.text, start, end) if alone else ()):
            at = match.end() - len(str(old))
            where = source.span(at, match.end())
            yield Edit(place.path, Span(where.line, where.column, where.end_line, where.end_column, span.cell), new)
    for start, end in _docstring_lines(project, place, source):
        for match in named.finditer(source.text, start, end):
            yield Edit(place.path, source.span(match.end() - len(str(old)), match.end()), new)


def _docstring_lines(project: Project, place: Place, source: SourceText) -> Iterator[tuple[int, int]]:
    """Yield the lines of the docstring around a default that start with the name of its setting (``workers (int,
    defaults to 0): ...``); nothing in notebooks and other files."""
    module = project.module_at(place.path)
    if module is None or place.span.cell is not None:
        return
    for name, owner in _settings_at(module, place.span):
        match owner.body[0]:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                start, end = module.syntax.offsets(text)
                line = re.compile(rf"^[ \t]*(?:[-*:][ \t]*|param |arg )*`*{re.escape(name)}\b[^\n]*", re.MULTILINE)
                yield from (found.span() for found in line.finditer(source.text, start, end))


def _settings_at(module: ModuleIndex, at: Span) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """Yield the parameter or field whose default is at a place, with the functions and classes that describe it."""
    owners: list[ast.ClassDef | ast.FunctionDef] = [*module.syntax.of(ast.ClassDef), *module.syntax.of(ast.FunctionDef)]
    for owner in (one for one in owners if one.lineno <= at.line <= (one.end_lineno or one.lineno)):
        if isinstance(owner, ast.ClassDef):
            given = [(one.target, one.value) for one in owner.body if isinstance(one, ast.AnnAssign)]
            named = [(target.id, value) for target, value in given if isinstance(target, ast.Name)]
        else:
            named = [(arg.arg, value) for arg, value in with_defaults(owner.args)]
        for name, value in named:
            if value is None or not _holds(module, value, at):
                continue
            yield name, owner
            around = module.class_of(owner) if isinstance(owner, ast.FunctionDef) and owner.name == "__init__" else None
            yield from [(name, around)] if around is not None else []


def _holds(module: ModuleIndex, value: ast.expr, at: Span) -> bool:
    """Return whether a place is in an expression."""
    span = module.syntax.span(value)
    return (span.line, span.column) <= (at.line, at.column) and (at.end_line, at.end_column) <= (
        span.end_line,
        span.end_column,
    )


def _comment(source: SourceText, span: Span) -> Iterator[tuple[int, int]]:
    """Yield where a comment behind the number stands."""
    rest = source.line(span.end_line)[span.end_column - 1 :]
    if "#" in rest:
        start = source.offset(span.end_line, span.end_column)
        yield start + rest.index("#"), start + len(rest)


def _help(project: Project, place: Place, source: SourceText) -> Iterator[tuple[int, int]]:
    """Yield where the help of the option is whose default stands at the place; nothing in notebooks and other files."""
    module = project.module_at(place.path)
    if module is None or place.span.cell is not None:
        return
    for call in module.calls:
        if not call.lineno <= place.span.line <= (call.end_lineno or call.lineno):
            continue
        for keyword in call.keywords:
            if keyword.arg in ("help", "description") and isinstance(keyword.value, ast.Constant | ast.BinOp):
                yield module.syntax.offsets(keyword.value)
