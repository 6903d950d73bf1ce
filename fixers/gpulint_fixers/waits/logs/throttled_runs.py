"""The edits after which statements of a block that only log run every N steps."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.edits.calls import WIDTH
from gpulint_fixers.edits.structural import indentation_step as _step
from gpulint_fixers.edits.structural import wrap_once
from gpulint_fixers.waits.logs.final_steps import only_shown
from gpulint_fixers.waits.logs.log_intervals import Interval

_BAR = regex.compile(r"progress|(^|_)bar")
_COUNT = regex.compile(r"total|count|len|num|steps|batches|size|max|^n")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def throttled(
    document: Document, module: ModuleIndex, statements: list[ast.stmt], when: Interval
) -> tuple[Edit, ...] | Declined:
    """Edits that let statements of one block run only every N steps: in the block that does so already, if it is next
    to them."""
    found = _with_sums(module, statements, _with_last(module, statements, when))
    if isinstance(found, Declined):
        return found
    when = found
    before, _ = _neighbours(module, statements)
    onward = without_head_below(module, statements, when.test)
    if before is not None and _is_same(module, before, when.test) and _indents_alike(module, before, statements[0]):
        edits = wrap_once(module, document, tuple(statements), "")
        if not isinstance(edits, Declined):
            return (*edits, *onward)
    if (joined := _joined(module, statements, when)) is not None:
        return (*when.edits, joined)
    edits = wrap_once(module, document, tuple(statements), f"if {when.test}:")
    if isinstance(edits, Declined):
        return edits
    return (*when.edits, *edits, *onward)


def _with_last(module: ModuleIndex, statements: list[ast.stmt], when: Interval) -> Interval:
    """The interval, and the last step as well for a bar of the program's own, which ends its line at the last step:
    ``progress_bar(step, len(loader), text)``."""
    for call in (part for statement in statements for part in walk(statement) if isinstance(part, ast.Call)):
        match call:
            case ast.Call(func=ast.Name(id=name), args=[ast.Name(id=counter), total, *_]) if (
                _BAR.search(name) and _is_count(total) and when.test.startswith(f"{counter} % ")
            ):
                last = "" if _counts_from_one(module, call, counter) else " - 1"
                return replace(when, test=f"{when.test} or {counter} == {module.syntax.text(total)}{last}")
    return when


def _with_sums(module: ModuleIndex, statements: list[ast.stmt], when: Interval) -> Interval | Declined:
    """The interval, and the last step as well where the log alone shows a sum of the epoch."""
    found = only_shown(module, when.loop, statements) if when.loop is not None else None
    if found is None or " or " in when.test:
        return when
    name, divided = found
    if when.last:
        return replace(when, test=f"{when.test} or {when.last}")
    if not divided:
        return when
    return Declined(f"nothing but this log shows `{name}` of a whole epoch, whose last step is not known")


def _is_count(total: ast.expr) -> bool:
    match total:
        case ast.Name(id=name):
            return _COUNT.search(name) is not None
        case ast.Call(func=ast.Name(id="len")):
            return True
    return False


def _counts_from_one(module: ModuleIndex, call: ast.Call, counter: str) -> bool:
    """``for step, batch in enumerate(loader, 1)``"""
    for up in module.syntax.ancestors(call):
        match up:
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call() as source) if name == counter:
                return len(source.args) + len(source.keywords) > 1
    return False


def without_head_below(module: ModuleIndex, statements: list[ast.stmt], test: str) -> tuple[Edit, ...]:
    """Let the block right below go on with statements that get its condition as well."""
    _, after = _neighbours(module, statements)
    if after is None or not _is_same(module, after, test) or not _indents_alike(module, after, statements[0]):
        return ()
    source = module.syntax.source
    first, last = source.offset(after.lineno, 1), source.offset(after.lineno + 1, 1)
    return (Edit(module.path, module.syntax.span_at(first, last), ""),)


def _joined(module: ModuleIndex, statements: list[ast.stmt], when: Interval) -> Edit | None:
    """Add the interval to the condition of the block that the statements are all of: ``if rank == 0 and step % 50 ==
    0:``."""
    branch, syntax = module.syntax.parents.get(statements[0]), module.syntax
    if not isinstance(branch, ast.If) or branch.body != statements or branch.orelse:
        return None
    if not isinstance(branch.test, ast.Name | ast.Attribute | ast.Call | ast.Compare | ast.UnaryOp):
        return None
    (start, end), source = syntax.offsets(branch.test), syntax.source
    line, column = source.position(end)
    test = f"({when.test})" if " or " in when.test else when.test
    more = f" and {test}"
    ends = source.line(line)[column - 1 :].startswith(":")
    fits = len(source.line(line)) + len(more) <= max(source.width, WIDTH)
    if not ends or not fits:
        return None
    if isinstance(branch.test, ast.Compare) and isinstance(branch.test.ops[0], _ORDERS):
        return Edit(module.path, syntax.span_at(start, start), f"{test} and ")  # the values may be on the GPU
    return Edit(module.path, syntax.span_at(end, end), more)


def _neighbours(module: ModuleIndex, statements: list[ast.stmt]) -> tuple[ast.If | None, ast.If | None]:
    """The ``if`` right above statements of a block and the one right below, with nothing but blank lines between."""
    place, parent = module.syntax.place(statements[0]), module.syntax.parents.get(statements[0])
    assert place is not None
    block: list[ast.stmt] = getattr(parent, place[0])
    start, end = place[1], place[1] + len(statements)
    above = block[start - 1] if start > 0 else None
    below = block[end] if end < len(block) else None
    return (
        above if isinstance(above, ast.If) and _is_blank(module, above, statements[0]) else None,
        below if isinstance(below, ast.If) and _is_blank(module, statements[-1], below) else None,
    )


def _is_blank(module: ModuleIndex, one: ast.stmt, other: ast.stmt) -> bool:
    """Return whether nothing is between two statements but a comment on the last line of the first."""
    syntax = module.syntax
    between = syntax.source.text[syntax.offsets(one)[1] : syntax.offsets(other)[0]].lstrip(" \t;")
    return not (between.partition("\n")[2] if between.startswith("#") else between).strip()


def _is_same(module: ModuleIndex, branch: ast.If, test: str) -> bool:
    """Return whether a block runs under the same condition, which its first line says and nothing else, perhaps in
    other parentheses."""
    source, end = module.syntax.source, module.syntax.offsets(branch.test)[1]
    head_end = source.offset(branch.lineno + 1, 1)
    if branch.orelse or end > head_end or source.text[end:head_end].strip(" \t)\r\n") != ":":
        return False
    return ast.dump(branch.test) == ast.dump(ast.parse(test, mode="eval").body)


def _indents_alike(module: ModuleIndex, branch: ast.If, statement: ast.stmt) -> bool:
    """Return whether a statement that is indented once more has the indentation of the block."""
    return _step(module.syntax, statement) == _step(module.syntax, branch)
