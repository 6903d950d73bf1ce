"""What it detects
A loss that was back-propagated is then added to a running total, or appended to a list, with its graph: ``total +=
loss`` where ``loss.backward()`` runs in the same training loop and the total lives longer than one iteration. So is
what the same function or object computes of the model's output beside the loss, of which ``backward`` frees nothing.
The loop has to be one over the training's data, over its epochs, or of hundreds of rounds: the rounds of other loops
may be parts of one step, with which the total ends.

What a table, a list or a row of one keeps of the loss's terms, or of what it is computed of, is named with the total,
and so is what totals keep of the terms of another optimizer's loss.

Recognizes PyTorch loops, with ``backward`` of a gradient scaler, Accelerate and Fabric, and Lightning's
``manual_backward``.

Why it costs GPU time
The total links the nodes of the graphs of all iterations, so memory grows with every step. ``backward`` frees the
activations that the nodes saved, which would take far more; what it leaves adds up over long epochs and large models.
Insufficient GPU memory accounts for 3.1% of the study's 706 issues in 400 jobs.

When to ignore this rule
The total itself is differentiated (truncated back-propagation, accumulated losses with one ``backward`` at the end).

Fix safety
Safe: ``.detach()`` keeps the value and only drops the graph, which ``backward`` has already freed.

References
https://pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.gate import Gate
from gpulint.impact import Cost
from gpulint.placement.cpu_models import trains_on_host
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.model_frameworks import has_no_detach
from gpulint.values.counter_names import is_counter
from gpulint.workspace.module_index import LoopNode, ModuleIndex, dotted, last_name
from gpulint_rules.model.graph_values import carried, detached, has_graph, lets_go
from gpulint_rules.model.kept_parts import KeptParts, kept_parts
from gpulint_rules.model.lasting_totals import RetainedGraph, kept_in, outlives
from gpulint_rules.model.rounds import has_many_rounds, is_over_data
from gpulint_rules.model.unfreed_graphs import stays_whole

_MOST = 6
"""Most other places that a finding names."""
_BESIDE = ", and detach the other values that keep the same graph"
_SELDOM = "each iteration that adds to it"


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None or has_no_detach(project, module):
        return
    if module.loops and project.fact(GpuPrograms).stays_on_cpu(module):
        return
    for loop in module.loops:
        losses = _differentiated(project, module, loop)
        if not losses or project.fact(LoopContexts).role(module, loop) is not Role.STEP:
            continue
        if not has_many_rounds(project, module, loop):
            continue
        if trains_on_host(project, module, loop):
            continue
        for kept, into in kept_in(loop):
            without = detached(module, loop)
            tensors = [tensor for tensor in carried(kept, losses) if dotted(tensor) not in without]
            names = [
                *dict.fromkeys(
                    name
                    for tensor in tensors
                    if (name := dotted(tensor)) in losses and has_graph(module, loop, tensor, losses[name])
                )
            ]
            whole = [one for one in tensors if not names and stays_whole(project, module, one, losses)]
            names = names or [*dict.fromkeys(map(dotted, whole))]
            if not names or into in losses or not outlives(project, module, loop, into):
                continue
            guards = project.fact(Guards)
            if guards.is_without_gradients(module, kept) or lets_go(project, module, loop, into):
                continue
            seldom = guards.is_conditional(module, kept, loop)
            if seldom and (guards.is_error_path(module, kept) or _is_for_one_round(module, kept, loop)):
                continue
            value = _around(kept, tensors)
            text = names[0] if value in tensors else module.syntax.text(value)
            found = RetainedGraph(module, value, loop)
            beside = kept_parts(project, found)
            yield RULE.finding(
                document.path,
                module.syntax.span(value),
                f"{into!r} keeps {_graphs(names)} from {_SELDOM if seldom else 'every iteration'}"
                + (", which no `backward` frees" if whole else ""),
                help=f"accumulate `{text if value in tensors else f'({text})'}.detach()` instead"
                + (_BESIDE if beside.tensors or beside.unsure else ""),
                payload=found,
                cost=_cost(project, module, loop, bool(whole)),
                related=(*_differentiations(module, losses, names), *_places(module, beside)),
            )


def _cost(project: Project, module: ModuleIndex, loop: LoopNode, whole: bool) -> Cost:
    assumed = "" if is_over_data(project, module, loop) else "assuming many rounds"
    return Cost("unfreed-graph" if whole else "graph-kept", assumed=assumed)


def _differentiations(module: ModuleIndex, losses: dict[str, ast.Call], names: list[str]) -> Iterator[Place]:
    for name in names:
        if name in losses:
            yield Place(module.path, module.syntax.span(losses[name]), f"{name!r} is differentiated here")


def _places(module: ModuleIndex, beside: KeptParts) -> Iterator[Place]:
    """Yield what else the loop keeps of the same graph; of many, the first ones."""
    kept = [(one, "has") for one in beside.tensors] + [(one, "may have") for one in beside.unsure]
    for value, verb in kept[:_MOST]:
        whose = "the graph of another loss" if value in beside.of_others else "the same graph"
        said = f"{module.syntax.text(value)!r}, which is kept here as well, {verb} {whose}"
        yield Place(module.path, module.syntax.span(value), said)


def _is_for_one_round(module: ModuleIndex, node: ast.AST, loop: LoopNode) -> bool:
    """``if step == 0:``, and in a branch that ends with an error"""
    parts = (part for test, holds in conditions(module, node, loop) for part, _ in parts_of(test, holds) if holds)
    if any(
        isinstance(part, ast.Compare)
        and isinstance(part.ops[0], ast.Eq)
        and isinstance(part.comparators[0], ast.Constant)
        and is_counter(part.left)
        for part in parts
    ):
        return True
    branch = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.If)), None)
    return branch is not None and isinstance(branch.body[-1], ast.Raise)


def _graphs(names: list[str]) -> str:
    """``the graphs of 'a', 'b' and 'c'``"""
    *others, last = map(repr, names)
    return f"the graphs of {', '.join(others)} and {last}" if others else f"the graph of {last}"


def _differentiated(project: Project, module: ModuleIndex, loop: LoopNode) -> dict[str, ast.Call]:
    """Names that ``backward`` runs on in the loop -> the call."""
    found: dict[str, ast.Call] = {}
    for call in project.fact(LoopContexts).calls_in(module, loop):
        name = last_name(call.func)
        if name not in ("backward", "manual_backward") or not isinstance(call.func, ast.Attribute):
            continue
        if any(keyword.arg == "retain_graph" for keyword in call.keywords):
            continue
        owner = call.func.value
        # `loss.backward()`, `scaler.scale(loss).backward()`, `accelerator.backward(loss)`.
        tensors = call.args[:1] or (owner.args[:1] if isinstance(owner, ast.Call) else [owner])
        found.update({dotted(tensor): call for tensor in tensors if dotted(tensor)})
    return found


def _around(value: ast.expr, tensors: list[ast.expr]) -> ast.expr:
    """The innermost part of a value that holds all the tensors."""
    wanted = set(tensors)
    while value not in wanted:
        parts = [value.left, value.right] if isinstance(value, ast.BinOp) else [*ast.iter_child_nodes(value)]
        inner = next((part for part in parts if isinstance(part, ast.expr) and wanted <= {*walk(part)}), None)
        if inner is None:
            break
        value = inner
    return value


def _may_fire(gate: Gate) -> bool:
    return gate.calls(("backward", "manual_backward"))


RULE = Rule(
    code="GPU204",
    name="graph-retained",
    category=Category.INSUFFICIENT_GPU_MEMORY,
    dimension=Dimension.MODEL,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("backward",), ("+=", "append", " + ")),
    may_fire=_may_fire,
    summary="accumulated losses keep their autograd graphs alive",
    why="the graph nodes of all iterations stay in memory; `backward()` frees only their activations",
    evidence=(Evidence("3.1% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("graph-kept"),
    fix=Safety.SAFE,
    bad="""\
total = 0
for batch in loader:
    loss = model(batch)
    loss.backward()
    optimizer.step()
    total += loss
""",
    good="""\
total = 0
for batch in loader:
    loss = model(batch)
    loss.backward()
    optimizer.step()
    total += loss.detach()
""",
    references=("https://pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",),
)
