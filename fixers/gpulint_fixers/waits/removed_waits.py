"""Waits of a training loop that a fix takes out."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.reasons import says_why
from gpulint.source import Span
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name
from gpulint_fixers.edits.statements import comment_behind, remove_statement, with_own_comment

_TIMED = regex.compile(r"tflops|throughput|benchmark|profil|samples_per_sec|images_per_sec|imgs_per_sec|time_meter")
_MEASURES = regex.compile(
    r"(?i)\btim(e|es|ed|ing|ings|er|ers)\b|measur|bench|profil|throughput|latency|\bspeed|accurate"
    r"|\u8ba1\u65f6|\u8a08\u6642|\u8a08\u6e2c|\u8017\u65f6|\u65f6\u95f4|\u6642\u9593|\u6d4b|\uc2dc\uac04"
)
"""Comments on clocks, also in Chinese, Japanese and Korean."""
_SYNCHRONIZES = regex.compile(r"(?i)#[^#]*(\bsync|\bwait|\u540c\u6b65)")
"""Comments that say what the call does."""
_TIMERS = regex.compile(r"(?i)time|bench|profil|throughput|latency|warm_?up|debug|probe")


def remove_wait(module: ModuleIndex, statement: ast.stmt, description: str) -> Fix | Declined:
    """Remove a call that waits, with the empty line that it would leave, unless the loop measures time."""
    if not isinstance(statement, ast.Expr):
        return Declined("the call is part of a larger statement")
    around = [up for up in module.syntax.ancestors(statement) if isinstance(up, (*FUNCTIONS, ast.ClassDef))]
    if any(_TIMERS.search(up.name) for up in around):
        return Declined("the function measures time or looks for errors, for which it has to wait")
    within = module.syntax.text(around[0]) if around and isinstance(around[0], FUNCTIONS) else module.syntax.source.text
    if _TIMED.search(within.lower().replace("cudnn.benchmark", "")):
        return Declined("the loop measures speed, for which it has to wait")
    edit = remove_statement(module.syntax, _alone(module, statement))
    if edit is None:
        return Declined("the statement shares its line with another one")
    if _is_for_clock(module, statement, edit.span):
        return Declined("a comment says that the call is there to measure time, or gives another reason for it")
    source = module.syntax.source
    if edit.span.cell is None:
        edit = with_own_comment(source, edit, _SYNCHRONIZES)
    span = edit.span
    if span.cell is None and not edit.text and span.column == span.end_column == 1:
        blank = [not source.line(number).strip() for number in (span.line - 1, span.end_line)]
        if all(blank) and span.line > 1:
            edit = Edit(edit.path, Span(span.line, 1, span.end_line + 1, 1), "")
    timed = "; times of single steps then only count what the host does" if "time" in within else ""
    return Fix(f"{description}{timed}", Safety.UNSAFE, (edit,))


def _alone(module: ModuleIndex, statement: ast.stmt) -> ast.stmt:
    """Return the condition around a statement that is all it has, such as ``if device == "cuda":``; else the
    statement."""
    up = module.syntax.parents.get(statement)
    if not isinstance(up, ast.If) or up.body != [statement] or up.orelse:
        return statement
    text = module.syntax.text(up)
    calls = (last_name(part.func) for part in walk(up.test) if isinstance(part, ast.Call))
    plain = text.startswith("if") and "#" not in text and all(name == "is_available" for name in calls)
    return up if plain else statement


def _is_for_clock(module: ModuleIndex, statement: ast.stmt, removed: Span) -> bool:
    """Return whether the comment behind a call, or right above what goes with it, says that clocks need it, or gives
    another reason."""
    source = module.syntax.source
    above = source.line(removed.line - 1).strip() if removed.cell is None and removed.line > 1 else ""
    said = (comment_behind(module.syntax, statement), above if above.startswith("#") else "")
    return any(_MEASURES.search(text) or says_why(text) for text in said if text)
