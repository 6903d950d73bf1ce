"""Values that each step looks at in the functions that its loop calls, in other files too: a matcher, a test of the
loss."""

from __future__ import annotations

import ast
import re
from collections import deque
from functools import partial

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.computed_values import ComputedValues
from gpulint.placement.environment_actions import feeds_rl_environment
from gpulint.placement.host_outputs import HostOutputs
from gpulint.placement.host_values import HostValues
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.placement.tensor_location import TensorLocations
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.path_conditions import conditions, is_ending
from gpulint.semantic.points_to import Resolver
from gpulint.training.cuda_tests import excludes_cuda
from gpulint.training.default_tests import is_by_choice
from gpulint.training.empty_tests import says_filled
from gpulint.training.guards import Guards, is_of_processes
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef, last_name
from gpulint_rules.data.handed_values import decided
from gpulint_rules.data.needed_waits import counted_masks, is_cast, is_needed, looked_at, timed_waits
from gpulint_rules.data.sample_loops import passes_samples
from gpulint_rules.data.short_texts import shortened
from gpulint_rules.data.tested_copies import tests_of_copied
from gpulint_rules.data.wait_counts import inner_loops

MAX_CALLS = 6
"""Most calls from the loop to the function that waits."""
MAX_FUNCTIONS = 80
"""Most functions that are looked into for one loop."""
SHOWN = 3
"""Reads of one function from which on they are a finding of medium impact (see ``host-wait`` of the constants)."""
_EXPLORES = regex.compile(r"rand|eps|explor|greedy|determin|sample", re.IGNORECASE)
"""Words of a condition on which an agent draws its action at random."""
_COMPOUND = (ast.If, *LOOPS, ast.With, ast.AsyncWith, ast.Try, ast.Match, *FUNCTIONS, ast.ClassDef)
"""Statements that hold others."""
_NOTHING: frozenset[tuple[int, bool]] = frozenset()


@dataclass(frozen=True, slots=True)
class _Block:
    """A loop, or a function that it calls; the conditions that hold there, and the calls that lead to it."""

    module: ModuleIndex
    node: ast.AST
    known: frozenset[tuple[int, bool]]
    calls: tuple[NodeRef, ...]
    samples: bool | None = None
    """Whether this is done for each sample of a batch; None where that does not matter."""


@query
def wait_for_samples(project: Project, module: ModuleIndex, loop: ast.AST, saved: frozenset[ast.AST]) -> NodeRef | None:
    """Return the first place that waits for a value of each sample of a batch, in a loop over them in the body of
    ``loop`` or in the functions that it calls; none of those that are ``saved``. That samples may be empty (``if
    len(boxes) > 0``) says nothing: not all are."""
    todo = deque([_Block(module, loop, _NOTHING, (), False)])
    seen: set[tuple[ast.AST, bool]] = {(loop, False)}
    while todo:
        current = todo.popleft()
        for node in _waits_in(project, current, False):
            if node not in saved and _is_of_sample(current, node):
                return NodeRef(current.module, node)
        for call, callee in _called_in(project, current) if len(current.calls) < MAX_CALLS else ():
            samples = _is_of_sample(current, call.node)
            if (callee.node, samples) not in seen and len(seen) < MAX_FUNCTIONS:
                seen.add((callee.node, samples))
                todo.append(_Block(callee.module, callee.node, _NOTHING, (*current.calls, call), samples))
    return None


def _is_of_sample(current: _Block, node: ast.AST) -> bool:
    """Return whether a place of a block runs once for each sample of a batch."""
    return bool(current.samples) or (
        current.samples is not None
        and any(map(partial(passes_samples, current.module), inner_loops(current.module, node, current.node)))
    )


@query
def called_wait(
    project: Project,
    module: ModuleIndex,
    loop: ast.AST,
    beside: ast.AST,
    saved: frozenset[ast.AST],
    masks: bool = False,
    outside: ModuleIndex | None = None,
) -> NodeRef | None:
    """Return the first place that waits for a value in each round of ``loop`` that gets to ``beside``, in its body or
    in the functions that it calls whatever the values are; none of those that are ``saved``. A scaler of gradients,
    which waits once the backward pass has run, counts only for the code around it; tests of ``masks``, of which the
    backward pass follows, for the function that calls what tests them. Reads of any value count ``outside`` of a
    module: those inside are in one finding with the others, if they can go."""
    known = frozenset((id(test), holds) for test, holds in conditions(module, beside, loop))
    todo = deque([_Block(module, loop, known, ())])
    seen: set[ast.AST] = {loop}
    while todo:
        current = todo.popleft()
        waits = _waits_in(project, current, masks)
        if not waits and outside not in (None, current.module):
            waits = _reads_in(project, current)
        if (found := next((node for node in waits if node not in saved), None)) is not None:
            return NodeRef(current.module, found)
        for call, callee in _called_in(project, current) if len(current.calls) < MAX_CALLS else ():
            if callee.node not in seen and len(seen) < MAX_FUNCTIONS:
                seen.add(callee.node)
                todo.append(_Block(callee.module, callee.node, _NOTHING, (*current.calls, call)))
    return None


@query
def _called_in(project: Project, current: _Block) -> tuple[tuple[NodeRef, NodeRef], ...]:
    """The calls that each run of a block makes, with the functions of the tree that they run; of several functions it
    is unknown which one runs."""
    found = list[tuple[NodeRef, NodeRef]]()
    for call in _calls_in(current.module, current.node):
        if _runs_always(project, current, _choice(current.module, call)):
            callees = project.fact(Resolver).callees(current.module, call)
            callees = [ref for ref in callees if isinstance(ref.node, FUNCTIONS)]
            found += [(NodeRef(current.module, call), callees[0])] if len(callees) == 1 else []
    return tuple(found)


def _choice(module: ModuleIndex, call: ast.Call) -> ast.AST:
    """Return the branch statement around a call if the same function is called however it goes (``if first: loss =
    criterion(x) else: loss = loss + criterion(x)``), else the call."""
    statement = next(up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt))
    branch = module.syntax.parents.get(statement)
    if not isinstance(branch, ast.If) or isinstance(statement, _COMPOUND):
        return call
    others = branch.orelse if statement in branch.body else branch.body
    called = ast.unparse(call.func)
    return (
        branch
        if any(
            isinstance(part, ast.Call) and ast.unparse(part.func) == called
            for other in others
            if not isinstance(other, _COMPOUND)
            for part in walk(other)
        )
        else call
    )


def _calls_in(module: ModuleIndex, block: ast.AST) -> list[ast.Call]:
    if isinstance(block, FUNCTIONS):
        return module.calls_of(block)
    return [call for call in module.calls_of(module.function(block)) if block in module.syntax.ancestors(call)]


@query
def _waits_in(project: Project, current: _Block, masks: bool) -> tuple[ast.expr, ...]:
    """The places of a block at which each of its runs waits for a value."""
    module, block = current.module, current.node
    function = block if isinstance(block, FUNCTIONS) else module.function(block)
    nodes = [*looked_at(project, module, block), *timed_waits(project, module, block)]
    nodes += counted_masks(project, module, block) if masks else ()
    nodes += tests_of_copied(project, module)
    actions = list[ast.expr]()
    syncs = [sync for sync in _by_function(project, module).get(function, ()) if not _is_on_host(project, module, sync)]
    if project.fact(GpuPrograms).runs_on_gpu(module):
        nodes += (sync.node for sync in syncs if sync.kind is SyncKind.SELECT or is_needed(project, module, sync))
        actions += [sync.node for sync in syncs if feeds_rl_environment(module, sync.node, current.calls)]
    return tuple(
        node
        for node in [*nodes, *actions]
        if module.function(node) is function
        and block in module.syntax.ancestors(node)
        and _runs_always(project, current, _part(node), explores=node in actions)
    )


@query
def _reads_in(project: Project, current: _Block) -> tuple[ast.expr, ...]:
    """The places of a block at which each of its runs reads a value that is seen to come from tensors, unless there are
    so many that a finding of their own is shown, which is one with that of the other module."""
    module, block = current.module, current.node
    function = block if isinstance(block, FUNCTIONS) else module.function(block)
    found = tuple(
        sync.node
        for sync in _by_function(project, module).get(function, ())
        if block in module.syntax.ancestors(sync.node)
        and _runs_always(project, current, sync.node)
        and _surely_waits(project, module, sync, current.calls)
    )
    return () if len(found) >= SHOWN and project.fact(GpuPrograms).runs_on_gpu(module) else found


def _surely_waits(project: Project, module: ModuleIndex, sync: SyncPoint, calls: tuple[NodeRef, ...]) -> bool:
    """Return whether a value is read that is seen to come from tensors."""
    return (
        sync.kind is SyncKind.READ
        and sync.value is not None
        and not is_cast(sync)
        and not _is_on_host(project, module, sync)
        and (project.fact(ComputedValues).holds(module, sync.value) or _is_of_buffer(module, sync.value))
        and not project.fact(TensorLocations).is_host(module, sync.value)
        and not project.fact(SyncPoints).gets_numbers(module, sync, calls)
    )


def _is_of_buffer(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value is computed of a buffer of its module: ``self.hits[i].mean()``."""
    parts = (part for part in walk(value) if isinstance(part, ast.Attribute))
    names = {part.attr for part in parts if isinstance(part.value, ast.Name) and part.value.id == "self"}
    return any(
        call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value in names
        for call in module.calls_by_name.get("register_buffer", ())
        if names and module.class_of(call) is module.class_of(value)
    )


def _part(test: ast.expr) -> ast.expr:
    """The part of a condition that waits: ``torch.isnan(x).any()`` of ``check and torch.isnan(x).any()``."""
    while isinstance(test, ast.BoolOp):
        test = test.values[-1 if isinstance(test.op, ast.And) else 0]
    return test


@query
def _by_function(project: Project, module: ModuleIndex) -> dict[ast.AST | None, list[SyncPoint]]:
    table: dict[ast.AST | None, list[SyncPoint]] = {}
    for sync in project.fact(SyncPoints).in_module(module):
        table.setdefault(module.function(sync.node), []).append(sync)
    return table


def _is_on_host(project: Project, module: ModuleIndex, sync: SyncPoint) -> bool:
    facts: tuple[HostOutputs | HostValues, ...] = (project.fact(HostOutputs), project.fact(HostValues))
    return sync.value is not None and any(fact.holds(module, sync.value) for fact in facts)


def _runs_always(project: Project, current: _Block, node: ast.AST, *, explores: bool = False) -> bool:
    """Return whether each run of a block gets to a place; with ``explores`` in nearly each run: an agent draws few of
    its actions at random."""
    guards, module = project.fact(Guards), current.module
    return not (
        any(
            (id(test), holds) not in current.known
            and _may_differ(module, test, holds)
            and decided(current.calls, module, test) is not holds
            and not (says_filled(module, test, holds) and _is_of_sample(current, node))
            and not (explores and _EXPLORES.search(ast.unparse(test)))
            for test, holds in conditions(module, node, current.node)
        )
        or guards.is_periodic(module, node)
        or guards.is_debugging(module, node)
        or guards.is_error_path(module, node)
        or guards.runs_once(module, node)
        or guards.is_before_loop_exit(module, node)
        or is_ending(module, node)
    )


def _may_differ(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether a condition may not hold in a step that goes well: not one on the processes, on a type, on what is
    there unless it is one of several choices, on whether there is a GPU, or that ends the program."""
    branch = module.syntax.parents.get(test)
    if not holds and isinstance(branch, ast.If) and isinstance(branch.body[-1], ast.Raise):
        return False
    match test:
        case ast.Call(func=func) if holds and last_name(func) in ("isinstance", "is_tensor"):
            return False
        case ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]) if holds:
            return is_by_choice(module, test)
    return not is_of_processes(module, test) and not excludes_cuda(module, test, not holds)


def place_of_wait(project: Project, module: ModuleIndex, ref: NodeRef | None) -> str:
    """``line 12`` of the same module, ``matcher.py:40`` of another; empty for none."""
    if ref is None or not isinstance(ref.node, ast.expr):
        return ""
    span = ref.module.syntax.span(ref.node)
    return span.words if ref.module is module else f"{project.place(ref.module.path)}:{span.mark}"


def what_waits(module: ModuleIndex, node: ast.expr) -> str:
    """Return what waits at a place, for who reads its line: a check, else the expression; empty for an operation on
    several values."""
    checks = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    if isinstance(checks, ast.Assert):
        return "an assertion on a tensor"
    text = shortened(node)
    return f"`{text}`" if text and "`" not in text else ""
