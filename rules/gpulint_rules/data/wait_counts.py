"""What the waits of one loop cost together: reads that follow each other wait once, for the queue is empty then."""

from __future__ import annotations

import ast
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.finding import Place
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import (
    COMPREHENSIONS,
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    ModuleIndex,
    last_name,
    source_text,
)
from gpulint_rules.data.exclusive_branches import exclude
from gpulint_rules.data.read_uses import use_of_read
from gpulint_rules.data.stated_rounds import length_of, stated

AGAIN = 0.75
"""What a read at another place costs before the GPU gets new work, in waits (assumed: the GPU stays idle until the host
has read, computed and formatted all of them; readers thanked for three such reads per step, and passed over fewer)."""
ROUND = 0.25
"""What each further round of a read in an inner loop costs, in waits (assumed: a small copy, and no lead is lost)."""
ITEMS = 16
"""Rounds of a loop inside the step over samples or tokens (assumed)."""
TABLE = 8
"""Rounds of a loop inside the step over a table of what it computed: losses, metrics (assumed)."""
_TABLE = frozenset({"items", "values"})
PARAMETERS = 64
"""Rounds of a loop inside the step over the parameters or layers of a model (assumed)."""
MOST_AGAIN = 8
"""Most waits that further rounds of such loops cost (assumed: all find the queue empty; of findings with one read and
one test for each parameter readers thanked for 5 of 11, and for none of 3 in long steps of a large model)."""
_WEIGHTS = regex.compile(r"(^|_)(params|param(eter)?s?_dict|parameters|grads|gradients|state_?dict)$", re.IGNORECASE)
"""Names of tables of what a model is made of."""
_PARAMETERS = frozenset({"parameters", "named_parameters", "modules", "named_modules"})
_EMBEDDING = regex.compile(r"(^|_|\b)(word_?)?emb(edding)?s?(_|\b)", re.IGNORECASE)
_STATE = regex.compile(r"(^|_)(hidden|lstm_states?|rnn_states?)$", re.IGNORECASE)
"""Names of the state of a recurrent layer: what it puts out, and its cell."""
TERMS = 4
"""Rounds of a loop over the terms of a loss (assumed)."""
MAX_DEPTH = 2
"""Most loops within each other of which the rounds count: the tokens of each sample."""
_RUNS = frozenset({"backward", "forward", "training_step", "train_step"})
"""Calls of which each keeps the GPU busy for a while."""
_COUNTS = frozenset({"range", "trange", "keys", "values", "items"})
_AROUND = frozenset({"enumerate", "list", "reversed", "sorted", "tqdm", "zip"})
_NO_MODEL = frozenset({"criterion", "module"})
Loops = frozenset[ast.AST]
NO_LOOPS: Loops = frozenset()
_COMPARED = 8
"""Other reads that one is compared with."""
_TERMS = regex.compile(
    r"loss|metric|criteri|aux_?(output|pred|head|out)|\b(stage|level|scale|head|task)s\b|(^|_|\b)(col|column|class|task|head)_names\b",
    re.IGNORECASE,
)
_MODEL = regex.compile(
    r"(^|_)(model|net|network|criterion|critic|discriminator|generator|encoder|decoder|module|u_?net|denoiser|transformer|backbone)$|^net[A-Z_]\w*$"
)


def waits(module: ModuleIndex, syncs: Sequence[SyncPoint], loop: ast.AST, single: Loops = NO_LOOPS) -> float:
    """Return what these reads of a module cost in each round of a loop, in waits for a full queue. Of two branches that
    exclude each other, the first counts; of methods that override each other, the one that costs most. Loops of a
    ``single`` round are none."""
    methods, alone = _versions(module, syncs)
    alternatives = (max(_in_turn(module, version, loop, single) for version in versions) for versions in methods)
    return sum(alternatives) + _in_turn(module, alone, loop, single)


def in_one_round(
    module: ModuleIndex, syncs: Sequence[SyncPoint], loop: ast.AST, single: Loops = NO_LOOPS
) -> list[SyncPoint]:
    """Return the reads of which :func:`waits` tells the cost: one round of a loop runs no others."""
    methods, alone = _versions(module, syncs)
    for versions in methods:
        most: list[SyncPoint] = max(versions, key=lambda version: _in_turn(module, version, loop, single))
        alone += most
    together = list[SyncPoint]()
    for sync in sorted(alone, key=lambda sync: (sync.node.lineno, sync.node.col_offset)):
        if not any(exclude(module, sync.node, other.node) for other in together[-_COMPARED:]):
            together.append(sync)
    return together


def _versions(module: ModuleIndex, syncs: Sequence[SyncPoint]) -> tuple[list[list[list[SyncPoint]]], list[SyncPoint]]:
    """Return the reads of methods that override each other, by method and class, and all others."""
    methods, alone = dict[str, dict[ast.AST | None, list[SyncPoint]]](), list[SyncPoint]()
    for sync in syncs:
        function, owner = module.function(sync.node), module.class_of(sync.node)
        if function is None or owner is None:
            alone.append(sync)
        else:
            methods.setdefault(function.name, {}).setdefault(owner, []).append(sync)
    several = [[*versions.values()] for versions in methods.values() if len(versions) > 1]
    alone += (
        sync for versions in methods.values() if len(versions) == 1 for version in versions.values() for sync in version
    )
    return several, alone


def _in_turn(module: ModuleIndex, syncs: Sequence[SyncPoint], loop: ast.AST, single: Loops) -> float:
    """Return what reads cost that one round may run one after the other."""
    total, again_there, counted = 0.0, 0.0, list[SyncPoint]()
    for sync in sorted(syncs, key=lambda sync: (sync.node.lineno, sync.node.col_offset)):
        if any(exclude(module, sync.node, other.node) for other in counted[-_COMPARED:]):
            continue
        last = counted[-1] if counted else None
        again = last is not None and follows(module, last.node, sync.node)
        total += AGAIN if again else 1
        further = ROUND * (rounds(module, sync.node, loop, single) - 1)
        over = any(map(is_over_parameters, inner_loops(module, sync.node, loop, single)))
        total, again_there = (total, again_there + further) if over else (total + further, again_there)
        if sync.kind is SyncKind.READ and not again and use_of_read(module, sync.node) == "computes":
            total += 1  # the GPU waits until the host has computed and copied back
        counted.append(sync)
    return total + min(again_there, MOST_AGAIN)


def copies(module: ModuleIndex, nodes: Sequence[ast.expr], loop: ast.AST) -> float:
    """Return what making these small tensors on the host costs in each round of a loop, in waits for a full queue."""
    return 1 + AGAIN * (len(nodes) - 1) + ROUND * sum(rounds(module, node, loop) - 1 for node in nodes)


def rounds(module: ModuleIndex, node: ast.AST, loop: ast.AST, single: Loops = NO_LOOPS) -> int:
    """Return how often each round of ``loop`` runs a place in loops of its own function, assumed where they do not
    say it. One that runs the model once for a part of the batch counts as one: a wait in it is one beside that work."""
    inner = inner_loops(module, node, loop, single)
    return _product(module, [one for one in inner if not (_runs_model(module, one) or _picks_one(module, node, one))])


def _picks_one(module: ModuleIndex, node: ast.AST, loop: ast.AST) -> bool:
    """Return whether a place in a loop over the parameters of a model is for the embedding alone, of which a model has
    one or two: ``if emb_name in name``."""
    return is_over_parameters(loop) and any(
        holds
        and isinstance(part, ast.Compare)
        and isinstance(part.ops[0], ast.In)
        and isinstance(part.comparators[0], ast.Name)
        and _EMBEDDING.search(source_text(module, part.left)) is not None
        for test, holds in conditions(module, node, loop)
        for part in walk(test)
    )


def all_rounds(module: ModuleIndex, node: ast.AST, loop: ast.AST) -> int:
    """Return the same, whatever the loops run: how often a place runs beside others of its step."""
    return _product(module, inner_loops(module, node, loop))


def _product(module: ModuleIndex, inner: list[ast.AST]) -> int:
    counts = [_count(module, one) for one in inner]
    unknown = min(counts.count(None), MAX_DEPTH)
    return math.prod(count or 1 for count in counts) * int(ITEMS**unknown)


@query
def _runs_model(module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop counts its rounds, or goes through a table or a list of batches, and each runs a model or a
    backward pass (not one for each sample of a batch)."""
    source = table_of(loop)
    counts = isinstance(loop, ast.While) or (isinstance(source, ast.Call) and last_name(source.func) in _COUNTS)
    if not counts and not (isinstance(source, ast.Name) and _holds_batches(module, source.id)):
        return False
    return calls_model(loop)


def calls_model(loop: ast.AST) -> bool:
    """Return whether the body of a loop runs a model or a backward pass."""
    parts = (part for statement in getattr(loop, "body", ()) for part in walk(statement) if isinstance(part, ast.Call))
    names = (last_name(part.func) for part in parts)
    return any(name in _RUNS or (_MODEL.search(name) is not None and name not in _NO_MODEL) for name in names)


def _holds_batches(module: ModuleIndex, name: str) -> bool:
    """Return whether a list gets batches one by one: ``batches.append(next(batch_iterator))``."""
    for call in module.calls_by_name.get("append", ()):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner)), args=[given]) if owner == name:
                bound = module.scope(given).lookup(given.id) if isinstance(given, ast.Name) else ()
                made = [given, *(one.value for one in bound)]
                if any(isinstance(one, ast.Call) and last_name(one.func) == "next" for one in made):
                    return True
    return False


def table_of(loop: ast.AST) -> ast.expr | None:
    """Return what a loop goes through, without ``enumerate`` and the like; None for a ``while``."""
    source: ast.expr | None = getattr(loop, "iter", None)
    while isinstance(source, ast.Call) and last_name(source.func) in _AROUND and source.args:
        source = source.args[0]
    return source


def _count(module: ModuleIndex, loop: ast.AST) -> int | None:
    """The rounds of a loop, as stated or as usual for what it goes through; None if nothing tells."""
    terms = _TERMS.search(source_text(module, _source(loop))) is not None
    return stated(module, loop) or _usual(loop) or (TERMS if terms else None)


def _usual(loop: ast.AST) -> int | None:
    """The usual rounds of a loop over what an optimizer or a model is made of; None for another one."""
    source = table_of(loop)
    match source:
        case ast.Call(func=ast.Attribute(attr=name)) if name in _PARAMETERS:
            return PARAMETERS
        case ast.Call(func=ast.Attribute(attr=name, value=inner), args=[]) if name in _TABLE:
            named = inner.func if isinstance(inner, ast.Call) else inner
            return PARAMETERS if _WEIGHTS.search(last_name(named)) else TABLE
        case ast.Subscript(slice=ast.Constant(value="params")):
            return PARAMETERS
        case ast.Name() | ast.Attribute() if last_name(source) == "param_groups":
            return 1
        case ast.Name(id=name) if _STATE.search(name):
            return 2
    return None


def is_over_parameters(loop: ast.AST) -> bool:
    """Return whether a loop goes through the parameters or layers of a model."""
    return _usual(loop) == PARAMETERS


def _source(loop: ast.AST) -> ast.expr:
    """Return what a loop runs over or tests."""
    match loop:
        case ast.While(test=source) | ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.comprehension(iter=source):
            return source
    return ast.Constant(value=None)


def tells_rounds(module: ModuleIndex, node: ast.AST, loop: ast.AST, single: Loops = NO_LOOPS) -> bool:
    """Return whether each loop of its own function that a place is in says how many rounds it has, and all get to the
    place."""
    return not any(True for _ in conditions(module, node, loop)) and all(
        stated(module, inner) is not None and not any(isinstance(part, ast.Break) for part in walk(inner))
        for inner in inner_loops(module, node, loop, single)
    )


def runs_few(module: ModuleIndex, node: ast.AST, loop: ast.AST) -> bool:
    """Return whether the loops of its own function that a place is in, inside of ``loop``, have a handful of rounds:
    over literals, the losses of a step, what a table holds."""
    return all(has_few_rounds(module, inner) for inner in inner_loops(module, node, loop))


def is_beside_one(module: ModuleIndex, waits: Sequence[ast.expr], node: ast.expr) -> bool:
    """Return whether one of these waits is right before or behind a place, in its function: the GPU gets no work
    between the two. A scaler of gradients waits before it steps, which is work."""
    work = _work(module)
    return any(
        module.function(one) is module.function(node)
        and bisect_left(work, one.lineno, key=_line) == bisect_left(work, node.lineno, key=_line)
        for one in waits
    )


def has_few_rounds(module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop goes through a handful of values."""
    if isinstance(loop, ast.While) or _runs_model(module, loop):
        return False
    known = _count(module, loop)
    return known is not None and known <= TABLE


def is_few(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value is known to be a handful of values: a short literal, losses."""
    known = length_of(module, value)
    return known <= TABLE if known is not None else _TERMS.search(source_text(module, value)) is not None


def outermost_loop(context: LoopContext) -> Place | None:
    """The outermost loop of the training in its function: its waits are repaired together."""
    module, node = context.loop.module, context.loop.node
    for up in module.syntax.ancestors(node):
        if isinstance(up, FUNCTIONS):
            break
        if isinstance(up, LOOPS):
            node = up
    return Place(module.path, module.syntax.span(node)) if isinstance(node, ast.stmt | ast.expr) else None


def follows(module: ModuleIndex, before: ast.expr, after: ast.expr) -> bool:
    """Return whether the GPU gets no work worth mentioning between two reads of one function."""
    if module.function(before) is not module.function(after):
        return False
    work, end = _work(module), before.end_lineno or before.lineno
    between = work[bisect_right(work, end, key=_line) : bisect_left(work, after.lineno, key=_line)]
    return all(exclude(module, before, call) for call in between)


def is_at_end(module: ModuleIndex, syncs: Sequence[SyncPoint], loop: ast.AST) -> bool:
    """Return whether no read is followed by work for the GPU in its round of a loop."""
    first = min(sync.node.lineno for sync in syncs)
    return not any(call.lineno > first and loop in module.syntax.ancestors(call) for call in _work(module))


def _line(call: ast.Call) -> int:
    return call.lineno


@query
def _work(module: ModuleIndex) -> list[ast.Call]:
    """Calls by line that give the GPU work: the model, a layer, the backward pass, a step of an optimizer."""
    functions: Iterator[FunctionNode] = module.syntax.of(*FUNCTIONS)
    own = {function.name for function in functions}
    return sorted((call for call in module.calls if _is_work(call, own)), key=_line)


def _is_work(call: ast.Call, own: set[str]) -> bool:
    name = last_name(call.func)
    if name in ("backward", "forward", "training_step", "train_step") or _MODEL.search(name):
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = call.func.value
    if name == "step":
        return "sched" not in last_name(owner).lower()
    return isinstance(owner, ast.Name) and owner.id == "self" and name not in own and not name.startswith("log")


def inner_loops(module: ModuleIndex, node: ast.AST, loop: ast.AST, single: Loops = NO_LOOPS) -> list[ast.AST]:
    """Return the loops, and the first parts of comprehensions, around a place that each round of ``loop`` runs, in its
    own function, without those of a ``single`` round."""
    found, inner = list[ast.AST](), node
    sources = set[ast.AST]()
    for up in module.syntax.ancestors(node):
        if up is loop or isinstance(up, FUNCTIONS):
            break
        if isinstance(up, ast.For | ast.AsyncFor | ast.comprehension) and inner is up.iter:
            sources.add(up)
        # What a loop goes through is computed once.
        source = up.generators[0] if isinstance(up, COMPREHENSIONS) else up
        if isinstance(up, (*LOOPS, *COMPREHENSIONS)) and source not in sources and source not in single:
            found.append(source)
        inner = up
    return found
