"""The waits of one loop, judged together: one that stays in any case makes the others nearly free."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise

from gpulint.impact import Cost
from gpulint.impact_causes import ON_GPU
from gpulint.placement.computed_values import ComputedValues
from gpulint.placement.sync_points import SyncKind, SyncPoint, is_index_read
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.training.default_tests import runs_over_nothing
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.loop_roles import Role
from gpulint.training.unknown_settings import is_by_unknown_setting
from gpulint.workspace.module_index import LOOPS, ModuleIndex, NodeRef
from gpulint_rules.data.adjacent_waits import are_beside, waits_in_rounds
from gpulint_rules.data.branch_chances import is_late, is_seldom, uncertain
from gpulint_rules.data.called_waits import place_of_wait, what_waits
from gpulint_rules.data.exclusive_branches import is_of_some, surely_reached, unconditional
from gpulint_rules.data.handed_values import runs_few_handed
from gpulint_rules.data.lightning_logs import is_read_anyway
from gpulint_rules.data.needed_waits import decides_by_sum, is_cast, is_needed, other_waits, tests_itself
from gpulint_rules.data.repeated_waits import is_repeated, times_called, times_reached, writes_of
from gpulint_rules.data.round_copies import copies_beside
from gpulint_rules.data.round_waits import wait_in_rounds, waits_for_samples
from gpulint_rules.data.sample_loops import single_rounds
from gpulint_rules.data.sample_waits import wait_in_samples
from gpulint_rules.data.shown_values import is_shown, is_shown_itself, same_values
from gpulint_rules.data.small_reads import is_of_number
from gpulint_rules.data.timed_barriers import takes_time_beside
from gpulint_rules.data.unseen_calls import may_wait_elsewhere
from gpulint_rules.data.wait_bases import basis_of, needed_basis
from gpulint_rules.data.wait_chains import read_in_calls, wait_in_calls
from gpulint_rules.data.wait_counts import (
    follows,
    in_one_round,
    inner_loops,
    is_beside_one,
    rounds,
    tells_rounds,
    waits,
)
from gpulint_rules.data.worker_batches import comes_from_workers

NEEDED = 0.4
"""What a wait for a value that the step needs or shows costs beside one that can go (assumed: most authors keep it)."""
BESIDE = 0.2
"""What waits that can go cost, in waits, where each step waits for something else that it needs, and none is in an
inner loop but one of few rounds right after it (assumed: the queue is empty then; readers passed over 10 of 12 such
findings, 4 of 4 with such a loop, 6 of 7 where the other wait is in a function that the loop calls, and 6 of 6 where
the step is timed by barriers, wherever the reads are)."""
FROM_WORKERS = 0.3
"""What reads of single numbers cost, in such reads, where workers make the batches (assumed: the host has only launches
to catch up with; of the findings of plain reads in sets 39 to 43 whose reasons speak of workers readers thanked for
none, and for 5 of those with loading in the training process; benchmarks/verdicts/usefulness)."""
IN_BRANCH = 0.5
"""What a place under a condition counts, to tell which place of a loop waits most (assumed)."""
_Found = Sequence[tuple[SyncPoint, LoopContext]]
"""Reads, each with the loop that it is for."""
_ELEMENTS = 16
"""Elements of an evaluation batch, where the number is unknown (assumed)."""


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
    times: float = 0
    """How often they wait in each round; 0 where the rounds of an inner loop are unknown."""
    staying: frozenset[ast.AST] = frozenset()
    """Places that wait for values that the step needs."""
    anyway: str = ""
    """What waits in each round whatever is done, ``line 12`` or ``matcher.py:40``; empty if nothing does."""
    what: str = ""
    """The expression there."""
    as_well: bool = False
    """Whether that is a read of another module, which may go as well as these."""
    first: ast.AST | None = None
    """The place in the same module."""
    needs_rounds: bool = False
    """Whether the step needs values in an inner loop."""
    following: int = 0
    """Numbers that are read right after another wait, when the GPU has nothing left to do."""
    uncertain: bool = False
    """A round may pass by some of the places."""
    replaced: frozenset[ast.AST] = frozenset()
    """Those of them in inner loops in whose stead the other branch waits as often."""
    partial: bool = False
    """What a round calls may wait at more places."""
    passed: frozenset[ast.AST] = frozenset()
    """Places that rounds may pass by, also where they wait in another branch then."""


def group_of(project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]) -> Group:
    """Return what is known of the waits of one loop in a module. Those that stand in for what is empty count only if
    there are no others, and those that a round may pass by count half beside others."""
    usual = [(sync, context) for sync, context in found if not is_seldom(module, sync.node, context)] or found
    unsure = uncertain(module, [(sync.node, context) for sync, context in usual])
    sure = [(sync, context) for sync, context in usual if sync.node not in unsure]
    passed = frozenset(sync.node for sync, context in found if _may_be_passed(module, sync, context))
    replaced = frozenset(
        sync.node
        for sync, context in usual
        if not (sync.node in unsure or is_late(module, sync.node, context))
        and inner_loops(module, sync.node, context.loop.node)
    )
    whole = dataclasses.replace(_group_of(project, module, usual, unsure), passed=passed, replaced=replaced)
    if len(sure) == len(usual):
        return whole
    amount = _group_of(project, module, sure).amount if sure else whole.amount
    return dataclasses.replace(whole, amount=(whole.amount + amount) / 2, uncertain=True)


def _may_be_passed(module: ModuleIndex, sync: SyncPoint, context: LoopContext) -> bool:
    """Return whether rounds may pass by a place, even if they wait in another branch then."""
    place = sync.node, context
    return is_seldom(module, *place) or is_late(module, *place) or bool(uncertain(module, [place]))


def _group_of(project: Project, module: ModuleIndex, found: _Found, unsure: frozenset[ast.AST] = frozenset()) -> Group:
    """Return the same of waits that all count. Those under conditions that may never hold count only if there are no
    others; ``unsure`` ones say nothing of what each round waits for."""
    loop = found[0][1].loop.node
    found = [(sync, context) for sync, context in found if _is_of_tensor(project, module, sync, context)] or found
    at_needed = frozenset(deciding := _deciding(project, module, found))
    found = [one for one in found if not is_by_unknown_setting(project, module, one[0].node, one[1:])] or found
    syncs, needed = [sync for sync, _ in found], [sync for sync, _ in found if sync.node in at_needed]
    shown, others = _shown(project, module, found, needed), _others(project, module, found)
    single = single_rounds(project, module, found)
    staying = [*(own := [*needed, *shown]), *others]
    anyway = [*staying, *_logged(project, module, syncs, own)]
    saved = waits(module, [*syncs, *others], loop, single) - waits(module, anyway, loop, single)
    run = in_one_round(module, syncs, loop, single)
    deep = [sync for sync in run if inner_loops(module, sync.node, loop, single)]
    firm, either = surely_reached(project, module, [*needed, *others], deciding, loop)
    near = waits_in_rounds(project, module, [*needed, *others], deep, loop)
    always_deep = [sync for sync in deep if sync.node not in unsure]
    beside = are_beside(module, always_deep, [*firm, *near], unconditional(project, module, shown, loop), found)
    beside = beside or takes_time_beside(module, [sync.node for sync in others], *found[0])
    shallow = all(runs_few_handed(project, module, sync.node, loop, single) for sync in deep)
    looks = saved > 0 and shallow and not firm
    called, read = _in_calls(project, module, found, at_needed) if looks else (None, None)
    if called is None and (called := wait_in_rounds(project, module, deep, found, at_needed)) is not None:
        saved = min(saved, len(run))  # further rounds cost no more
    called = called or (wait_in_samples(project, found) if looks else None)
    numbers = shallow and _reads_numbers(module, found, run)
    fed = FROM_WORKERS if numbers and comes_from_workers(project, module, found) else 1
    first = near[0] if near else _first(project, module, staying, either, loop)
    if waits_for_samples(module, first, deep, loop):
        saved, beside = min(saved, len(run)), True
    kept = BESIDE if beside and unconditional(project, module, others, loop) else None
    return Group(
        max(saved, 0.0) * (BESIDE if called or beside else fed)
        + NEEDED * (kept or fed) * waits(module, own, loop, single),
        waits(module, needed, loop, single),
        len(run),
        len(deep),
        _times(project, module, run, dict(found), single),
        at_needed,
        *_anyway(project, module, called, first),
        read is not None,
        None if called else first,
        any(inner_loops(module, sync.node, loop, single) for sync in needed),
        following=_brief(module, run),
        partial=len(run) > 1 and may_wait_elsewhere(project, found),
    )


def _reads_numbers(
    module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]], run: Sequence[SyncPoint]
) -> bool:
    """Return whether one round of a loop reads nothing but single numbers, each once."""
    return all(times_called(context) <= 1 for _, context in found) and all(is_of_number(module, one) for one in run)


def _brief(module: ModuleIndex, run: Sequence[SyncPoint]) -> int:
    """Return how many numbers are read right after another wait."""
    return sum(follows(module, a.node, b.node) and is_of_number(module, b) for a, b in pairwise(run))


def _in_calls(
    project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]], needed: frozenset[ast.AST]
) -> tuple[NodeRef | None, NodeRef | None]:
    """Return what else waits in what the loop calls, and the same again if it is only a read."""
    if (called := wait_in_calls(project, module, found, needed)) is not None:
        return called, None
    read = read_in_calls(project, module, found, needed)
    return read, read


def _anyway(project: Project, module: ModuleIndex, called: NodeRef | None, first: ast.expr | None) -> tuple[str, str]:
    """Return the place that waits in each round whatever is done, and the expression there."""
    if called is not None and isinstance(called.node, ast.expr):
        return place_of_wait(project, module, called), what_waits(called.module, called.node)
    return (module.syntax.span(first).words, what_waits(module, first)) if first is not None else ("", "")


def _times(
    project: Project,
    module: ModuleIndex,
    run: Sequence[SyncPoint],
    contexts: Mapping[SyncPoint, LoopContext],
    single: frozenset[ast.AST],
) -> float:
    """Return how often the waits come in each round; 0 where the rounds of an inner loop are unknown."""
    times, written = 0, set[ast.AST]()
    for sync in run:
        loop = contexts[sync].loop.node
        own = times_reached(project, module, sync, contexts[sync]) * rounds(module, sync.node, loop, single)
        if not own or not tells_rounds(module, sync.node, loop, single):
            return 0
        write = writes_of(module, sync)
        times += own * (1 if write is None or write in written else 2)
        written |= {write} if write is not None else set()
    return times


def _first(
    project: Project, module: ModuleIndex, staying: Sequence[SyncPoint], either: Sequence[ast.expr], loop: ast.AST
) -> ast.expr | None:
    """Return the first place at which all processes wait in each round, whatever is done."""
    always = [one for one in unconditional(project, module, staying, loop) if not is_of_some(module, one, loop)]
    return min(always or either, key=lambda node: node.lineno, default=None)


def _deciding(project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]) -> list[ast.expr]:
    """Return the places that wait for values that the step needs."""
    return [
        sync.node
        for sync, context in found
        if is_needed(project, module, sync) and not is_repeated(project, module, sync, context)
    ]


def _others(project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]) -> list[SyncPoint]:
    """Return what else makes each round wait, in the loop and in the functions that the waits are in."""
    loop, syncs = found[0][1].loop.node, [sync for sync, _ in found]
    calls = (
        *other_waits(project, module, _blocks(module, found, loop)),
        *copies_beside(project, module, found),
        *({*tests_itself(project, module, syncs, loop)} - {sync.node for sync in syncs}),
    )
    return [SyncPoint(call, SyncKind.BARRIER, None) for call in calls]


def _shown(
    project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]], needed: Sequence[SyncPoint]
) -> list[SyncPoint]:
    """Return the reads of values that each step shows, or by which it decides under another name."""
    loop = found[0][1].loop.node
    kept = {sync.value for sync in needed if sync.kind is SyncKind.READ}
    kept |= {sync.value for sync, _ in found if decides_by_sum(project, module, sync.node, loop)}
    return [
        sync
        for sync, context in found
        if not (sync in needed or is_cast(sync) or _goes_into_tensor(project, module, sync.node))
        and (
            is_shown(project, module, _read_of(sync), context)
            or is_shown_itself(project, module, sync.value, loop)
            or sync.value in kept
            or any(use in kept for use in same_values(module, sync.value))
        )
    ]


def _logged(
    project: Project, module: ModuleIndex, syncs: Sequence[SyncPoint], own: Sequence[SyncPoint]
) -> list[SyncPoint]:
    """Return the reads of values that Lightning reads in each step anyway, without those that stay."""
    return [sync for sync in syncs if sync not in own and is_read_anyway(project, module, sync.node)]


def _goes_into_tensor(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is computed with a tensor, which needs no read: ``loss.sum() / mask.sum().item()``."""
    whole = module.syntax.parents.get(node)
    if not isinstance(whole, ast.BinOp):
        return False
    return project.fact(ComputedValues).holds(module, whole.right if node is whole.left else whole.left)


def cost(project: Project, module: ModuleIndex, syncs: Sequence[SyncPoint], context: LoopContext, group: Group) -> Cost:
    """Return the cost of the waits of a statement, as some of those of its loop in the same file."""
    sync, loop = syncs[0], context.loop.node
    own: float = (
        0
        if runs_over_nothing(project, module, sync.node, loop)
        else sum(rounds(module, one.node, loop) for one in syncs) * times_called(context)
    )
    if sync.node in group.passed - group.replaced:
        own = own / (1 + own) * BESIDE / 2  # less than any place that each round gets to
    elif project.fact(Guards).is_conditional(module, sync.node, loop):
        own *= IN_BRANCH
    first = group.first if group.first in group.staying else None
    if isinstance(first, ast.expr) and all(is_beside_one(module, [first], one.node) for one in syncs):
        own *= BESIDE  # the queue is empty already
    if context.role is Role.EVAL:
        elements = project.fact(SyncPoints).read_one_by_one(module, sync)
        basis = "once per element of the batch" if elements else "once per class"
        return Cost("host-wait", _ELEMENTS, per="evaluation", basis=basis)
    if sync.node in group.staying:
        return Cost("needed-wait", max(group.needed, 1.0), basis=needed_basis(group), own=own)
    assumed = "" if any(_is_of_tensor(project, module, one, context) for one in syncs) else ON_GPU
    return Cost("host-wait", group.amount, basis=basis_of(module, sync, group), own=own, assumed=assumed)


def _is_of_tensor(project: Project, module: ModuleIndex, sync: SyncPoint, context: LoopContext) -> bool:
    """Return whether a read is in the loop itself, or of a value that is seen to come from tensors."""
    if sync.kind is not SyncKind.READ or sync.value is None or is_index_read(sync):
        return True
    if not context.calls and isinstance(context.loop.node, LOOPS):
        return True
    return project.fact(ComputedValues).holds(module, sync.value) or project.fact(SyncPoints).is_of_jax(module, sync)


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
