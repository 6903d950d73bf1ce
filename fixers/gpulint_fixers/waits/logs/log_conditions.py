"""Values that each step computes for a block below it alone, which runs every N steps: they are needed there only."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.fix import Declined, Fix, Safety
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import is_of_processes
from gpulint.values.periodic_tests import is_periodic
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name
from gpulint_fixers.edits.statements import insert_above, remove_statement
from gpulint_fixers.edits.structural import indentation_step, wrap_once
from gpulint_fixers.waits.logs.throttled_runs import without_head_below

_CALLS = frozenset(
    "float int str round item detach cpu numpy tolist mean sum max min norm reshape view squeeze tensor as_tensor "
    "stack cat to double gather gather_for_metrics reduce all_reduce all_gather reduce_mean reduce_dict items keys "
    "values get len dict list zip sorted".split()
)
"""Calls that compute a value, on their own or together with other processes."""

_TOGETHER = frozenset(
    {"gather", "gather_for_metrics", "reduce", "all_reduce", "all_gather", "reduce_mean", "reduce_dict"}
)
"""Those in which all processes take part."""


def under_condition(project: Project, module: ModuleIndex, statement: ast.stmt, loop: LoopNode) -> Fix | None:
    """The fix that computes values under the condition of the block that uses them; None where there is none.

    A test which process it is stays out of the condition: all processes take part in what they compute together.
    """
    inner: ast.stmt = statement
    for up in module.syntax.ancestors(statement):
        if isinstance(inner, ast.stmt) and (made := _in_block(project, module, inner)) is not None:
            return made
        if up is loop or not isinstance(up, ast.stmt):
            return None
        inner = up
    return None


@query
def _in_block(project: Project, module: ModuleIndex, statement: ast.stmt) -> Fix | None:
    place, parent = module.syntax.place(statement), module.syntax.parents.get(statement)
    document = project.document(module.path)
    if place is None or parent is None or document is None:
        return None
    block: list[ast.stmt] = getattr(parent, place[0])
    found = [(at, one) for at, one in enumerate(block) if at > place[1] and isinstance(one, ast.If)]
    for at, branch in found[:2]:
        if (moved := _moved_into(project, module, block[place[1] : at], branch)) is not None:
            return moved
        test = _periodic_part(project, module, branch) if not branch.orelse else None
        if test is None:
            continue
        first = last = place[1]
        while first > 0 and _computes(block[first - 1]):
            first -= 1
        while last + 1 < at and _computes(block[last + 1]):
            last += 1
        run = _needed_only(module, block[first : last + 1], branch, statement)
        between = block[block.index(run[0]) : at] if run else []
        if (
            not run
            or not all(map(_computes, between))
            or _names(test) & {name for one in between for name in _stored(one)}
        ):
            continue
        asked = test_text(module, test)
        edits = wrap_once(module, document, tuple(run), f"if {asked}:")
        if isinstance(edits, Declined):
            return None
        edits = (*edits, *without_head_below(module, run, asked))
        return Fix("compute what is logged only in the steps that log it", Safety.UNSAFE, edits)
    return None


def _moved_into(project: Project, module: ModuleIndex, above: list[ast.stmt], branch: ast.If) -> Fix | None:
    """Move the first of the statements above a branch into it, where nothing else needs its value: what the condition
    asks for is set only between the two, or is no condition for a second block."""
    first = above[0]
    if branch.orelse or not is_periodic(project, module, branch.test, True) or not all(map(_computes, above)):
        return None
    if not isinstance(first, ast.Assign) or not all(isinstance(target, ast.Name) for target in first.targets):
        return None
    together = {last_name(part.func) for part in walk(first) if isinstance(part, ast.Call)} & _TOGETHER
    between = {name for one in above[1:] for name in _stored(one)}
    asked = _names((branch.test,))
    if together or (not asked & between and _periodic_part(project, module, branch) is not None):
        return None
    if _names((first.value,)) & between or asked & _stored(first) or not _needed_only(module, [first], branch, first):
        return None
    syntax, lines = module.syntax, module.syntax.text(first).split("\n")
    more = branch.body[0].col_offset - first.col_offset
    pad = indentation_step(syntax, branch.body[0]) if more > 0 else ""
    text = "\n".join([lines[0], *(f"{pad}{line}" if line.strip() else line for line in lines[1:])])
    edits = remove_statement(syntax, first), insert_above(syntax, branch.body[0], text)
    if edits[0] is None or edits[0].text or edits[1] is None or '"""' in text or "'''" in text:
        return None
    return Fix("compute what is logged only in the steps that log it", Safety.UNSAFE, (edits[0], edits[1]))


def test_text(module: ModuleIndex, tests: tuple[ast.expr, ...]) -> str:
    """The text of conditions that hold together."""
    return " and ".join(module.syntax.text(one) for one in tests)


def _periodic_part(project: Project, module: ModuleIndex, branch: ast.If) -> tuple[ast.expr, ...] | None:
    """The parts of a condition that say in which steps it holds, and nothing of processes; None if others do."""
    whole = isinstance(branch.test, ast.BoolOp) and isinstance(branch.test.op, ast.And)
    parts: list[ast.expr] = branch.test.values if whole else [branch.test]  # type: ignore[attr-defined]
    kept = tuple(part for part in parts if not is_of_processes(module, part))
    plain = not any(isinstance(inner, ast.Call | ast.NamedExpr | ast.BoolOp) for part in kept for inner in walk(part))
    rests = (inner for part in kept for inner in walk(part) if isinstance(inner, ast.BinOp))
    periodic = any(isinstance(rest.op, ast.Mod) for rest in rests)
    holds = plain and periodic and any(is_periodic(project, module, part, True) for part in kept)
    return kept if holds and all("\n" not in module.syntax.text(part) for part in kept) else None


def _computes(statement: ast.stmt) -> bool:
    """Return whether a statement sets variables, or entries of tables, by calls without effects."""
    match statement:
        case ast.For(iter=source, body=body, orelse=[]):
            return _is_pure(source) and all(map(_computes, body))
        case ast.Assign(targets=[ast.Name() | ast.Subscript(value=ast.Name())], value=value):
            return _is_pure(value)
    return False


def _is_pure(value: ast.expr) -> bool:
    return not any(
        isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)
        or (isinstance(part, ast.Call) and last_name(part.func) not in _CALLS)
        for part in walk(value)
    )


def _stored(statement: ast.stmt) -> set[str]:
    """The variables that a statement sets, or whose entries it sets."""
    names = {part.id for part in walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    entries = (part for part in walk(statement) if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store))
    return names | {part.value.id for part in entries if isinstance(part.value, ast.Name)}


def _names(tests: tuple[ast.expr, ...]) -> set[str]:
    return {part.id for test in tests for part in walk(test) if isinstance(part, ast.Name)}


def _needed_only(module: ModuleIndex, run: list[ast.stmt], branch: ast.If, statement: ast.stmt) -> list[ast.stmt]:
    """The statements of a run, around one, whose values nothing reads but they and a branch."""
    while run:
        inside = {part for one in (*run, branch) for part in walk(one)}
        out = next((one for one in run if _is_used_elsewhere(module, one, run, inside)), None)
        if out is None:
            return run
        at, where = run.index(statement), run.index(out)
        run = [] if where == at else run[where + 1 :] if where < at else run[:where]
    return []


def _is_used_elsewhere(module: ModuleIndex, statement: ast.stmt, run: list[ast.stmt], inside: set[ast.AST]) -> bool:
    """Return whether something else reads what a statement sets, or it changes a table that the run does not make."""
    within = {part for one in run for part in walk(one)}
    scope = module.scope(statement)
    for name in _stored(statement):
        bindings = scope.bindings.get(name, [])
        if not any(binding.node in within for binding in bindings):
            return True
        for node in module.uses.get(name, []):
            if node in inside or module.scope(node).lookup(name) is not bindings:
                continue
            if any(binding.node in within for binding in reaching(module, bindings, node)):
                return True
    return False
