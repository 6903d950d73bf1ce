"""One finding as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from gpulint import regex
from gpulint.counting import counted
from gpulint.fix import Declined, Fix
from gpulint.reporters import Context
from gpulint.reporters.excerpt import Line, excerpt, preview
from gpulint.reporters.grouping import Cause
from gpulint.reporters.html_text import code, text
from gpulint.reporters.impact_text import impact_text, is_known
from gpulint.source import Span

_CLASSES = {"mark": "mark", "+": "add", "-": "remove", "gap": "gap", "file": "file", "code": ""}
_MOST = 300
"""Most columns of a line of source text."""
_URL = regex.compile(r"https?://\S+")


def finding(cause: Cause, mark: str, is_open: bool, context: Context) -> Iterator[str]:
    """A cause as a part of the page that opens; ``mark`` is its address there."""
    found = cause.first
    paths = " ".join(dict.fromkeys(context.relative(path) for path in _paths(cause)))
    level = found.impact.level
    yield (
        f'<details class="finding" id="{mark}" data-impact="{level}" data-category="{text(found.rule.category.label)}"'
        f' data-paths="{text(paths)}"{" open" if is_open else ""}>'
    )
    more = f" and {counted(len(cause.results) - 1, 'more place')}" if len(cause.results) > 1 else ""
    badge = f'<span class="badge {level}">{level} impact</span> ' if is_known(found.impact) else ""
    yield (
        f'<summary>{badge}<span class="badge">{found.severity}</span>'
        f" <b>{text(found.rule.code)}</b> {code(found.message)}"
        f'<span class="where">{text(place(found.path, found.span, context))}{more}</span></summary>'
    )
    yield '<div class="body">'
    yield _lines(excerpt(context.source(found.path, found.span.cell), found.span, _MOST), context)
    yield "<dl>"
    yield from _facts(cause, context)
    yield "</dl>"
    fix = cause.previewed
    if isinstance(fix, Fix):
        repaired = cause.repaired.finding
        yield _lines(preview(fix, repaired.path, repaired.span, context.source, _MOST), context)
    yield "</div></details>"


def place(path: Path, span: Span, context: Context) -> str:
    """``train.py:12``, for notebooks ``a.ipynb:cell 3:12``."""
    return context.place(path, span).rpartition(":")[0]


def _paths(cause: Cause) -> Iterator[Path]:
    for result in cause.results:
        yield result.finding.path
        yield from (other.path for other in result.finding.related)
    yield from (*cause.copies, *cause.alike)


def _facts(cause: Cause, context: Context) -> Iterator[str]:
    found, rule, fix = cause.first, cause.first.rule, cause.repaired.fix
    yield _fact("Impact", code(impact_text(found.impact)))
    yield _fact("Why", code(rule.why))
    notes = [(place(one.path, one.span, context), one.message) for one in found.related]
    yield _fact("Notes", _list(f"{text(where)}: {code(message)}".removesuffix(": ") for where, message in notes))
    places = [place(one.finding.path, one.finding.span, context) for one in cause.results[1:]]
    yield _fact("Also", _list(map(text, places)))
    yield _fact("Copies", _list(text(context.relative(path)) for path in cause.copies))
    yield _fact("Same code in", _list(text(context.relative(path)) for path in cause.alike))
    name = f"{text(rule.code)} {text(rule.name)}"
    yield _fact("Rule", f'<a href="{text(rule.url)}" rel="noreferrer">{name}</a>' if _URL.fullmatch(rule.url) else name)
    advice, _, snippet = found.help.partition("\n")
    yield _fact("Help", code(advice) + (f'<pre class="copy">{text(snippet)}</pre>' if snippet else ""))
    if isinstance(fix, Fix):
        yield _fact(f"Fix ({fix.safety})" if fix.changes else "Fix", code(cause.told(context)))
    elif isinstance(fix, Declined):
        yield _fact("No fix", code(fix.reason))


def _fact(name: str, content: str) -> str:
    return f"<dt>{name}</dt><dd>{content}</dd>" if content else ""


def _list(items: Iterable[str]) -> str:
    listed = "".join(f"<li>{item}</li>" for item in items)
    return f'<ul class="places">{listed}</ul>' if listed else ""


def _lines(lines: Iterable[Line], context: Context) -> str:
    """Lines of code with their numbers; long ones scroll."""
    shown = _dedented([*lines])
    width = max((len(str(line.number)) for line in shown if line.number and line.kind != "file"), default=1)
    made = []
    for line in shown:
        named = line.kind == "file"
        number = "" if line.number is None or named else str(line.number)
        content = _file(line, context) if named else line.text
        sign = f"{line.kind} " if line.kind in "+-" else ""
        made.append(f'<span class="{_CLASSES[line.kind]}"><i>{number:>{width}} </i>{sign}{text(content)}</span>')
    return f'<pre tabindex="0">{"".join(made)}</pre>' if made else ""


def _dedented(lines: list[Line]) -> list[Line]:
    """``lines`` without the blanks that all of them start with, which fill the width of a phone."""
    texts = [line.text for line in lines if line.kind not in ("file", "gap") and line.text.strip()]
    common = min((len(text) - len(text.lstrip(" ")) for text in texts), default=0)
    return [replace(line, text=line.text[common:]) if line.kind not in ("file", "gap") else line for line in lines]


def _file(line: Line, context: Context) -> str:
    path = context.relative(Path(line.text))
    return f"{path}:" if line.number is None else f"{path} (new, {counted(line.number, 'line')})"
