"""Values that all processes average in every step, for a log that is written every N steps:
``reduced = all_reduce_mean(value)`` and ``if (step + 1) % n == 0: writer.add_scalar("loss", reduced)``."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_fixers.waits.logs.log_intervals import EVERY, Interval
from gpulint_fixers.waits.logs.logging_runs import is_logging, names_stored
from gpulint_fixers.waits.logs.throttled_runs import throttled

_INTERVAL = regex.compile(r"log|print|freq|interval|every")
_MICRO_STEPS = regex.compile(r"accum")
_PURE = frozenset({"int", "len", "float", "round", "max", "min"})


@dataclass(frozen=True, slots=True)
class Reduced:
    """Assignments that average values over all processes, for the log that follows."""

    module: ModuleIndex
    run: list[ast.stmt]
    when: Interval
    """At which of the steps that are logged now they should run."""
    test: ast.expr
    """The log's own condition on the step."""

    def edits(self, project: Project) -> tuple[Edit, ...] | Declined:
        """The edits after which both run less often."""
        document = project.document(self.module.path)
        assert document is not None
        edits = throttled(document, self.module, self.run, self.when)
        if isinstance(edits, Declined) or self.module.syntax.text(self.test) == self.when.test:
            return edits
        return (*edits, Edit(self.module.path, self.module.syntax.span(self.test), self.when.test))


def reduced_values(module: ModuleIndex, statement: ast.stmt) -> Reduced | None:
    """The assignments around one that averages a value over all processes, where nothing but a log needs them."""
    place, parent = module.syntax.place(statement), module.syntax.parents.get(statement)
    if place is None or parent is None or not _averages(statement):
        return None
    block: list[ast.stmt] = getattr(parent, place[0])
    first = last = place[1]
    while first > 0 and _averages(block[first - 1]):
        first -= 1
    while last + 1 < len(block) and _averages(block[last + 1]):
        last += 1
    branch = block[last + 1] if last + 1 < len(block) else None
    if not isinstance(branch, ast.If) or (isinstance(branch.test, ast.BoolOp) and isinstance(branch.test.op, ast.Or)):
        return None
    less = _less_often(module, branch)
    run = block[first : last + 1]
    if less is None or branch.orelse or not all(map(_logs, branch.body)) or _is_used_elsewhere(module, [*run, branch]):
        return None
    return Reduced(module, run, *less)


def _averages(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Call(func=func, args=[_], keywords=[])):
            return "reduce" in last_name(func)
    return False


def _less_often(module: ModuleIndex, branch: ast.If) -> tuple[Interval, ast.expr] | None:
    """``(step + 1) % (50 * n) == n`` for a condition ``(step + 1) % n == 0``, and that condition.

    It first holds in the first update, so that epochs of fewer steps log as well.
    """
    for part in branch.test.values if isinstance(branch.test, ast.BoolOp) else [branch.test]:
        match part:
            case ast.Compare(
                left=ast.BinOp(left=counter, op=ast.Mod(), right=ast.Name() | ast.Attribute() as every),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            ):
                if _INTERVAL.search(last_name(every)):
                    return Interval(module.syntax.text(part), (), module.syntax.text(every)), part
                if not _MICRO_STEPS.search(last_name(every)):
                    return None
                steps = module.syntax.text(counter)
                steps = f"({steps})" if isinstance(counter, ast.BinOp) else steps
                count = f"{EVERY} * {module.syntax.text(every)}"
                rest = module.syntax.text(every) if isinstance(counter, ast.BinOp) else "0"
                return Interval(f"{steps} % ({count}) == {rest}", (), count), part
    return None


def _logs(statement: ast.stmt) -> bool:
    """Return whether a statement logs, sets a variable for that by arithmetic, or is a comment in quotes."""
    match statement:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="flush"))):
            return True
        case ast.Assign(value=value) if "" not in names_stored(statement):
            return all(last_name(part.func) in _PURE for part in walk(value) if isinstance(part, ast.Call))
        case ast.For(body=body, orelse=[]):
            return all(map(_logs, body))
    return is_logging(statement)


def _is_used_elsewhere(module: ModuleIndex, run: list[ast.stmt]) -> bool:
    """Return whether a use outside of the statements may see a value that they set."""
    inside = {part for one in run for part in walk(one)}
    stored = {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    for node in (node for name in stored for node in module.uses.get(name, [])):
        bindings = module.scope(node).lookup(node.id)
        if node not in inside and any(one.node in inside for one in reaching(module, bindings, node)):
            return True
    return False
