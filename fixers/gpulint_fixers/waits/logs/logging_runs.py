"""Statements of a loop that only log: single ones, functions of the tree that do nothing else, and runs of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import has_operator, walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.collectives import Collectives, collective
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, LoopNode, ModuleIndex, last_name
from gpulint_fixers.waits.logs.blocks import block_around
from gpulint_fixers.waits.logs.lasting_states import counts_on_calls, goes_on
from gpulint_fixers.waits.logs.records import keeps_rows

_LOGS = frozenset(
    "print pprint info debug log add_scalar add_scalars add_histogram add_image add_images set_postfix "
    "set_postfix_str set_description set_description_str log_metric log_metrics log_value log_scalar linePlot scalar "
    "progress_bar print_rank_0 print_rank0 rank_zero_info rank0_print line".split()
)
_WRITERS = regex.compile(r"(^|[._])(tqdm|pbar|bar|stdout|stderr|f|log_?file|(\w+_)?log(ger)?|t|progress)$")
"""Receivers on which ``write`` only logs."""
_NOT_A_LOGGER = regex.compile(r"torch|math|np|numpy|jnp|F\b")
_PURE = frozenset(
    "item float int bool str len round cpu detach numpy mean sum clone tolist sqrt exp sub add mul div min max abs "
    "time data format get_lr get_last_lr size get_world_size get_rank items keys values get dict isinstance hasattr "
    "norm perf_counter memory_allocated max_memory_allocated".split()
)
"""Calls without effects, such as a value needs that is only logged."""
_TEXTS = frozenset("split splitext replace strip lstrip rstrip join lower upper basename".split())
"""Calls that make names of curves."""
_MOST_IN_HELPER = 12
"""Statements of a function that only logs."""


def is_logging(statement: ast.AST) -> bool:
    """Return whether a statement does nothing but write to a log, a progress bar or the terminal."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr="desc" | "comment")]):  # of a bar
            return not any(isinstance(part, ast.NamedExpr | ast.Await | ast.Yield) for part in walk(statement))
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    func = statement.value.func
    if any(isinstance(part, ast.NamedExpr | ast.Await | ast.Yield) for part in walk(statement)):
        return False
    name = last_name(func)
    if isinstance(func, ast.Attribute):
        receiver = ast.unparse(func.value)
        if name in ("write", "writelines"):
            return bool(_WRITERS.search(receiver))
        return name in _LOGS and not _NOT_A_LOGGER.match(receiver)
    return name in _LOGS and name not in ("log", "line", "info", "debug", "scalar")


@query
def logs(project: Project, module: ModuleIndex, statement: ast.AST) -> bool:
    """Return whether a statement only logs, itself or by a function of the tree that does nothing else."""
    if keeps_rows(module, statement):
        return False
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute() | ast.Name()) as call):
            callees = project.fact(Resolver).callees(module, call)
            if is_logging(statement):
                return not any(isinstance(one.node, FUNCTIONS) and counts_on_calls(one.node) for one in callees)
            return bool(callees) and all(
                isinstance(callee.node, FUNCTIONS) and _is_log_helper(callee.module, callee.node) for callee in callees
            )
    return is_logging(statement)


@query
def _is_log_helper(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether the body of a function does nothing but write to a log."""
    body = [part for part in function.body if not isinstance(part, ast.Pass) and not _is_docstring(part)]
    if goes_on(function) or len(body) > _MOST_IN_HELPER:
        return False
    return all(map(_only_logs, body)) and any(is_logging(part) for one in body for part in walk(one))


def _only_logs(statement: ast.stmt) -> bool:
    """Return whether a statement of a function logs, or sets a variable that it logs, in every call or none."""
    match statement:
        case ast.If(test=test, body=body, orelse=rest):
            periodic = has_operator(test, ast.Mod) or any(isinstance(part, ast.Call) for part in walk(test))
            return not periodic and all(map(_only_logs, (*body, *rest)))
        case ast.Assign(value=value) if "" not in names_stored(statement):
            calls = [part for part in walk(value) if isinstance(part, ast.Call)]
            return all(last_name(call.func) in _PURE | _TEXTS for call in calls)
    return is_logging(statement)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def run_of(project: Project, module: ModuleIndex, statement: ast.stmt, names: set[str]) -> list[ast.stmt]:
    """The logging statements around one in its block. Those that only set ``names`` for them count as well."""
    block, at = block_around(module, statement)
    first = last = at
    while first > 0 and _belongs(project, module, block[first - 1], names):
        first -= 1
    while last + 1 < len(block) and _belongs(project, module, block[last + 1], names):
        last += 1
    return block[first : last + 1]


def outermost(project: Project, module: ModuleIndex, statement: ast.stmt, loop: LoopNode) -> ast.stmt:
    """The loop around a statement that does nothing but log (the norms of all parameters), else the statement."""
    found = statement
    for up in module.syntax.ancestors(statement):
        if up is loop or not isinstance(up, ast.For | ast.If):
            break
        if isinstance(up, ast.For):
            if not _only_shows(project, module, up):
                break
            found = up
    return found


def _only_shows(project: Project, module: ModuleIndex, loop: ast.For) -> bool:
    """Return whether a loop does nothing but log, and leaves nothing behind that other statements read: no sums, no
    moving averages."""
    if loop.orelse or not all(_shows(project, module, one) for one in loop.body):
        return False
    rows = any(keeps_rows(module, part, of_elements=True) for part in walk(loop))
    return not rows and _escaping(project, module, [loop]) is None


def _shows(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a statement only logs, under whatever condition but not every N steps."""
    match statement:
        case ast.If(test=test, body=body, orelse=rest):
            periodic = has_operator(test, ast.Mod)
            return not periodic and all(_shows(project, module, one) for one in (*body, *rest))
        case ast.Assign(value=value):
            calls = [part for part in walk(value) if isinstance(part, ast.Call)]
            return all(last_name(call.func) in _PURE | _TEXTS for call in calls)
    return logs(project, module, statement)


def log_run(project: Project, module: ModuleIndex, statement: ast.stmt) -> list[ast.stmt] | None:
    """The statements that only log, around one that logs or that makes a text or number for it alone; else None."""
    shows = isinstance(statement, ast.For) and _only_shows(project, module, statement)
    if shows or logs(project, module, statement):
        return run_of(project, module, statement, set())
    if isinstance(statement, ast.For):
        return computed_run(project, module, statement)
    if not isinstance(statement, ast.Assign) or "" in (names := names_stored(statement)):
        return None
    run = run_of(project, module, statement, names)
    if _escaping(project, module, run) is None and any(logs(project, module, one) for one in run):
        return run
    return computed_run(project, module, statement)


def computed_run(
    project: Project, module: ModuleIndex, statement: ast.stmt, *, meters: bool = False
) -> list[ast.stmt] | None:
    """The statements around one that compute values for a log alone, also together over all processes, and the log
    itself, which one process may write (``if rank == 0``); None if anything else uses the values.

    With ``meters`` an object that averages such values counts as a log (``losses.update(reduced.item())``).
    """
    block, at = block_around(module, statement)
    first = last = at
    while first > 0 and _computes(project, module, block[first - 1], meters):
        first -= 1
    while last + 1 < len(block) and _computes(project, module, block[last + 1], meters):
        last += 1
    logging = {one for one in block[first : last + 1] if _writes(project, module, one, meters)}
    if not logging or not _computes(project, module, statement, meters):
        return None
    while (out := _escaping(project, module, block[first : last + 1])) is not None:
        where = block.index(out)
        if where == at:
            return None
        first, last = (where + 1, last) if where < at else (first, where - 1)
    run = block[first : last + 1]
    return run if any(one in logging for one in run) else None


def filled_run(project: Project, module: ModuleIndex, statement: ast.stmt, loop: LoopNode) -> list[ast.stmt] | None:
    """The statements that fill a table for a log and write it, around one that sets an entry, perhaps under a
    condition: ``if regularized: row["penalty"] = penalty.item()``."""
    found: ast.AST = statement
    while found is not loop and isinstance(found, ast.stmt):
        run = computed_run(project, module, found)
        if run is not None:
            return run
        found = module.syntax.parents[found]
        if not isinstance(found, ast.If | ast.For):
            break
    return None


def computed_runs(project: Project, module: ModuleIndex, statement: ast.stmt) -> list[list[ast.stmt]] | None:
    """Like :func:`computed_run` with meters, but the values may be logged further down in the same block."""
    run = computed_run(project, module, statement, meters=True)
    if run is not None:
        return [run]
    if not isinstance(statement, ast.Assign) or not _computes(project, module, statement, False):
        return None
    block, _ = block_around(module, statement)
    logging = [one for one in block if one.lineno > statement.lineno and _writes(project, module, one, False)]
    names = names_stored(statement)
    readers = [one for one in logging if any(isinstance(p, ast.Name) and p.id in names for p in walk(one))]
    if not readers or _escaping(project, module, [statement, *readers]) is not None:
        return None
    return [[statement], *([reader] for reader in readers)]


def _escaping(project: Project, module: ModuleIndex, run: list[ast.stmt]) -> ast.stmt | None:
    """The first statement of a run that sets or changes a variable which is not the run's own."""
    inside = {part for one in run for part in walk(one)}
    scope, own = module.scope(run[0]), set[str]()
    stored = {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    for statement in run:
        if not all(_is_own(project, module, part, stored, own) for part in _in_order(statement)):
            return statement
        names = {part.id for part in walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        for node in (node for name in names for node in module.uses.get(name, [])):
            bindings = module.scope(node).lookup(node.id)
            if node in inside or bindings is not scope.bindings.get(node.id):
                continue
            if any(binding.node in inside for binding in reaching(module, bindings, node)):
                return statement
    return None


def _in_order(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield what a statement evaluates and runs, part by part."""
    match statement:
        case ast.If(test=test, body=body, orelse=rest):
            yield test
            yield from (part for one in (*body, *rest) for part in _in_order(one))
        case ast.For(target=target, iter=iterated, body=body):
            yield iterated
            yield target
            yield from (part for one in body for part in _in_order(one))
        case _:
            yield statement


def _is_own(project: Project, module: ModuleIndex, part: ast.AST, stored: set[str], own: set[str]) -> bool:
    """Return whether a part reads and changes nothing that a run sets further down; what it sets joins ``own``."""
    names = [node for node in walk(part) if isinstance(node, ast.Name)]
    if any(isinstance(node.ctx, ast.Load) and node.id in stored - own for node in names):
        return False  # it goes on from the value of the step before, such as a moving average
    changed = _changed(project, module, part)
    own.update(node.id for node in names if isinstance(node.ctx, ast.Store) and node.id != changed)
    return not changed or changed in own


def _changed(project: Project, module: ModuleIndex, statement: ast.AST) -> str:
    """The variable whose value a statement changes in place: ``value /= n``, ``dist.all_reduce(value)``, ``row["loss"]
    = value``."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=name)):
            return name
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            return name
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update", value=ast.Name(id=name)), args=[ast.Dict()])):
            return name
        case ast.Expr(value=ast.Call(args=[ast.Name(id=name), *_]) as call) if collective(module, call, project):
            return name
    return ""


def _computes(project: Project, module: ModuleIndex, statement: ast.stmt, meters: bool) -> bool:
    """Return whether a statement writes a log, or sets variables by calls without effects."""
    return _fills(project, module, statement) or _writes(project, module, statement, meters)


@query
def _fills(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a statement sets variables and entries of tables by calls without effects, perhaps under a
    condition or once for each entry of another table."""
    match statement:
        case ast.If(test=test, body=body, orelse=rest):
            pure = _has_pure_calls(project, module, test) and not has_operator(test, ast.Mod)
            return pure and all(_fills(project, module, one) for one in (*body, *rest))
        case ast.For(iter=iterated, body=body, orelse=[]):
            return _has_pure_calls(project, module, iterated) and all(_fills(project, module, one) for one in body)
        case ast.Assign(value=value) | ast.AugAssign(value=value):
            changed = _changed(project, module, statement)
            known = bool(changed) or (isinstance(statement, ast.Assign) and "" not in names_stored(statement))
            return known and _has_pure_calls(project, module, value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update"), args=[ast.Dict() as added])):
            return bool(_changed(project, module, statement)) and _has_pure_calls(project, module, added)
    return bool(_changed(project, module, statement))


def _has_pure_calls(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    return all(_is_pure(project, module, part) for part in walk(value) if isinstance(part, ast.Call))


def _is_pure(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    name = last_name(call.func)
    if name in _PURE or name.startswith("is_") or "reduce" in name:
        return True
    return name in project.models.derived(Collectives).names


@query
def _writes(project: Project, module: ModuleIndex, statement: ast.stmt, meters: bool) -> bool:
    """Return whether a statement writes a log, perhaps under a condition that is the same in all steps."""
    match statement:
        case ast.If(test=test, body=body, orelse=[]):
            loop = next((up for up in module.syntax.ancestors(statement) if isinstance(up, LOOPS)), None)
            stored = _stored(module, loop) if loop is not None else frozenset()
            named = {part.id for part in walk(test) if isinstance(part, ast.Name)}
            steady = not stored & named and not has_operator(test, ast.Mod)
            return steady and all(_writes(project, module, one, meters) for one in body)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update"), args=[_, _])) if meters:
            return True
    return logs(project, module, statement)


@query
def _stored(module: ModuleIndex, loop: ast.AST) -> frozenset[str]:
    """The names that a loop binds."""
    return frozenset(part.id for part in walk(loop) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def _belongs(project: Project, module: ModuleIndex, statement: ast.stmt, names: set[str]) -> bool:
    """Return whether a neighbour logs as well; records for other programs (``json.dumps``) are kept of every step."""
    if logs(project, module, statement):
        return not _dumps(module, statement)
    return isinstance(statement, ast.Assign) and bool(names) and names_stored(statement) <= names


@query
def _dumps(_module: ModuleIndex, statement: ast.stmt) -> bool:
    return any(isinstance(part, ast.Call) and last_name(part.func) == "dumps" for part in walk(statement))


def names_stored(statement: ast.Assign) -> set[str]:
    """The variables that an assignment sets; something that is no variable counts as an empty name."""
    targets = [part for target in statement.targets for part in getattr(target, "elts", [target])]
    return {part.id if isinstance(part, ast.Name) else "" for part in targets}
