"""Repairs do not depend on how code is laid out.

The Python of every spec that is repaired is laid out at random: line breaks, comments and backslashes in odd places,
redundant parentheses, tabs, other line endings, a byte order mark. It is repaired to the same program as before, comments
stay, and a second run finds nothing to do.
"""

from __future__ import annotations

import ast
import io
import itertools
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpulint import config, fixing, plugins
from gpulint.fix import Fix
from gpulint.outcomes import Fixed, State
from gpulint.project import Project
from gpulint.selection import select
from gpulint.source import SourceText
from gpulint.testing import Case, read_all

LOADED = plugins.load()
CASES = [
    case
    for case in read_all(Path(__file__).parents[1] / "rules")
    if case.kind == "Bad" and case.code in LOADED.fixers and any(name.endswith(".py") for name in case.files)
]
ROOT = Path("/nowhere/project")
INSIDE = ("", " ", "\t", "\n", "\n\n    ", "  # odd, (place) \U0001f642\n", "#'''\n  ", " \\\n\t", "\n# alone 漢\n")
OUTSIDE = ("", " ", "  ", " \\\n    ", "\\\n")
ENDS = ("", "  ", "  # gr\u00fc\u00df 🔥", "#)", ";", " ; # and")
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT)
_FSTRINGS = {"FSTRING_START": 1, "FSTRING_END": -1}
"""From Python 3.12 on f-strings have tokens inside of them, between which nothing is put."""


def lay_out(text: str, data: st.DataObject) -> str:
    """``text`` with other blanks, line breaks and comments between its tokens."""
    lines = text.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines)), len(text)]
    tabs = data.draw(st.booleans())
    parts, at, depth, strings, fresh = [], 0, 0, 0, True
    seeds = iter(data.draw(st.binary(min_size=60, max_size=200)))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start, end = (starts[line - 1] + column for line, column in (token.start, token.end))
        gap = text[at:start]
        seed = next(seeds, 0)
        if fresh:
            gap = gap.replace("    ", "\t") if tabs else gap
        elif token.type == tokenize.NEWLINE and "#" not in gap:
            gap += ENDS[seed % 48] if seed % 48 < len(ENDS) else ""
        elif depth and not strings and token.type not in _LAYOUT:
            gap += INSIDE[seed % 24] if seed % 24 < len(INSIDE) else ""
        elif not strings and token.type not in _LAYOUT and gap:
            gap += OUTSIDE[seed % 48] if seed % 48 < len(OUTSIDE) else ""
        word = text[start:end]
        if token.type == tokenize.INDENT:
            word = word.replace("    ", "\t") if tabs else word
        strings += _FSTRINGS.get(tokenize.tok_name[token.type], 0)
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        fresh = token.type in (tokenize.NEWLINE, tokenize.NL) and depth == 0
        parts += [gap, word]
        at = end
    return "".join(parts)


def parenthesize(text: str, data: st.DataObject) -> str:
    """``text`` with parentheses around some arguments."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    values = [value for call in calls for value in (*call.args, *(keyword.value for keyword in call.keywords))]
    values = [value for value in values if not isinstance(value, ast.Starred | ast.GeneratorExp)]
    chosen = data.draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
    lines = text.encode().splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    raw = text.encode()
    marks = [(starts[value.lineno - 1] + value.col_offset, b"(") for value in chosen]
    marks += [(starts[(value.end_lineno or 1) - 1] + (value.end_col_offset or 0), b")") for value in chosen]
    for place, mark in sorted(marks, reverse=True):
        raw = raw[:place] + mark + raw[place:]
    return raw.decode()


def dump(text: str) -> str:
    return ast.dump(ast.parse(text.removeprefix("\ufeff")))


def comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text.removeprefix("\ufeff"), newline=None).readline)
    return Counter(token.string.strip() for token in tokens if token.type == tokenize.COMMENT)


def repair(case: Case, files: dict[str, str]) -> tuple[dict[str, str], Fixed]:
    """All files after all fixes."""
    options = config.Config(base=ROOT)
    paths = sorted(ROOT / name for name in files)
    project = Project(ROOT, paths, options)
    for name, text in files.items():
        project.provide(ROOT / name, text.encode())
    rules = select(LOADED.rules, case.select, (), ())
    fixed = fixing.fix(project, paths, rules, LOADED.fixers, unsafe=True)
    assert fixed.report.errors == []
    changed = {change.path.relative_to(ROOT).as_posix(): change.after.decode() for change in fixed.changes}
    return files | changed, fixed


@cache
def plain(index: int) -> tuple[dict[str, str], list[str]]:
    """A case repaired as it is, and the codes of what was done."""
    files, fixed = repair(CASES[index], CASES[index].files)
    return files, [outcome.result.finding.rule.code for outcome in fixed.of(State.APPLIED)]


def removals(fixed: Fixed, path: Path, text: str) -> Iterator[str]:
    """Whole statements that were taken out of ``text``, with the comments inside of them."""
    source = SourceText(text.removeprefix("\ufeff"))
    for outcome in fixed.of(State.APPLIED):
        assert isinstance(outcome.result.fix, Fix)
        for edit in outcome.result.fix.edits:
            if edit.path == path and edit.text.strip() in ("", "pass") and outcome.round == 1:
                span = edit.span
                yield source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, len(CASES) - 1), st.data())
def test_layout_does_not_matter(index: int, data: st.DataObject) -> None:
    case = CASES[index]
    files = dict(case.files)
    ending = data.draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    mark = data.draw(st.sampled_from(["", "", "\ufeff"]))
    for name, text in case.files.items():
        if name.endswith(".py"):
            files[name] = lay_out(parenthesize(text, data), data)
            try:
                assume(dump(files[name]) == dump(text))
            except SyntaxError:
                assume(False)
            if data.draw(st.booleans()):
                files[name] = files[name].rstrip("\n")
            files[name] = mark + files[name].replace("\n", ending)
    expected, done = plain(index)
    assume(done)
    now, fixed = repair(case, files)
    assert [outcome.reason for outcome in fixed.of(State.DROPPED) if "would be lost" not in outcome.reason] == []
    for name, text in files.items():
        if not name.endswith(".py"):
            continue
        assert now[name].startswith("\ufeff") == bool(mark)
        if ending == "\r\n" and name in now:
            assert "\n" not in now[name].replace("\r\n", "")
        if [outcome.result.finding.rule.code for outcome in fixed.of(State.APPLIED)] == done:
            assert dump(now[name]) == dump(expected[name])
        removed = "".join(removals(fixed, ROOT / name, text))
        lost = comments(text) - comments(now[name])
        assert all(comment in removed or comment.strip("#, ") in now[name] for comment in lost)  # or is code again
    assert repair(case, now)[0] == now
