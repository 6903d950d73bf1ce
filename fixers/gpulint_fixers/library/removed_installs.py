"""The removal of installs from a launcher, with what is about them alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from gpulint import regex
from gpulint.documents import Document
from gpulint.finding import Place
from gpulint.fix import Edit
from gpulint.launch.job import Job
from gpulint.launch.transfer_commands import words_of
from gpulint.programs.gpu_jobs import GpuJobCommand
from gpulint.rule import Kind
from gpulint.source import SourceText, Span
from gpulint_fixers.edits.entries import remove_entry
from gpulint_fixers.edits.statements import remove_lines, with_own_comment
from gpulint_fixers.stages.pieces import is_directive

_NO_CHAIN = regex.compile(r"(?:\||(?<!&)&|;)\s*$")
"""What precedes a command that is no part of a chain of ``&&``."""
_MAX_LINE = 5000
_LISTS = regex.compile(r"(\s*)(?:sudo\s+)?(?:apt|apt-get)(?:\s+-[\w=-]+)*\s+update(?:\s+-[\w=-]+)*\s*&&\s*")
"""What fetches the lists of packages in front of an install on the same line."""
_SYSTEM = frozenset({"apt", "apt-get"})


def refreshes(document: Document, job: Job, moved: Iterable[GpuJobCommand]) -> list[GpuJobCommand]:
    """The commands of a job that only fetch the lists of packages (``apt-get update``), which nothing reads once the
    installs have gone; none if something else needs the lists."""
    found, going = list[GpuJobCommand](), {held.command.span: held for held in moved}
    for item in job.commands:
        words = [word for word in words_of(item.command) if not word.startswith("-")]
        if not words or words[0] not in _SYSTEM or item.command.span in going:
            continue
        command = item.command
        if words[1:] != ["update"] or command.conditional or command.in_loop or command.in_function:
            return []
        found += [replace(held, command=command) for held in [*going.values()][:1]]
    return found if all(removal(document, held) is not None for held in found) else []


def without_parts(edits: Iterable[Edit]) -> list[Edit]:
    """The edits that are not within another one."""
    kept = list[Edit]()
    for edit in sorted(dict.fromkeys(edits), key=lambda one: (*_start(one), *(-at for at in _end(one)))):
        if not kept or kept[-1].span.cell != edit.span.cell or _end(edit) > _end(kept[-1]):
            kept.append(edit)
    return kept


def _start(edit: Edit) -> tuple[int, int]:
    return edit.span.line, edit.span.column


def _end(edit: Edit) -> tuple[int, int]:
    return edit.span.end_line, edit.span.end_column


def removed(document: Document, held: GpuJobCommand) -> Edit | None:
    """The removal of an install together with the comments that are about it alone."""
    edit, source = removal(document, held), document.source
    if edit is None:
        return None
    whole, first = with_own_comment(source, edit), held.command.span.line
    lines = [*range(whole.span.line, first)]
    is_head = whole.span.line <= 1 or (whole.span.line == 2 and source.line(1).startswith("#!"))
    if lines and (is_head or any(is_directive(source.line(number).strip()) for number in lines)):
        return replace(whole, span=replace(whole.span, line=first))
    return whole


def own_comments(document: Document, held: GpuJobCommand) -> tuple[str, ...]:
    """Those comments, for the Dockerfile."""
    edit, source = removed(document, held), document.source
    if edit is None or edit.span.end_column != 1 or edit.span.column != 1:
        return ()
    span = held.command.span
    above = [source.line(number).strip() for number in range(edit.span.line, span.line)]
    behind = source.line(span.end_line)[span.end_column - 1 :].strip(" \t;")
    return tuple(line for line in (*above, behind) if line.startswith("#"))


def removal(document: Document, held: GpuJobCommand) -> Edit | None:
    span, source, path = held.command.span, document.source, document.path
    if span.cell is not None or span.end_column > _MAX_LINE:
        return None
    before = source.line(span.line)[: span.column - 1]
    if (lists := _LISTS.fullmatch(before)) is not None:  # they go with the install
        before, span = lists[1], replace(span, column=len(lists[1]) + 1)
    if (end := _next_of_chain(source, span)) is not None and not _NO_CHAIN.search(before):
        return Edit(path, Span(span.line, span.column, *end), "")
    if before.strip() in ("-", '- "', "- '"):
        edit = remove_entry(path, source, span)
        # The list that would be left empty is what the job runs.
        return edit if edit is not None and edit.span.line == span.line else None
    if document.kind in (Kind.JOBSPEC, Kind.WORKFLOW) and not before.strip() and not _has_company(document, span):
        return None
    return remove_lines(source, Place(path, span))


def _next_of_chain(source: SourceText, span: Span) -> tuple[int, int] | None:
    """Return where the command starts that follows with ``&&``, on the same line or at the start of the next one."""
    after = source.line(span.end_line)[span.end_column - 1 :]
    if chained := re.match(r"\s*&&\s*(?=[^\s\\])", after):
        return span.end_line, span.end_column + chained.end()
    if not re.fullmatch(r"\s*&&\s*\\?\s*", after) or span.end_line == len(source.line_starts):
        return None
    following = source.line(span.end_line + 1)
    first = following.lstrip()
    return None if not first or first[0] in "#\"'" else (span.end_line + 1, len(following) - len(first) + 1)


def _has_company(document: Document, span: Span) -> bool:
    """Return whether there is another line beside the command in its block of text."""
    near = [document.source.line(span.line - 1), document.source.line(span.end_line + 1)]
    return any(line.strip() and len(line) - len(line.lstrip()) == span.column - 1 for line in near)
