"""The waits of one loop, judged together: one that stays in any case makes the others nearly free."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.impact import Cost
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.training.default_tests import runs_over_nothing
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_rules.data.read_uses import use_of_read
from gpulint_rules.data.shown_values import is_shown
from gpulint_rules.data.timed_barriers import takes_time
from gpulint_rules.data.value_checks import checks_values
from gpulint_rules.data.wait_counts import in_one_round, inner_loops, rounds, tells_rounds, usual_rounds, waits

NEEDED = 0.4
"""What a wait for a value that the step needs or shows costs beside one that can go (assumed: most authors keep it)."""
IN_BRANCH = 0.5
"""What a place under a condition counts, to tell which place of a loop waits most (assumed)."""
_ELEMENTS = 16
"""Elements of an evaluation batch, where the number is unknown (assumed)."""
_SYNC_POINT = regex.compile(r"\bsync(hroni[sz]ation)?[- ]?point\b", re.IGNORECASE)
_SCALER = regex.compile(r"(^|_)(grad|loss|amp)?_?scaler$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Group:
    """What the waits of one file add to each round of a loop."""

    amount: float
    """Waits for a full queue that can be saved, and a part of those that stay."""
    needed: float
    """Waits for values that the step needs."""
    reads: int
    """Places that wait."""
    inner: int
    """Places in inner loops."""
    times: int = 0
    """How often they wait in each round; 0 where the rounds of an inner loop are unknown."""
    staying: frozenset[ast.AST] = frozenset()
    """Places that wait for values that the step needs."""
    anyway: int = 0
    """Line that waits in each round whatever is done; 0 if none does."""


def group_of(project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]) -> Group:
    """Return what is known of the waits of one loop in a module."""
    loop = found[0][1].loop.node
    syncs = [sync for sync, _ in found]
    needed = [sync for sync, _ in found if _is_needed(module, sync)]
    shown = [
        sync for sync, context in found if sync not in needed and is_shown(project, module, _read_of(sync), context)
    ]
    others = [
        SyncPoint(call, SyncKind.BARRIER, None) for call in other_waits(project, module, _blocks(module, found, loop))
    ]
    own = [*needed, *shown]
    staying = [*own, *others]
    saved = waits(module, [*syncs, *others], loop) - waits(module, staying, loop)
    run = in_one_round(module, syncs, loop)
    times = [rounds(module, sync.node, loop) for sync in run]
    return Group(
        max(saved, 0.0) + NEEDED * waits(module, own, loop),
        waits(module, needed, loop),
        len(run),
        sum(bool(inner_loops(module, sync.node, loop)) for sync in run),
        sum(times) if all(tells_rounds(module, sync.node, loop) for sync in run) else 0,
        frozenset(sync.node for sync in needed),
        min((sync.node.lineno for sync in staying), default=0),
    )


def cost(project: Project, module: ModuleIndex, syncs: Sequence[SyncPoint], context: LoopContext, group: Group) -> Cost:
    """Return the cost of the waits of a statement, as some of those of its loop in the same file."""
    sync, loop = syncs[0], context.loop.node
    own: float = (
        0
        if runs_over_nothing(project, module, sync.node, loop)
        else sum(usual_rounds(module, one.node, loop) for one in syncs)
    )
    if project.fact(Guards).is_conditional(module, sync.node, loop):
        own *= IN_BRANCH
    if context.role is Role.EVAL:
        return Cost("host-wait", _ELEMENTS, per="evaluation", basis="once per element of the batch")
    if sync.node in group.staying:
        return Cost("needed-wait", max(group.needed, 1.0), basis=_needed_basis(group), own=own)
    return Cost("host-wait", group.amount, basis=_basis(sync, group), own=own)


def _needed_basis(group: Group) -> str:
    count = len(group.staying)
    if group.needed > count:
        return "the host needs the values in an inner loop"
    return f"the host needs {count} values" if count > 1 else "the host needs the value"


def _basis(sync: SyncPoint, group: Group) -> str:
    """Return in words what is known of the waits of a loop; empty if there is nothing to tell."""
    parts = [f"{group.reads} waits"] if group.reads > 1 else []
    if group.inner:
        which = f", {group.inner} of them" if group.inner < group.reads else ""
        parts = [f"{parts[0]}{which} in inner loops" if parts else "a wait in an inner loop"]
        if group.times:
            parts.append(f"{group.times} per step")
    elif group.reads == 1 and group.amount > 1:
        parts.append("a wait, work on the host and a copy back")
    if group.anyway and group.anyway != sync.node.lineno:
        parts.append(f"line {group.anyway} waits in any case")
    return ", ".join(parts)


def _is_needed(module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether the step cannot go on without the value: a branch, a size, samples of the next step; or its author
    says that it waits."""
    if sync.kind is SyncKind.TEST or _is_named(module, sync.node):
        return True
    return sync.kind is SyncKind.READ and use_of_read(module, sync.node) in ("decides", "sizes", "stored")


def _is_named(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a comment on the statement, or right above it, names the wait (``# Copy the stats from GPU to CPU
    (sync point).``)."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), node)
    span = module.syntax.span(statement) if isinstance(statement, ast.stmt | ast.expr) else None
    if span is None or span.cell is not None:
        return False
    above = module.syntax.source.line(span.line - 1).strip() if span.line > 1 else ""
    own = module.syntax.source.line(span.line).partition("#")[2]
    return any(_SYNC_POINT.search(text) for text in (above if above.startswith("#") else "", own))


def _read_of(sync: SyncPoint) -> ast.expr:
    """The tensor that is made text of, else what reads it."""
    return sync.value if sync.kind is SyncKind.FORMAT and sync.value is not None else sync.node


def _blocks(module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]], loop: ast.AST) -> list[ast.AST]:
    """The parts of a module that each round of a loop runs: its body, and the functions that the waits are in."""
    blocks: dict[ast.AST, None] = {}
    for sync, context in found:
        if context.loop.module is module:
            blocks[loop] = None
        if context.calls and (function := module.function(sync.node)) is not None:
            blocks[function] = None
    return [*blocks]


def other_waits(project: Project, module: ModuleIndex, blocks: Sequence[ast.AST]) -> Iterator[ast.Call]:
    """Yield calls that make each round wait, which no finding of the rule names: a scaler of gradients that decides
    whether to step, a clock, the return of all cached memory, a metric that looks at its values."""
    guards = project.fact(Guards)
    for block in blocks:
        for call in (part for part in walk(block) if isinstance(part, ast.Call)):
            if not _is_wait(project, module, call):
                continue
            if not guards.is_periodic(module, call) and not guards.is_off_by_default(module, call, block):
                yield call


@query
def _is_wait(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    name = last_name(call.func)
    match call.func:
        case ast.Attribute(value=owner) if name == "step" and _SCALER.search(last_name(owner)):
            return not _is_disabled(project, module, owner)
        case ast.Name() | ast.Attribute() if _SCALER.search(name) and len(call.args) + len(call.keywords) > 1:
            return not name[0].isupper() and not _is_disabled(project, module, call.func)
        case ast.Attribute() if name == "empty_cache":
            return True
        case ast.Attribute() if name == "synchronize":
            statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), call)
            return takes_time(module, statement)
    return checks_values(project, module, call)


def _is_disabled(project: Project, module: ModuleIndex, scaler: ast.expr) -> bool:
    """Return whether all that a scaler may be is made with ``enabled=False``."""
    made = [ref for ref in project.fact(Resolver).points_to(module, scaler) if isinstance(ref.node, ast.Call)]
    given = [
        project.fact(Constants).of(ref.module, keyword.value)
        for ref in made
        if isinstance(ref.node, ast.Call)
        for keyword in ref.node.keywords
        if keyword.arg == "enabled"
    ]
    return bool(given) and len(given) == len(made) and all(known.every(lambda value: not value) for known in given)
