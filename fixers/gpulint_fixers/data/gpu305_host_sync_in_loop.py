"""Read numbers from the GPU after the loop or every N steps instead of in every step."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait, check

from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer, Safety
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.query import query
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex, last_name
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.barriers import is_barrier, without_barriers
from gpulint_fixers.waits.called_waits import called_modules, sites_in
from gpulint_fixers.waits.copied_numbers import told_of_numbers
from gpulint_fixers.waits.default_branches import is_within_by_default
from gpulint_fixers.waits.device_values import logged
from gpulint_fixers.waits.fix_kinds import READ_ELSEWHERE, Removal, read_in_rounds
from gpulint_fixers.waits.guarded_loops import guarded_loop
from gpulint_fixers.waits.inner_loops.inner_sums import rounds_wait, stays_in_rounds, summed_inside
from gpulint_fixers.waits.inner_loops.list_indices import stays_as_index
from gpulint_fixers.waits.inner_loops.number_indices import with_numbers
from gpulint_fixers.waits.inner_loops.reads_together import read_together
from gpulint_fixers.waits.inner_loops.ready_values import are_ready, inner_round, is_changed, places_of
from gpulint_fixers.waits.joined_branches import joined_branches, unsafe_in_branches
from gpulint_fixers.waits.logs.logging_runs import log_run
from gpulint_fixers.waits.logs.thinned_logs import told_of_logs
from gpulint_fixers.waits.masked_sums import summed_by_mask
from gpulint_fixers.waits.partner_fixes import as_safe_as, with_partners
from gpulint_fixers.waits.parts_of_steps import gains_nothing_later
from gpulint_fixers.waits.remaining_reads import other_way, read_elsewhere, remaining_read, stays_in, waits_anyway
from gpulint_fixers.waits.repairs import repair
from gpulint_fixers.waits.single_flags import one_flag
from gpulint_fixers.waits.step_tests import (
    branches_around,
    chosen_branches,
    inner_loop,
    shown,
    shown_by_calls,
    trained_on,
)
from gpulint_fixers.waits.timed_steps import ends_at

_COPIES = frozenset({"cpu", "numpy", "tolist"})


def fix(finding: Finding, project: Project) -> Fix | Declined:
    made, found = _made(finding, project), finding.payload
    if isinstance(made, Fix) and isinstance(found, HostWait) and isinstance(found.context.loop.node, LOOPS):
        wait = found.context.calls[0].node if found.context.calls else found.syncs[0].node
        home, loop = found.context.loop.module, found.context.loop.node
        if isinstance(wait, ast.expr) and (time := ends_at(project, home, loop, wait)):
            return Declined(f"each step is timed up to this wait ({time}), and would be without the GPU's work")
    return made


def _made(finding: Finding, project: Project) -> Fix | Declined:
    """By what the statement does with the number; else one read for all rounds of an inner loop."""
    found = finding.payload
    if isinstance(found, HostWait) and project.fact(SyncPoints).is_of_jax(found.module, found.syncs[0]):
        return Declined("arrays of JAX are kept and read in ways that no fix knows")
    numbers = with_numbers(found) if isinstance(found, HostWait) else None
    made = numbers or _later(finding, project)
    if not isinstance(made, Declined) or not isinstance(found, HostWait):
        return made
    if (together := _together(finding, project, found)) is not None:
        return together
    if (once := one_flag(found) or guarded_loop(project, found)) is not None:
        return once
    if (masked := summed_by_mask(found)) is not None and not predates_device_argument(found.module):
        stays = None if inner_loop(found.module, found.statement) is not None else _stays(project, finding, found)
        return masked if stays is None else stays
    inner = inner_loop(found.module, found.statement) if found.context.calls else None
    if inner is not None:
        summed = repair(project, found)
        if not isinstance(summed, Fix) or other_way(project, found, summed) is not None:
            return read_in_rounds(found.module, inner) if made == READ_ELSEWHERE else made
        return _stays_after(finding, project, found, summed) or _in_rounds(project, found, summed, inner)
    once = summed_inside(project, found)
    if once is None or rounds_wait(project, found, _waits(project, found.module, found.context.loop.node)):
        return made
    return once


def _in_rounds(project: Project, found: HostWait, made: Fix, inner: ast.For) -> Fix | Declined:
    """The fix of a wait in each round of an inner loop, by what the other waits of the rounds leave of its gain."""
    others = _waits_of_rounds(project, found.module, inner)
    stays = stays_in_rounds(project, found, inner, others)
    return as_safe_as(found, made, others) if stays is None else stays


@query
def _waits_of_rounds(project: Project, module: ModuleIndex, inner: ast.For) -> list[tuple[Finding, Fix | Declined]]:
    """The waits inside of an inner loop, each with its fix."""
    return [
        (one, repair(project, one.payload))
        for one in _findings(project, module)
        if isinstance(one.payload, HostWait) and inner in module.syntax.ancestors(one.payload.statement)
    ]


def _together(finding: Finding, project: Project, found: HostWait) -> Fix | Declined | None:
    """One read for all rounds of an inner loop."""
    together = read_together(project, found)
    if together is None:
        return None
    stays = stays_as_index(project, found, together) or _stays_beside(project, found, together)
    stays = stays or _stays_after(finding, project, found, together)
    return together if stays is None else stays


def _stays_beside(project: Project, found: HostWait, made: Fix) -> Declined | None:
    """Return why one copy for all rounds gains little: the rounds of the same loop read others one by one, and no fix
    changes that. One wait instead of one per element is worth it beside waits of the step."""
    inner = inner_round(found)
    if not isinstance(inner, ast.For):
        return None
    others = [
        (one, fixed if isinstance(fixed, Fix) else read_together(project, one.payload) or fixed)  # type: ignore[arg-type]
        for one, fixed in _waits_of_rounds(project, found.module, inner)
        if not is_changed(made, one.payload)
    ]
    return stays_in_rounds(project, found, inner, others)


def _stays_after(finding: Finding, project: Project, found: HostWait, made: Fix) -> Declined | None:
    """Return why one copy of a handful of values that are ready gains little: the step waits for something else, and no
    fix changes that."""
    if not are_ready(found):
        return None
    loop = found.context.loop
    waits = [(one, fixed, here) for one, fixed, here in _waits(project, loop.module, loop.node) if one != finding]
    if found.context.calls:
        beside = _waits_beside(project, finding, found)
        staying = [] if beside is None else [beside]
    else:
        own = branches_around(found.module, found.statement, loop.node)
        staying = [one for one, fixed, here in waits if here <= own and not isinstance(fixed, Fix)]
    for other in staying:
        if not is_changed(made, other.payload) and not _is_halved(project, other):
            file = "" if other.path == found.module.path else f" of {other.path.name}"
            return stays_in("every step", f"{other.span.words}{file}", False)
    gone = (one.payload for one, fixed, _ in waits if isinstance(fixed, Fix) or is_changed(made, one.payload))
    return waits_anyway(project, found, places_of(found, *gone))


def _later(finding: Finding, project: Project) -> Fix | Declined:
    """Read after the loop or every N steps; nothing is gained while the same step waits elsewhere."""
    found = finding.payload
    made = repair(project, found)
    if not isinstance(made, Fix) or not isinstance(found, HostWait):
        return made
    if isinstance(made, Removal):
        return _read_again(project, finding, found) or _removed(project, finding, found, made)
    loop = found.context.loop
    if (vain := gains_nothing_later(project, found) or stays_as_index(project, found, made)) is not None:
        return vain
    if (stays := _stays(project, finding, found)) is not None or (
        stays := remaining_read(project, found, made)
    ) is not None:
        return stays
    if (stays := waits_anyway(project, found, _changed(project, found))) is not None:
        return stays
    if found.context.calls:
        made, inner = told_of_logs(found, made), inner_loop(found.module, found.statement)
        return made if inner is None else _in_rounds(project, found, made, inner)
    here = branches_around(found.module, found.statement, loop.node)
    others = [one for one in _waits(project, found.module, loop.node) if one[0] != finding]
    if not is_barrier(found):
        made = without_barriers(found.module, made, others, here)
    joined = unsafe_in_branches(project, found.module, loop.node, others, here, _changed(project, found))
    others = [one for one in others if one[2] <= here]
    if (text := _formatted(project, found, loop.node, here)) is not None and isinstance(loop.node, LOOPS):
        made = _with_text(project, found, made, text, loop.node)
    if isinstance(made, Declined):
        return made
    beside = [*((one, fixed) for one, fixed, _ in others), *joined]
    made = with_partners(found, as_safe_as(found, told_of_logs(found, made), beside), beside)
    return told_of_numbers(project, found, made, here)


def _changed(project: Project, found: HostWait) -> frozenset[ast.AST]:
    """The places of the loop that wait no more with their fixes."""
    loop = found.context.loop
    fixed = (one.payload for one, made, _ in _waits(project, loop.module, loop.node) if isinstance(made, Fix))
    return places_of(found, *fixed)


def _read_again(project: Project, finding: Finding, found: HostWait) -> Declined | None:
    """Return why the removal of a value that nothing reads gains nothing: each step reads the same tensor again."""
    loop = found.context.loop
    if found.context.calls or loop.module is not found.module:
        return None
    here = branches_around(found.module, found.statement, loop.node)
    read = {ast.unparse(sync.value) for sync in found.syncs if sync.value is not None}
    for other, fixed, around in _waits(project, found.module, loop.node):
        wait = other.payload
        if isinstance(fixed, Fix) or not isinstance(wait, HostWait) or wait.statement is found.statement:
            continue
        if around <= here and read & {ast.unparse(sync.value) for sync in wait.syncs if sync.value is not None}:
            return Declined(f"every step reads the same tensor in {other.span.words} as well, which no fix changes")
    return None


def _removed(project: Project, finding: Finding, found: HostWait, made: Fix) -> Fix | Declined:
    """The removal of what nothing reads, by its gain: a number beside which the same step waits for others costs
    nothing, but a batch that is copied does."""
    copies = any(isinstance(part, ast.Call) and last_name(part.func) in _COPIES for part in walk(found.statement))
    if copies and not isinstance(found.statement, ast.AugAssign):
        return made
    if (stays := _stays(project, finding, found)) is not None:
        return stays
    loop = found.context.loop
    if found.context.calls or not isinstance(loop.node, LOOPS):
        return made
    here = branches_around(found.module, found.statement, loop.node)
    waits = [(one, fixed) for one, fixed, around in _waits(project, found.module, loop.node) if around <= here]
    others = [(one, fixed) for one, fixed in waits if one != finding]
    later = next((one for one, fixed in others if isinstance(fixed, Fix) and not isinstance(fixed, Removal)), None)
    if later is not None and gains_nothing_later(project, found) is not None:
        return stays_in("every step", later.span.words, False)
    return as_safe_as(found, made, others)


def _stays(project: Project, finding: Finding, found: HostWait) -> Declined | None:
    """Return why nothing is gained: another wait of the same step stays, other than those for tables beside one."""
    loop = found.context.loop
    if found.context.calls:
        if (other := _waits_beside(project, finding, found)) is not None:
            return stays_in("every step", other.span.words, _is_halved(project, other))
        if (call := found.context.calls[0]).module is not loop.module:
            return None
        return read_elsewhere(project, found, branches_around(loop.module, call.node, loop.node))
    here = branches_around(found.module, found.statement, loop.node)
    others = [one for one in _waits(project, found.module, loop.node) if one[0] != finding]
    staying = {around: other for other, fixed, around in others if not isinstance(fixed, Fix)}
    changed = _changed(project, found)
    for around, other in joined_branches(project, found.module, loop.node, staying, changed):
        if is_within_by_default(project, found.module, around, here):
            step = "every step" if around <= here else "by default every step"
            file = "" if other.path == found.module.path else f" of {other.path.name}"
            return stays_in(step, f"{other.span.words}{file}", _is_halved(project, other))
    return read_elsewhere(project, found, here)


def _is_halved(project: Project, other: Finding) -> bool:
    """Return whether a wait for which :func:`repair` has nothing is one read in each step where another fix moves those
    of an inner loop."""
    found = other.payload
    if not isinstance(found, HostWait) or found.context.calls:
        return False
    moved = summed_inside(project, found) or read_together(project, found) or one_flag(found)
    return moved is not None or guarded_loop(project, found) is not None


def _waits_beside(project: Project, finding: Finding, found: HostWait) -> Finding | None:
    """A wait that stays in a function that the loop calls, or in the loop, whenever the function waits."""
    loop, call = found.context.loop, found.context.calls[0]
    if call.module is not loop.module or loop.node not in loop.module.syntax.ancestors(call.node):
        return None
    outside = branches_around(loop.module, call.node, loop.node)
    inside = branches_around(found.module, found.statement, found.module.function(found.statement))
    near = () if found.module in called_modules(project, loop.module, loop.node) else (found.module,)
    far = (one for where in near for one in _waits_in(project, where, loop.module, loop.node))
    for other, fixed, around in (*_waits(project, loop.module, loop.node), *far):
        wait = other.payload
        if isinstance(fixed, Fix) or other == finding or not isinstance(wait, HostWait) or not around <= outside:
            continue
        own = branches_around(wait.module, wait.statement, wait.module.function(wait.statement))
        if not wait.context.calls or own <= inside:
            return other
    return None


@query
def _waits(
    project: Project, module: ModuleIndex, loop: ast.AST
) -> tuple[tuple[Finding, Fix | Declined, frozenset[ast.AST]], ...]:
    """The waits of the loop's body and of loops in it, with their fixes and the conditions around them."""
    return tuple(
        one for where in called_modules(project, module, loop) for one in _waits_in(project, where, module, loop)
    )


@query
def _waits_in(
    project: Project, where: ModuleIndex, module: ModuleIndex, loop: ast.AST
) -> tuple[tuple[Finding, Fix | Declined, frozenset[ast.AST]], ...]:
    """Those of one module."""
    made = list[tuple[Finding, Fix | Declined, frozenset[ast.AST]]]()
    for finding in _findings(project, where):
        found = finding.payload
        if not isinstance(found, HostWait) or not (sites := sites_in(project, module, found, loop)):
            continue
        fixed = repair(project, found)
        chosen = chosen_branches(found.module, found.statement) if found.context.calls else frozenset[ast.AST]()
        made += ((finding, fixed, branches_around(module, site, loop) | chosen) for site in sites)
    return tuple(made)


@query
def _findings(project: Project, module: ModuleIndex) -> tuple[Finding, ...]:
    """All waits of a module."""
    document = project.document(module.path)
    return tuple(check(document, project)) if document is not None else ()


def _formatted(project: Project, found: HostWait, loop: ast.AST, here: frozenset[ast.AST]) -> ast.stmt | None:
    """The statement of a loop that makes a text of a tensor which the loop also reads (``bar.desc = f"{loss}"``)."""
    module = found.module
    return next((statement for statement, around in _texts(project, module, loop) if around <= here), None)


def _with_text(project: Project, found: HostWait, made: Fix, text: ast.stmt, loop: LoopNode) -> Fix | Declined:
    """The fix, and a text that reads the same tensors every N steps."""
    run = log_run(project, found.module, text)
    if run is None:
        return Declined(
            f"every step formats the same tensors in {found.module.syntax.span(text).words}, which reads them"
        )
    less = logged(project, found, run, loop)
    if isinstance(less, Declined):
        return less
    edits = tuple(dict.fromkeys([*made.edits, *less.edits]))
    return replace(made, safety=Safety.UNSAFE, description=f"{made.description}; {less.description}", edits=edits)


@query
def _texts(project: Project, module: ModuleIndex, loop: ast.AST) -> list[tuple[ast.stmt, frozenset[ast.AST]]]:
    """Statements of a loop that make texts of tensors which the loop also reads, with the conditions around them."""
    waits = [one.payload for one, _, _ in _waits(project, module, loop)]
    read = trained_on(loop) | {ast.unparse(sync.value) for one in waits for sync in one.syncs if sync.value is not None}  # type: ignore[attr-defined]
    known = {one.statement for one in waits}  # type: ignore[attr-defined]
    found = list[tuple[ast.stmt, frozenset[ast.AST]]]()
    for part in (*(one for one in walk(loop) if shown(one) & read), *shown_by_calls(project, module, loop, read)):
        statement = next((up for up in module.syntax.ancestors(part) if isinstance(up, ast.stmt)), None)
        if statement is None or statement in known or hasattr(statement, "body"):
            continue
        if not project.fact(Guards).is_periodic(module, statement):
            found.append((statement, branches_around(module, statement, loop)))
    return found


FIXER = Fixer("GPU305", fix)
