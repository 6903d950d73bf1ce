"""Reads that a fix itself would leave in every step."""

from __future__ import annotations

import ast

from gpulint_rules.data.called_waits import called_wait
from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait
from gpulint_rules.data.round_copies import copies_in
from gpulint_rules.data.sample_waits import wait_in_samples

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix
from gpulint.placement.unknown_results import UnknownResults
from gpulint.project import Project
from gpulint.source import Span
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_fixers.waits.logs.log_intervals import is_seldom
from gpulint_fixers.waits.step_tests import branches_around, hidden_waits, inner_loop
from gpulint_fixers.waits.unknown_reads import rates

_READS = regex.compile(r"(?:float|int)\([\w.\[\]'\"]+\)")


def remaining_read(project: Project, found: HostWait, made: Fix) -> Declined | None:
    """Return why a fix gains nothing: it leaves a read in every step, in the statement or where the value is used."""
    if found.context.calls and (left := _left_in(found, made)) is not None:
        return Declined(f"`{left}` of the same statement is read in every step as well")
    if (stays := other_way(project, found, made)) is not None:
        return stays
    loop = found.context.loop
    here = branches_around(found.module, found.statement, loop.node) if not found.context.calls else frozenset()
    own = [edit for edit in made.edits if edit.path == loop.module.path]
    for edit in own:
        statement = _statement(loop.module, loop.node, edit.span) if _READS.fullmatch(edit.text) else None
        if statement is None or is_seldom(project, loop.module, statement):
            continue
        if branches_around(loop.module, statement, loop.node) <= here and not gets_seldom(loop.module, statement, own):
            return Declined(f"{loop.module.syntax.span(statement).words} needs the number in every step")
    return None


def other_way(project: Project, found: HostWait, made: Fix) -> Declined | None:
    """Return why a fix in the loop gains nothing: another call of the loop leads to the wait in every step."""
    if not found.context.calls:
        return None
    loop, module = found.context.loop, found.context.loop.module
    own = found.module.syntax.span(found.statement)  # type: ignore[arg-type]
    changed = (edit.span for edit in made.edits if edit.path == found.module.path)
    if any(span.line <= own.end_line and own.line <= span.end_line for span in changed):
        return None
    lines = {
        line
        for edit in made.edits
        if edit.path == module.path
        for line in range(edit.span.line, edit.span.end_line + 1)
    }
    for context in project.fact(LoopContexts).enclosing_loops(found.module, found.statement):
        call = context.calls[0] if context.calls and context.loop.node is loop.node else None
        if call is None or call.module is not module or not isinstance(call.node, ast.Call):
            continue
        if lines and call.node.lineno not in lines and not is_seldom(project, module, call.node):
            name = last_name(call.node.func)
            return Declined(
                f"`{name}(...)` in {module.syntax.span(call.node).words} leads to the same wait in every step"
            )
    return None


def waits_anyway(project: Project, found: HostWait, saved: frozenset[ast.AST]) -> Declined | None:
    """Return why nothing is gained: whenever the loop gets to the wait, it or what it calls waits for a size or for a
    value that decides, other than those places that fixes change."""
    loop, inner = found.context.loop, inner_loop(found.module, found.statement)
    if inner is not None and inner is not loop.node and (copy := copy_in_rounds(project, found, inner)) is not None:
        return Declined(f"each round waits in {found.module.syntax.span(copy).words} as well, which no fix changes")
    if (read := wait_in_samples(project, [(found.syncs[0], found.context)])) is not None:
        where = read.module.syntax.span(read.node).words  # type: ignore[arg-type]
        return stays_in("each sample of every step", f"{where} of {read.module.path.name}", False)
    beside = found.context.calls[0] if found.context.calls else NodeRef(found.module, found.statement)
    if beside.module is not loop.module or loop.node not in loop.module.syntax.ancestors(beside.node):
        return None
    stays = called_wait(project, loop.module, loop.node, beside.node, saved)
    if stays is None or not isinstance(stays.node, ast.expr):
        return None
    where = stays.module.syntax.span(stays.node).words
    file = "" if stays.module is found.module else f" of {stays.module.path.name}"
    return stays_in("every step", f"{where}{file}", False)


def copy_in_rounds(project: Project, found: HostWait, inner: ast.For) -> ast.expr | None:
    """Return the first copy to the GPU that waits in each round of an inner loop that gets to a wait."""
    here = branches_around(found.module, found.statement, inner)
    copies = copies_in(project, found.module, inner)
    return next((copy for copy in copies if branches_around(found.module, copy, inner) <= here), None)


def stays_in(step: str, where: str, halved: bool) -> Declined:
    """Say where a step waits whatever is done, perhaps once after the fix there."""
    if halved:
        often = "" if step == "every step" else " by default"
        return Declined(f"{where} of the same step waits{often} as well, and its fix leaves one wait")
    return Declined(f"{step} waits in {where} as well, which no fix changes")


def read_elsewhere(project: Project, found: HostWait, here: frozenset[ast.AST]) -> Declined | None:
    """Return why nothing is gained: the loop waits where no finding says so, in another function than the finding."""
    if (stored := _stored_in_array(found, here)) is not None:
        where = found.module.syntax.span(stored).words
        return Declined(f"every step also writes the value to an array of NumPy in {where}, which reads it")
    loop, own = found.context.loop, found.module.function(found.statement) if found.context.calls else None
    for call, read in hidden_waits(project, loop.module, loop.node):
        inside = own is not None and read.module.function(read.node) is own
        if not inside and branches_around(loop.module, call, loop.node) <= here:
            what = f"`{ast.unparse(read.node)}` of {read.module.path.name}"
            if _is_of_library(project, read):
                return Declined(f"every step reads {what} as well, which a library returns, perhaps on the GPU")
            if read.node is call and isinstance(call, ast.Call) and rates(call):
                return Declined(f"every step calls {what} as well, which may read its tensors")
            return Declined(f"every step waits in {what} as well")
    return None


def _stored_in_array(found: HostWait, here: frozenset[ast.AST]) -> ast.stmt | None:
    """The statement of the loop that stores the same tensor in an array (``losses[step] = loss``)."""
    module, loop = found.module, found.context.loop.node
    read = {ast.unparse(sync.value) for sync in found.syncs if sync.value is not None}
    for part in walk(loop) if not found.context.calls else ():
        match part:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name) as array)], value=ast.Name() as value) if (
                value.id in read and _is_array(module, array, name)
            ):
                if branches_around(module, part, loop) <= here:
                    return part
    return None


def _is_array(module: ModuleIndex, use: ast.Name, name: str) -> bool:
    """Return whether NumPy makes all values of a variable."""
    values = [binding.value for binding in module.scope(use).lookup(name)]
    return bool(values) and all(
        isinstance(value, ast.Call) and ast.unparse(value.func).startswith(("np.", "numpy.")) for value in values
    )


def _is_of_library(project: Project, read: NodeRef) -> bool:
    match read.node:
        case ast.Call(func=ast.Attribute(attr="item", value=value)):
            return project.fact(UnknownResults).holds(read.module, value)
    return False


def _left_in(found: HostWait, made: Fix) -> str | None:
    """A read of the statement that the fix does not change: of a tensor that may be on the GPU all the same."""
    own, path = found.module.syntax.span(found.statement), found.module.path  # type: ignore[arg-type]
    changed = [edit.span for edit in made.edits if edit.path == path and ("detach" in edit.text or not edit.text)]
    if not any(_overlaps(own, span) for span in changed):
        return None
    for part in walk(found.statement):
        if not isinstance(part, ast.Call) or not isinstance(part.func, ast.Attribute) or part.args:
            continue
        span = found.module.syntax.span(part)
        inside = any(span.line <= one.line <= span.end_line and _overlaps(span, one) for one in changed)
        if part.func.attr == "item" and not inside:
            return ast.unparse(part)
    return None


def _overlaps(one: Span, other: Span) -> bool:
    return (one.line, one.column) <= (other.end_line, other.end_column) and (other.line, other.column) <= (
        one.end_line,
        one.end_column,
    )


def _statement(module: ModuleIndex, loop: ast.AST, span: Span) -> ast.stmt | None:
    """The innermost statement of a loop that an edit is in."""
    if span.cell is not None:
        return None
    inside = [
        part
        for part in walk(loop)
        if isinstance(part, ast.stmt) and part is not loop and _overlaps(module.syntax.span(part), span)
    ]
    return max(inside, key=lambda part: (part.lineno, part.col_offset), default=None)


def gets_seldom(module: ModuleIndex, statement: ast.stmt, edits: list[Edit]) -> bool:
    """Return whether other edits put a statement, or a test, under a condition that holds every N steps."""
    around = [statement, *module.syntax.ancestors(statement)]
    for edit in edits:
        if "%" in edit.text and any(
            isinstance(up, ast.If) and _overlaps(module.syntax.span(up.test), edit.span) for up in around
        ):
            return True
        if edit.span.line <= statement.lineno <= edit.span.end_line and edit.text and not edit.text.strip(" \t"):
            return True  # indented, below a condition
    return False
