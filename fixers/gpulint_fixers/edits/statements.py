"""Edits that take out whole statements or commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from gpulint import regex
from gpulint.documents.python import PythonModule
from gpulint.finding import Place
from gpulint.fix import Edit
from gpulint.source import SourceText, Span
from gpulint.workspace.module_index import ModuleIndex

_LINE_END = regex.compile(r"[\r\n]")


def remove_statement(module: PythonModule, statement: ast.stmt) -> Edit | None:
    """Remove a statement with its line, or put ``pass`` in its place if its block would be empty."""
    text = module.source.text
    start, end = module.offsets(statement)
    if _alone(module, statement):
        return Edit(module.path, module.span_at(start, end), "pass")
    starts = [*module.source.line_starts, len(text)]
    first, last = starts[module.source.position(start)[0] - 1], starts[module.source.position(end)[0]]
    if text[first:start].strip():
        return None
    rest = text[end:last].strip()
    if rest.startswith(";"):
        end = text.index(";", end) + 1
        rest = text[end:last].strip()
        if rest and not rest.startswith("#"):
            return Edit(module.path, module.span_at(start, last - len(text[end:last].lstrip())), "")
    if rest:  # a comment stays
        return Edit(module.path, module.span_at(start, last - len(text[end:last].lstrip(" \t"))), "")
    return Edit(module.path, module.span_at(first, last), "")


def remove_run(module: PythonModule, run: Sequence[ast.stmt]) -> Edit | None:
    """Remove neighbours of a block, of which some share a line with each other or with other code, together with the
    ``;`` between them, or put ``pass`` in their place; None if they have their lines to themselves."""
    text, starts = module.source.text, [*module.source.line_starts, len(module.source.text)]
    start, end = module.offsets(run[0])[0], module.offsets(run[-1])[1]
    first, last = starts[module.source.position(start)[0] - 1], starts[module.source.position(end)[0]]
    before, behind = text[first:start].rstrip(), text[end:last].strip()
    shared = any(one.end_lineno == other.lineno for one, other in pairwise(run))
    if not (shared or before.endswith(";")) or (before and not before.endswith(";")):
        return None
    place, parent = module.place(run[0]), module.parents.get(run[0])
    if place is None or (len(getattr(parent, place[0])) == len(run) and not isinstance(parent, ast.Module)):
        return Edit(module.path, module.span_at(start, end), "pass")
    if before:
        return Edit(module.path, module.span_at(first + len(before[:-1].rstrip()), end), "")
    if rest := behind.removeprefix(";").lstrip():
        return Edit(module.path, module.span_at(start, text.index(rest, end)), "")
    return Edit(module.path, module.span_at(first, last), "")


def with_own_comment(source: SourceText, edit: Edit, speaks_of: re.Pattern[str] | None = None) -> Edit:
    """Return a removal together with the comment behind, and the one above if nothing else is below that one, or if its
    last line matches ``speaks_of`` and heads no block of such lines.

    Left alone, the comment would describe what is gone.
    """
    span = edit.span
    if edit.text or source.line(span.line)[: span.column - 1].strip():
        return edit
    first, below = span.line, span.end_line
    if span.end_column > 1:
        if not source.line(below)[span.end_column - 1 :].lstrip().startswith("#"):
            return edit
        below += 1
    indent = _indent(source.line(first))
    after = source.line(below)
    speaks = speaks_of is not None and speaks_of.search(source.line(first - 1)) is not None
    speaks = speaks and not _is_among_others(source, first, below)
    if not after.strip() or _indent(after) < indent or _is_comment(after) or speaks:
        while _is_comment(source.line(first - 1)) and _indent(source.line(first - 1)) == indent:
            first -= 1
        if first == 1 and source.line(1).startswith("#!"):
            first = span.line
    return Edit(edit.path, Span(first, 1, below, 1, span.cell), "")


_CODE = regex.compile(
    r"\s*#+\s*(?:[\w.]+\s*(?:\(|=[^=])|(?:export|set|declare|local|readonly|env)\s+\w+=|(?:setenv|unset)\s+[A-Z]"
    r"|import\s+[\w.]+(?:\s+as\s+\w+)?\s*$|from\s+[\w.]+\s+import\s|[\w./-]*python[\d.]*\s+(?:-\w|\S+\.py)"
    r"|(?:module|conda|mamba|pip3?)\s+(?:load|purge|unload|swap|install|activate|create)\b|ulimit\s+-|source\s+\S*[/.~$]"
    r"|(?:cd|rm|cp|mv|mkdir)\s+(?:-\w+\s+)?\S*[/~$.]|(?:sbatch|srun|torchrun|accelerate\s+launch)\s+\S)"
)
"""Code that somebody has commented out, which says nothing of the next line."""


_START = regex.compile(r"\s*[\w.]+")
"""The command, or the function or object, that a line is about."""


def _is_among_others(source: SourceText, line: int, below: int) -> bool:
    """Return whether lines that start as this one does follow it: ``export A=1`` above ``export B=1``. What is
    commented out between them is passed over."""
    while source.line(below).lstrip().startswith("#") and not _is_comment(source.line(below)):
        below += 1
    own, other = _START.match(source.line(line)), _START.match(source.line(below))
    return own is not None and other is not None and own[0] == other[0]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#") and _CODE.match(line) is None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def comment_behind(module: PythonModule, statement: ast.stmt) -> str:
    """The comment at the end of a statement's last line, with the blanks before it."""
    line, column = module.source.position(module.offsets(statement)[1])
    behind = module.source.line(line)[column - 1 :].rstrip()
    return behind if behind.lstrip().startswith("#") else ""


def _alone(module: PythonModule, statement: ast.stmt) -> bool:
    parent, place = module.parents.get(statement), module.place(statement)
    return place is None or (len(getattr(parent, place[0])) == 1 and not isinstance(parent, ast.Module))


def start_of(module: PythonModule, statement: ast.stmt) -> int:
    """Character offset at which a statement starts, or its first decorator."""
    for decorator in getattr(statement, "decorator_list", [])[:1]:
        return module.source.text.rindex("@", 0, module.offsets(decorator)[0])
    return module.offsets(statement)[0]


def insert_above(module: PythonModule, statement: ast.stmt, text: str) -> Edit | None:
    """Put ``text`` above a statement, its decorators and the comment about it; None if its line is shared.

    The first line of ``text`` is indented like the statement, the others stay as they are.
    """
    start = start_of(module, statement)
    line = module.source.position(start)[0]
    indent = module.source.text[module.source.line_starts[line - 1] : start]
    if indent.strip():
        return None
    start = module.source.line_starts[_comment_above(module, line, len(indent)) - 1] + len(indent)
    return Edit(module.path, module.span_at(start, start), f"{text}\n{indent}")


_MARK = regex.compile(r"\s*#\s*(%%|!|In\[|-\*-|region\b|fmt:|isort:|type:|noqa|pylint:|pyright:|endregion\b)")
"""Comments for tools, and those that begin a cell."""


def _comment_above(module: PythonModule, line: int, indent: int) -> int:
    """The first line of the comment that stands above a line at its indentation; the line itself if there is none, or
    if the comment begins the file or a cell, of which it tells."""
    source, first = module.source, line
    cell = module.span_at(source.line_starts[line - 1], source.line_starts[line - 1]).cell
    while first > 1 and _is_comment(above := source.line(first - 1)) and _indent(above) == indent:
        at = source.line_starts[first - 2]
        if _MARK.match(above) or module.span_at(at, at).cell != cell:
            break
        first -= 1
    return line if first == 1 else first


def move_above(
    module: PythonModule, statement: ast.stmt, target: ast.stmt, speaks_of: re.Pattern[str]
) -> tuple[Edit, Edit] | None:
    """Move a statement with its comment above another one of its block; None if one of them shares its line.

    The comment above goes along if it is about the statement alone, or if its last line matches ``speaks_of``.
    """
    removal = remove_statement(module, statement)
    if removal is None or removal.text:
        return None
    behind = comment_behind(module, statement)
    whole = with_own_comment(module.source, removal, speaks_of)
    above = [module.source.line(line).strip() for line in range(whole.span.line, removal.span.line)]
    start = module.offsets(statement)[0]
    line, column = module.source.position(start)
    text = f"\n{module.source.line(line)[: column - 1]}".join([*above, module.text(statement) + behind])
    insertion = insert_above(module, target, text)
    return (insertion, whole) if insertion is not None else None


def insert_below(module: PythonModule, statement: ast.stmt, lines: str) -> Edit | None:
    """Put ``lines`` on lines of their own below a statement, indented like it; None if its lines are shared."""
    text = module.source.text
    start, end = module.offsets(statement)
    first = module.source.line_starts[module.source.position(start)[0] - 1]
    break_ = _LINE_END.search(text, end)
    behind = len(text) if break_ is None else break_.start()
    indent, rest = text[first:start], text[end:behind].strip().removeprefix(";").strip()
    if indent.strip() or (rest and not rest.startswith("#")):
        return None
    added = "".join(f"\n{indent}{line}" for line in lines.splitlines())
    return Edit(module.path, module.span_at(behind, behind), added)


_OPENS = regex.compile(r"(\b(then|do|else)|[{(])\s*$")
_GOES_ON = regex.compile(r"^[^#]*(&&|\||\\)\s*$")
"""A line that needs the next one, if only in the shell that a string of this one is for."""
_YAML_TEXT = regex.compile(r"\s*(- +)*([\w.\"'-]+:\s*)?\|")
"""``run: |`` and ``- |`` of YAML, below which a text begins."""
_CLOSES = regex.compile(r"\s*((fi|done|else|elif|esac)\b|[})]|;;)")


def remove_lines(source: SourceText, place: Place) -> Edit | None:
    """Remove a shell command that has its lines to itself (a closing ``;`` included); None if it has not.

    A comment behind the command stays, in its place. A block's only command stays too: shells refuse empty ones.
    """
    span = place.span
    if _OPENS.search(source.line(span.line - 1)) and _CLOSES.match(source.line(span.end_line + 1)):
        return None
    above = source.line(span.line - 1)
    if _GOES_ON.search(above) and not _YAML_TEXT.fullmatch(above):
        return None
    before, after = source.line(span.line)[: span.column - 1], source.line(span.end_line)[span.end_column - 1 :]
    if comment := re.match(r"[ \t;]*(?=#)", after):
        if span.cell is not None or before.strip() or not comment.group():
            return None
        return Edit(place.path, Span(span.line, span.column, span.end_line, span.end_column + comment.end()), "")
    if span.cell is not None or before.strip() or after.strip().rstrip(";").strip():
        return None
    return Edit(place.path, Span(span.line, 1, span.end_line + 1, 1), "")


_OPENS_BLOCK = regex.compile(r".*[:|>][-+\d]*\s*$")


def without_gaps(source: SourceText, edits: Iterable[Edit]) -> list[Edit]:
    """Removals of whole lines with the empty line below, where one is above already or a block begins there."""
    ordered = sorted(edits, key=lambda edit: (edit.span.line, edit.span.column))
    gone = {line for edit in ordered for line in _whole_lines(edit)}
    found = list[Edit]()
    for edit in ordered:
        span = edit.span
        if _whole_lines(edit) and not source.line(span.end_line).strip() and span.end_line < len(source.line_starts):
            above = next((line for line in range(span.line - 1, 0, -1) if line not in gone), 0)
            if span.end_line not in gone and (not source.line(above).strip() or _OPENS_BLOCK.match(source.line(above))):
                gone.add(span.end_line)
                edit = replace(edit, span=replace(span, end_line=span.end_line + 1))
        found.append(edit)
    return found


def _whole_lines(edit: Edit) -> range:
    """The lines that an edit removes altogether."""
    whole = not edit.text and edit.span.column == edit.span.end_column == 1
    return range(edit.span.line, edit.span.end_line) if whole else range(0)


def remove_assignment(source: SourceText, place: Place) -> Edit | None:
    """Remove a shell's ``NAME=value`` or ``export NAME=value`` that has its line to itself; None if it has not.

    ``place`` is that of the assignment or of its value.
    """
    span = place.span
    line = source.line(span.line)
    match = re.fullmatch(r"(\s*)(?:export\s+)?(?:[A-Za-z_]\w*=([\"']?))?", line[: span.column - 1])
    if match is None:
        return None
    end = span.end_column + (bool(match[2]) and source.line(span.end_line)[span.end_column - 1 :].startswith(match[2]))
    return remove_lines(source, Place(place.path, Span(span.line, len(match[1]) + 1, span.end_line, end, span.cell)))


def insert_after(module: ModuleIndex, loop: ast.stmt, line: str) -> Edit | None:
    """Put a line below a loop, or another statement, and the comments that end it."""
    syntax, source = module.syntax, module.syntax.source
    start, end = syntax.offsets(loop)
    first, last = source.position(start)[0], source.position(end)[0]
    indent = source.line(first)[: source.position(start)[1] - 1]
    behind = source.line(last)[source.position(end)[1] - 1 :].strip()
    if indent.strip() or (behind and not behind.startswith("#")):
        return None
    cell = syntax.span_at(end, end).cell
    for number in range(last + 1, len(source.line_starts) + 1):
        text = source.line(number)
        deeper = len(text) - len(text.lstrip()) > len(indent)
        at = source.offset(number, 1)
        if syntax.span_at(at, at).cell != cell or (text.strip() and not (text.lstrip().startswith("#") and deeper)):
            break
        if text.strip():
            last = number
    at = source.offset(last, 1) + len(source.line(last).rstrip("\r\n"))
    return Edit(syntax.path, syntax.span_at(at, at), f"\n{indent}{line}", commutes=True)


def is_handler_of(module: ModuleIndex, node: ast.AST, loop: ast.stmt) -> bool:
    """Return whether a place is a handler or the ``finally`` of a ``try`` around the loop."""
    around = {up for up in module.syntax.ancestors(loop) if isinstance(up, ast.Try)}
    inner = node
    for up in module.syntax.ancestors(node):
        if up in around and isinstance(up, ast.Try) and inner not in up.body and inner not in up.orelse:
            return True
        inner = up
    return False


def is_after_handler_of(module: ModuleIndex, node: ast.AST, loop: ast.stmt) -> bool:
    """Return whether a place is behind a ``try`` around the loop that goes on after an exception."""
    inside = {*module.syntax.ancestors(node)}
    return any(
        isinstance(up, ast.Try)
        and up not in inside
        and module.function(up) is module.function(loop)
        and any(not isinstance(handler.body[-1], ast.Raise | ast.Return) for handler in up.handlers)
        for up in module.syntax.ancestors(loop)
    )
