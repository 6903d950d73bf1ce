"""One page for a browser: jobs as cards with their findings, to filter by impact, category and path.

It is one file without anything from elsewhere; a content security policy keeps what a scanned tree holds from running.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpulint import __version__
from gpulint.counting import counted
from gpulint.fix import Fix
from gpulint.impact import Level, Range
from gpulint.report import JobSummary, Report
from gpulint.reporters import Context
from gpulint.reporters.grouping import Cause, Section, gpus_of, most_important, sections, stated_gpus, steps_of
from gpulint.reporters.html_finding import finding, place
from gpulint.reporters.html_text import code, text
from gpulint.reporters.impact_text import is_known, percent
from gpulint.reporters.summary import unchecked

_FIRST = 3


def render(report: Report, context: Context) -> str:
    """The page."""
    found = sections(report, context)
    marks = {id(cause): f"f{number}" for number, cause in enumerate(_all(found), 1)}
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    name = text(context.cwd.name or "gpulint")
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>gpulint: {name}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        f"<header><h1>GPU waste in {name}</h1>",
        *_numbers(report, context),
        "</header>",
        "<main>",
        *_start(found, marks, context),
        *(_filters(found) if found else ["<p>No findings.</p>"]),
        *_cards(found, marks, context),
        "</main>",
        f"<footer><p>gpulint {text(__version__)}. {text(context.hidden)}</p></footer>",
        f"<script>{script}</script>" if found else "",
        "</body>",
        "</html>",
    ]
    return "\n".join(filter(None, lines)) + "\n"


def _all(found: Sequence[Section]) -> Iterator[Cause]:
    return (cause for section in found for cause in section.causes)


def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _numbers(report: Report, context: Context) -> Iterator[str]:
    """The totals."""
    findings = [result.finding for result in report.results]
    levels = Counter(found.impact.level for found in findings)
    fixable = sum(isinstance(result.fix, Fix) and result.fix.changes for result in report.results)
    numbers = [(str(len(findings)), "finding" if len(findings) == 1 else "findings")]
    known = any(is_known(found.impact) for found in findings)
    numbers += [(str(levels[level]), f"{level} impact") for level in reversed(Level) if known and levels[level]]
    numbers += [(str(fixable), "fixable by gpulint fix")] if fixable else []
    if report.jobs:
        gpus = sum(job.gpus or 0 for job in report.jobs)
        numbers.append((str(len(report.jobs)), f"jobs with {counted(gpus, 'GPU')}" if gpus else "jobs with GPUs"))
    yield '<ul class="numbers">' + "".join(f"<li><b>{number}</b> {what}</li>" for number, what in numbers) + "</ul>"
    for note in filter(None, (unchecked(report), context.hidden)):
        yield f'<p class="quiet">{text(note)}</p>'


def _start(found: Sequence[Section], marks: dict[int, str], context: Context) -> Iterator[str]:
    first = most_important(found, _FIRST)
    if not first:
        return
    yield '<section class="card first"><h2>Start with</h2><ol>'
    for section, cause in first:
        gpus = f", {text(said)}" if (said := stated_gpus(section, cause)) else ""
        where = text(place(cause.first.path, cause.first.span, context))
        link = f'<a href="#{marks[id(cause)]}">{text(cause.first.rule.code)}</a>'
        yield f'<li>{link} {code(cause.first.message)} <span class="quiet place">({where}{gpus})</span></li>'
    yield "</ol></section>"


def _filters(found: Sequence[Section]) -> Iterator[str]:
    findings = [result.finding for cause in _all(found) for result in cause.results]
    levels = sorted({one.impact.level for one in findings}, reverse=True)
    categories = sorted({one.rule.category.label for one in findings})
    boxes = "".join(
        f'<label><input type="checkbox" name="impact" value="{level}" checked> {level}</label>' for level in levels
    )
    options = "".join(f"<option>{text(label)}</option>" for label in categories)
    yield '<form class="card" hidden aria-label="Filters">'
    yield f"<fieldset><legend>Impact</legend>{boxes}</fieldset>"
    yield '<label class="wide">Category <select name="category"><option value="">all</option>'
    yield f"{options}</select></label>"
    yield '<label class="wide">Path <input type="search" name="path" placeholder="part of a path"></label>'
    yield '<span><button type="reset">Reset</button> <button type="button" id="open">Open all</button>'
    yield '<button type="button" id="close">Close all</button></span>'
    yield '<output aria-live="polite"></output></form>'


def _cards(found: Sequence[Section], marks: dict[int, str], context: Context) -> Iterator[str]:
    first = {id(cause) for _, cause in most_important(found, _FIRST)}
    for section in found:
        yield '<section class="card group"><header>'
        if section.job is None:
            yield f"<h2>{'Outside of these jobs' if len(found) > 1 else 'Findings'}</h2></header>"
        else:
            yield from _job(section, section.job, context)
        for cause in section.causes:
            is_open = cause.first.impact.level is Level.HIGH or id(cause) in first
            yield from finding(cause, marks[id(cause)], is_open, context)
        yield "</section>"


def _job(section: Section, job: JobSummary, context: Context) -> Iterator[str]:
    yield f'<span class="gpus">{gpus_of(job)}</span><h2>{text(job.name)}</h2>'
    yield '<p class="quiet">' + " &rarr; ".join(steps_of(job, context, text)) + "</p>"
    if section.lost is not None:
        yield from _lost(section.lost)
    if section.others:
        names = ", ".join(place(one.place.path, one.place.span, context) for one in section.others)
        yield f'<p class="quiet">Also run by {counted(len(section.others), "more job")}: {text(names)}</p>'
    yield "</header>"


def _lost(share: Range) -> Iterator[str]:
    """The lost share in words, with a bar: what is lost at least, and at most."""
    low, high = (f"{100 * end:.1f}" for end in share)
    yield '<div class="lost"><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
    yield f'<rect class="maybe" width="{high}" height="10"/><rect class="sure" width="{low}" height="10"/></svg>'
    yield f"<span>{percent(share)} of the GPU time lost (estimate)</span></div>"
