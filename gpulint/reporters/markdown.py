"""A comment for a pull or merge request: what is new, by job, in a few lines, and what is fixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpulint.counting import counted
from gpulint.report import Report
from gpulint.reporters import Context
from gpulint.reporters.grouping import Cause, Section, gpus_of, sections, steps_of
from gpulint.reporters.impact_text import impact_text, percent
from gpulint.reporters.markdown_text import code, prose
from gpulint.reporters.summary import unchecked

if TYPE_CHECKING:
    from gpulint.baseline import Entry

MARK = "<!-- gpulint -->"
"""The first line, by which the comment of an earlier run is found."""
_MOST_CAUSES, _MOST_FIXED, _LONGEST = 15, 20, 400


def render(report: Report, context: Context) -> str:
    """One Markdown document of GitHub's and GitLab's dialect; at most 15 causes and 20 fixed findings are named."""
    blocks = [MARK, f"### gpulint: {_title(report, context)}"]
    left = _MOST_CAUSES
    found = sections(report, context)
    for section in found:
        if left <= 0:
            break
        heading = _heading(section, context) if found[0].job is not None else ""
        blocks += [*filter(None, [heading]), _table(section.causes[:left], context)]
        left -= len(section.causes)
    if left < 0:
        blocks.append(f"{counted(-left, 'more cause')}: see the log of `gpulint scan`.")
    if context.fixed:
        blocks.append(_fixed(context.fixed))
    notes = [*filter(None, [unchecked(report), context.hidden])]
    if notes:
        blocks.append(f"<sub>{prose(' '.join(notes))}</sub>")
    return "\n\n".join(blocks) + "\n"


def _title(report: Report, context: Context) -> str:
    """``3 new findings, 1 fixed``."""
    new = "new " if context.new_only else ""
    parts = [counted(len(report.results), f"{new}finding") if report.results else f"no {new}findings"]
    fixed = sum(entry.count for entry in context.fixed)
    return ", ".join([*parts, *([f"{fixed:,} fixed"] if fixed else [])])


def _heading(section: Section, context: Context) -> str:
    job = section.job
    if job is None:
        return "**Outside of these jobs**"
    facts = [gpus_of(job)]
    if section.lost is not None:
        facts.append(f"an estimated {percent(section.lost)} of their time lost")
    return f"**Job {code(job.name)}** ({' → '.join(steps_of(job, context, code))}): {', '.join(facts)}"


def _table(causes: Iterable[Cause], context: Context) -> str:
    lines = ["| impact | finding | where |", "|---|---|---|"]
    lines += [f"| {' | '.join(_row(cause, context))} |" for cause in causes]
    return "\n".join(lines)


def _row(cause: Cause, context: Context) -> Iterator[str]:
    found = cause.first
    cost = impact_text(found.impact)
    yield f"{found.impact.level}" + (f"<br><sub>{prose(cost)}</sub>" if cost else "")
    fix = ""
    if cause.is_fixable:
        fix = f" Fix: <code>gpulint fix{'' if cause.is_safely_fixable else ' --unsafe-fixes'}</code>."
    message = found.message if len(found.message) <= _LONGEST else found.message[: _LONGEST - 3] + "..."
    yield f"[{prose(found.rule.code)}]({found.rule.url}) {prose(message.removesuffix('.'))}.{fix}"
    places = [context.place(item.finding.path, item.finding.span).rpartition(":")[0] for item in cause.results]
    more = len(places) - 1 + len(cause.copies) + len(cause.alike)
    yield code(places[0]) + (f" and {counted(more, 'more place')}" if more else "")


def _fixed(entries: Sequence[Entry]) -> str:
    count = sum(entry.count for entry in entries)
    lines = [f"<details><summary>{count:,} fixed</summary>", ""]
    for entry in entries[:_MOST_FIXED]:
        times = f" ({entry.count} times)" if entry.count > 1 else ""
        lines.append(f"- {code(entry.path)}: {prose(entry.code)} {prose(entry.message)}{times}")
    if len(entries) > _MOST_FIXED:
        lines.append(f"- and {len(entries) - _MOST_FIXED:,} more")
    return "\n".join([*lines, "", "</details>"])
