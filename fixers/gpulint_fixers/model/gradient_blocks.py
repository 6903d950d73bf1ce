"""The smallest part of a loop that holds all calls of models which compute with gradients, and a block around it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gpulint.documents import Document
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.evaluated_models import evaluated, runs
from gpulint.training.guards import Guards
from gpulint.training.inference_loops import InferenceLoop
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, LoopNode, ModuleIndex, dotted, last_name
from gpulint_fixers.edits.structural import indentation_step, wrap, wrap_all

MOST_LINES = 15
"""Lines of a block from which on indenting them hides the change."""
_DISABLING = frozenset({"no_grad", "inference_mode"})


def smallest_loop(project: Project, found: InferenceLoop) -> LoopNode | None:
    """Return the outermost loop around the forward pass that is short and holds all calls of models; None if only parts
    of loops are, or if a block without gradients is inside already."""
    module, calls = found.module, _calls(project, found)
    loops = [up for up in module.syntax.ancestors(found.forward) if isinstance(up, LOOPS)]
    if found.loop not in loops:
        return None
    for loop in reversed(loops[: loops.index(found.loop) + 1]):
        inside = {*walk(loop)}
        if lines_of(module, loop.body) <= MOST_LINES and inside.issuperset(calls):
            return None if any(_disables(part) for part in inside) else loop
    return None


def lines_of(module: ModuleIndex, statements: Sequence[ast.stmt]) -> int:
    """Return how many lines statements have that are not blank."""
    first, last = statements[0].lineno, statements[-1].end_lineno or statements[-1].lineno
    return sum(bool(module.syntax.source.line(number).strip()) for number in range(first, last + 1))


def put_under(
    project: Project, document: Document, found: InferenceLoop, header: str
) -> tuple[str, tuple[Edit, ...]] | Declined:
    """Return the edits that put the calls of models alone under a header, or into the block beside them that has it
    already, and what they do."""
    run = _run(project, found)
    if isinstance(run, Declined):
        return run
    calls = f"the calls of `{found.model}`" if len(_calls(project, found)) > 1 else f"the call of `{found.model}`"
    if (joined := _joined(document, found.module, run, header)) is not None:
        return f"move {calls} into the block beside that has `{header}`", joined
    edits = wrap(document, run[0], header) if len(run) == 1 else wrap_all(document, run, header)
    return edits if isinstance(edits, Declined) else (f"put {calls} under `{header}`", edits)


def unpacked_nothing(project: Project, found: InferenceLoop) -> str | None:
    """Return the function whose result a statement unpacks though it returns nothing: the program stops there."""
    match found.module.syntax.parents.get(found.forward):
        case ast.Assign(targets=[ast.Tuple() | ast.List()]):
            pass
        case _:
            return None
    resolver = project.fact(Resolver)
    called = [one.node for one in resolver.callees(found.module, found.forward)]
    known = [one for one in called if isinstance(one, ast.FunctionDef) and _ends(one) and not resolver.returns(one)]
    return last_name(found.forward.func) if called and len(known) == len(called) else None


def _ends(function: ast.FunctionDef) -> bool:
    """Return whether a function has a body of its own: no stub, and none that only raises an error or yields."""
    stops = (ast.Raise, ast.Yield, ast.YieldFrom)
    return len(function.body) > 1 and not any(isinstance(part, stops) for part in walk(function))


def _calls(project: Project, found: InferenceLoop) -> list[ast.Call]:
    """The calls of evaluated models in a loop that compute with gradients, in order."""
    module, guards = found.module, project.fact(Guards)
    models = [*dict.fromkeys([found.model, *(model for _, model in evaluated(project, module))])]
    function, inside = module.function(found.forward), walk(found.loop or found.forward)
    calls = [part for part in inside if isinstance(part, ast.Call) and module.function(part) is function]
    found_calls = [
        call
        for call in calls
        if call is found.forward or _runs_one(project, module, call, models)
        if not guards.is_without_gradients(module, call)
    ]
    return sorted(found_calls, key=lambda call: (call.lineno, call.col_offset))


def _runs_one(project: Project, module: ModuleIndex, call: ast.Call, models: list[str]) -> bool:
    if dotted(call.func) in models or any(runs(project, module, call, model) for model in models):
        return True
    callees = project.fact(Resolver).callees(module, call)
    return any(isinstance(one.node, FUNCTIONS) and getattr(one.node, "name", "") == "forward" for one in callees)


def _run(project: Project, found: InferenceLoop) -> list[ast.stmt] | Declined:
    """The shortest run of neighbours that holds all calls of models in a loop."""
    module, calls = found.module, _calls(project, found)
    wanted: set[ast.AST] = {*calls}
    for statement in _statements(module, found):
        place, parent = module.syntax.place(statement), module.syntax.parents.get(statement)
        if place is None or parent is None:
            continue
        block: list[ast.stmt] = getattr(parent, place[0])
        homes = {part: at for at, one in enumerate(block) for part in walk(one) if part in wanted}
        if len(homes) < len(calls):
            continue
        run = block[min(homes.values()) : max(homes.values()) + 1]
        if lines_of(module, run) > MOST_LINES or any(_disables(part) for one in run for part in walk(one)):
            break
        return run
    return Declined(f"the models run in several places of a loop of more than {MOST_LINES} lines")


def _statements(module: ModuleIndex, found: InferenceLoop) -> Iterator[ast.stmt]:
    """Yield the statements around the forward pass inside of the loop, the innermost first."""
    for up in module.syntax.ancestors(found.forward):
        if up is found.loop:
            break
        if isinstance(up, ast.stmt):
            yield up


def _disables(part: ast.AST) -> bool:
    """``with torch.no_grad():``, perhaps with other contexts."""
    return isinstance(part, ast.With) and any(
        isinstance(one.context_expr, ast.Call) and last_name(one.context_expr.func) in _DISABLING for one in part.items
    )


def _joined(document: Document, module: ModuleIndex, run: list[ast.stmt], header: str) -> tuple[Edit, ...] | None:
    """The edits that make a run the end or the start of a neighbour that switches gradients off and nothing else; None
    if there is none."""
    place, parent = module.syntax.place(run[0]), module.syntax.parents.get(run[0])
    if place is None or parent is None:
        return None
    block: list[ast.stmt] = getattr(parent, place[0])
    first, last = place[1], place[1] + len(run) - 1
    step = indentation_step(module.syntax, run[0])
    if first and _takes(module, block[first - 1], step):
        above = block[first - 1]
        edits = wrap_all(document, run, "")
        between = _comments(module, (above.end_lineno or 0) + 1, run[0].lineno, step)
        return None if isinstance(edits, Declined) else (*between, *edits)
    if last + 1 < len(block) and _takes(module, below := block[last + 1], step):
        edits = wrap_all(document, run, header)
        between = _comments(module, (run[-1].end_lineno or 0) + 1, below.lineno, step)
        start, end = (module.syntax.source.offset(one, 1) for one in (below.lineno, below.lineno + 1))
        gone = Edit(module.path, module.syntax.span_at(start, end), "")
        return None if isinstance(edits, Declined) else (*edits, *between, gone)
    return None


def _takes(module: ModuleIndex, statement: ast.stmt, step: str) -> bool:
    """Return whether a statement is a plain ``with torch.no_grad():`` whose block starts in the next line."""
    if not isinstance(statement, ast.With) or len(statement.items) != 1 or not _disables(statement):
        return False
    head, body = module.syntax.source.line(statement.lineno), statement.body[0]
    plain = "#" not in head and body.lineno == statement.lineno + 1 and head.rstrip().endswith(":")
    return plain and body.col_offset == statement.col_offset + len(step) and statement.items[0].optional_vars is None


def _comments(module: ModuleIndex, first: int, stop: int, step: str) -> list[Edit]:
    """Edits that indent the comments in some lines."""
    syntax, source = module.syntax, module.syntax.source
    starts = [source.offset(number, 1) for number in range(first, stop) if source.line(number).strip()]
    return [Edit(module.path, syntax.span_at(start, start), step) for start in starts]
