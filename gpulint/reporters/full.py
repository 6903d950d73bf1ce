"""The format for people: findings by job, each cause once, with the source, what to do and the fix as a diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gpulint.counting import counted
from gpulint.escaping import no_command, printable
from gpulint.finding import Severity
from gpulint.fix import Declined, Fix
from gpulint.report import Report
from gpulint.reporters import Context
from gpulint.reporters.excerpt import Line, excerpt, preview
from gpulint.reporters.grouping import (
    Cause,
    Section,
    gpus_of,
    most_important,
    names_in,
    sections,
    stated_gpus,
    steps_of,
)
from gpulint.reporters.impact_text import impact_text, is_known, percent
from gpulint.reporters.summary import summary
from gpulint.reporters.terminal_text import Paint, folded, safe
from gpulint.source import Span

_COLOURS = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.INFO: "1;36"}
_PLACE, _GUTTER, _HELP, _BOLD = "36", "1;34", "1;32", "1"
_DIFF = {"-": "31", "+": "32", "gap": "2", "file": "1"}
_FIRST = 3
"""Findings that are named at the top."""
_ENOUGH_FOR_FIRST = 4
"""Causes from which on the top is needed."""
_MOST_PLACES = 6


def render(report: Report, context: Context) -> str:
    """All findings, followed by a count."""
    page = _Page(context)
    found = sections(report, context)
    blocks = [page.start(found)] if not context.quiet else []
    for section in found:
        if found[0].job is not None:
            blocks.append(page.heading(section))
        blocks += [page.block(cause) for cause in section.causes]
    if not context.quiet:
        blocks.append([*map(safe, summary(report, context, sum(len(one.causes) for one in found)))])
    return "".join("\n".join(block) + "\n" for block in _spaced(blocks))


def _spaced(blocks: Sequence[list[str]]) -> Iterator[list[str]]:
    """Those of ``blocks`` that say anything, with an empty line between them."""
    filled = [block for block in blocks if block]
    for number, block in enumerate(filled, 1):
        yield block if number == len(filled) else [*block, ""]


class _Page:
    """Writes findings; why a rule's findings cost GPU time is said once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.paint = Paint(context.colour, context.links)
        self.explained = set[str]()

    # -- the top and the headings --------------------------------------------------------------------------------------

    def start(self, found: Sequence[Section]) -> list[str]:
        """Return what to do first, where there is too much to see at once."""
        if sum(len(section.causes) for section in found) < _ENOUGH_FOR_FIRST:
            return []
        lines = [self.paint("Start with:", _BOLD)]
        for number, (section, cause) in enumerate(most_important(found, _FIRST), 1):
            first = cause.first
            facts = [f"{first.impact.level} impact"] if is_known(first.impact) else []
            facts += [said] if (said := stated_gpus(section, cause)) else []
            if cause.is_fixable:
                facts.append(f"fix: `gpulint fix{'' if cause.is_safely_fixable else ' --unsafe-fixes'}`")
            more = f" ({', '.join(facts)})" if facts else ""
            text = f"{first.rule.code} {self.context.place(first.path, first.span)}: {first.message}{more}"
            lines += map(safe, folded(text, self.context.width, f"  {number}. ", "     "))
        return lines

    def heading(self, section: Section) -> list[str]:
        """``==> Job 'small-lm' (job.yaml:24 -> train.py): 8 GPUs``; once for all that is in no job."""
        if section.job is None:
            return [self.paint("==> Outside of these jobs", _BOLD)]
        job = section.job
        facts = [gpus_of(job)]
        if section.lost is not None:
            facts.append(f"an estimated {percent(section.lost)} of their time lost")
        title = f"==> Job '{job.name}' ({' -> '.join(steps_of(job, self.context))}): {', '.join(facts)}"
        lines = [self.paint(safe(line), _BOLD) for line in folded(title, self.context.width, "", "    ")]
        if section.others:
            places = (self.context.place(one.place.path, one.place.span).rpartition(":")[0] for one in section.others)
            run = "1 more job runs" if len(section.others) == 1 else f"{len(section.others):,} more jobs run"
            text = f"{run} some of these files: {_listed([*places])}"
            lines += map(safe, folded(text, self.context.width, "    ", "    "))
        return lines

    # -- one finding ---------------------------------------------------------------------------------------------------

    def block(self, cause: Cause) -> list[str]:
        """A cause at its first place, and where else it is."""
        found = cause.first
        return [
            *self._title(cause),
            *self._source(found.path, found.span, _COLOURS[found.severity]),
            *self._facts(cause),
            *self._fix(cause),
        ]

    def _title(self, cause: Cause) -> Iterator[str]:
        found = cause.first
        level = f", {found.impact.level} impact" if is_known(found.impact) else ""
        mark = "[*] " if cause.is_safely_fixable else ""
        code = printable(found.rule.code)
        text = f"{code} {mark}{found.rule.name} ({found.severity}{level}): {found.message}"
        first, *more = map(safe, folded(text, self.context.width, "", "    "))
        yield self.paint(self.paint.link(code, found.rule.url), _COLOURS[found.severity]) + self.paint(
            first.removeprefix(code), _BOLD
        )
        for line in more:
            yield self.paint(line, _BOLD)

    def _source(self, path: Path, span: Span, colour: str) -> Iterator[str]:
        lines = [*excerpt(self.context.source(path, span.cell), span, self.context.columns)]
        gutter = max((len(str(line.number)) for line in lines if line.number is not None), default=1)
        place = self.paint(safe(self.context.place(path, span)), _PLACE)
        yield " " * gutter + self.paint("--> ", _GUTTER) + self.paint.link(place, _address(path))
        yield from self._numbered(lines, gutter, colour)

    def _numbered(self, lines: Sequence[Line], gutter: int, colour: str) -> Iterator[str]:
        bar = self.paint("|", _GUTTER)
        yield f"{' ' * gutter} {bar}"
        for line in lines:
            number = self.paint(f"{'' if line.number is None else line.number:>{gutter}}", _GUTTER)
            text = self.paint(line.text, colour) if line.kind == "mark" else no_command(line.text)
            yield f"{number} {bar} {text}".rstrip()

    def _facts(self, cause: Cause) -> Iterator[str]:
        found, rule = cause.first, cause.first.rule
        yield from self._labelled("impact", impact_text(found.impact))
        for place in found.related:
            where = self.context.place(place.path, place.span)
            yield from self._labelled("note", f"{where}: {place.message}".removesuffix(": "))
        yield from self._labelled("also", _others(cause, self.context))
        yield from self._labelled("same", _copies(cause, self.context))
        explain = rule.code not in self.explained
        self.explained.add(rule.code)
        if explain:
            yield from self._labelled("why", rule.why)
        yield from self._labelled("help", found.help, _HELP)
        if explain and not self.context.links:
            yield from self._labelled("see", rule.url)

    def _labelled(self, label: str, text: str, style: str = _BOLD) -> Iterator[str]:
        if not text:
            return
        start = f"  {label}: "
        first, *more = map(safe, folded(text, self.context.width, start, " " * len(start)))
        yield f"  {self.paint(label + ':', style)}{first.removeprefix(start.rstrip())}"
        yield from more

    def _fix(self, cause: Cause) -> Iterator[str]:
        fix = cause.previewed
        if isinstance(fix, Declined):
            yield from self._labelled("no fix", fix.reason)
        if not isinstance(fix, Fix):
            return
        yield from self._labelled(f"fix ({fix.safety})" if fix.changes else "fix", cause.told(self.context), _HELP)
        found = cause.repaired.finding
        lines = preview(fix, found.path, found.span, self.context.source, self.context.columns)
        if not lines:
            return
        gutter = max((len(str(line.number)) for line in lines if line.number and line.kind != "file"), default=1)
        bar = self.paint("|", _GUTTER)
        yield f"{' ' * gutter} {bar}"
        for line in lines:
            named = line.kind == "file"
            shown = "" if line.number is None or named else line.number
            text = self._file(line) if named else line.text
            sign = line.kind if line.kind in "-+" else " "
            changed = self.paint(f"{sign} {no_command(text)}".rstrip(), _DIFF.get(line.kind, ""))
            yield f"{self.paint(f'{shown:>{gutter}}', _GUTTER)} {bar}{changed}"

    def _file(self, line: Line) -> str:
        """``background_uploads.py (new, 112 lines)``, or ``config.py:`` ahead of its changes."""
        path = printable(self.context.relative(Path(line.text)))
        return f"{path}:" if line.number is None else f"{path} (new, {counted(line.number, 'line')})"


def _others(cause: Cause, context: Context) -> str:
    """``11 more places: a.py:3 ('mask'), b.py:9, ...``, empty if there are none."""
    first, *rest = (result.finding for result in cause.results)
    if not rest:
        return ""
    places = []
    for found in rest[:_MOST_PLACES]:
        names = names_in(found.message, first.message)
        where = context.place(found.path, found.span).rpartition(":")[0]
        places.append(f"{where} ({names})" if names else where)
    return f"{counted(len(rest), 'more place')}: {_listed(places, len(rest))}"


def _copies(cause: Cause, context: Context) -> str:
    """``in 3 copies of this file: b/train.py, ...; the same code is also in c/train.py``, empty if there are none."""
    said = []
    if cause.copies:
        these = "copy" if len(cause.copies) == 1 else "copies"
        said.append(f"in {len(cause.copies):,} {these} of this file: {_listed_files(cause.copies, context)}")
    if cause.alike:
        said.append(f"the same code is also in {_listed_files(cause.alike, context)}")
    return "; ".join(said)


def _listed_files(paths: Sequence[Path], context: Context) -> str:
    return _listed([context.relative(path) for path in paths])


def _listed(texts: Sequence[str], count: int | None = None) -> str:
    """The first of ``texts``; dots for the others, of which there are ``count``."""
    more = (count or len(texts)) > _MOST_PLACES
    return ", ".join(texts[:_MOST_PLACES]) + (", ... (--verbose shows all)" if more else "")


def _address(path: Path) -> str:
    return path.absolute().as_uri()
