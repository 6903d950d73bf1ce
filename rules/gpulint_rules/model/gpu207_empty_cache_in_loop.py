"""What it detects
``torch.cuda.empty_cache()`` or ``gc.collect()`` on every iteration of a training loop, or for every batch of an
evaluation that draws batches of several samples from a loader.

Recognizes PyTorch loops and the hooks of Lightning modules, Hugging Face trainers, callbacks (Lightning, Keras),
SpeechBrain brains and Ignite engines.

Why it costs GPU time
Emptying the cache waits for the GPU and returns its memory, so the next iteration has to allocate it again;
garbage collection stops the host while the GPU idles. Insufficient GPU memory, which such calls are meant to prevent,
accounts for 3.1% of the study's 706 issues in 400 jobs.

When to ignore this rule
Calls between phases, once in many iterations, after an out-of-memory error, or in a loop of a few steps. Left alone in
loops that move models back to the host. In packages that use MinkowskiEngine, whose documentation says to call it at
regular intervals, the advice is to do so less often, and the impact is low.

Fix safety
Unsafe. ``empty_cache`` frees no memory that PyTorch could not reuse by itself, but it may reduce fragmentation, so that
a job near the limit of its memory may fail without it; objects in cycles that ``gc.collect`` frees may hold GPU
memory. Both stay where a comment says what they are for, in functions that report how much memory is in use, and in a
method that overrides another one for them alone, as somebody did so on purpose. A function that does nothing else stays
as it is: the loop no longer calls it.

References
https://pytorch.org/docs/stable/notes/cuda.html#memory-management
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.placement.cpu_models import trains_on_host
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.points_to import Resolver
from gpulint.training.bounded_loops import stops_within
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.repetition import repeated_contexts
from gpulint.workspace.module_index import LOOPS, ModuleIndex, NodeRef, last_name
from gpulint_rules.data.wait_counts import outermost_loop
from gpulint_rules.model.evaluated_batches import evaluates_batches
from gpulint_rules.model.freed_memory import CALLS, in_each_branch, library_that_needs, override_for
from gpulint_rules.model.rounds import counts_epochs_of

_INSTEAD = "if memory is short, use a smaller batch with accumulation, or activation checkpointing"
_SELDOM = "call it every N steps: {}'s documentation says to empty the cache at regular intervals"
_COLLECTS = Cost("allocator-flush", basis="Python looks for garbage")
_EMPTIES = Cost("allocator-flush", own=1)  # the larger part, so that it leads where one repair ends both
_FEW = 20
"""Steps whose calls cost a run next to nothing."""
_TURNS = frozenset({"wake_up", "resume_memory_occupation", "release_memory_occupation"})
"""How vLLM and SGLang take memory back and give it away."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    for call in [*module.calls_by_name.get("empty_cache", []), *module.calls_by_name.get("collect", [])]:
        names = project.fact(Resolver).call_names(module, call) & CALLS
        contexts = repeated_contexts(project, module, call) if names else []
        contexts.sort(key=lambda one: one.role is Role.EVAL)
        step = next((one for one in contexts if _is_step(project, one)), None)
        if (
            step is None
            or project.fact(GpuPrograms).is_elsewhere(module)
            or project.fact(Guards).is_conditional(module, call)
            or project.fact(Guards).is_debugging(module, call)
        ):
            continue
        if any(project.fact(Guards).is_conditional(site.module, site.node) for site in step.calls):
            continue
        assert isinstance(step.loop.node, ast.stmt)
        if _makes_room(step.loop.node) or _is_by_hand(project, module, call) or _stays_on_host(project, step.loop):
            continue
        library = library_that_needs(project, module, call, step.loop.module)
        loop = Place(step.loop.module.path, step.loop.module.syntax.head(step.loop.node), "in this loop")
        beside = in_each_branch(project, module, call)
        others = [Place(module.path, module.syntax.span(one), "empties it in the same step") for one in beside]
        gone = f"it and the other{'s' if len(others) > 1 else ''} of the step" if others else "it"
        yield RULE.finding(
            document.path,
            module.syntax.span(call),
            f"{min(names)} runs on every {'training iteration' if step.role is Role.STEP else 'evaluation batch'}",
            help=_SELDOM.format(library) if library else f"remove {gone}; {_INSTEAD}",
            payload=call,
            cost=_regular(library) if library else _cost(names, bool(others), override_for(project, module, call)),
            cause=outermost_loop(step),
            related=(loop, *others),
        )


def _is_step(project: Project, context: LoopContext) -> bool:
    """Return whether a loop takes more than a few training steps, or evaluates the batches of a loader."""
    if context.role is Role.EVAL:
        return evaluates_batches(project, context)
    return context.role is Role.STEP and not _takes_few_steps(project, context.loop)


def _regular(library: str) -> Cost:
    """Return what a call costs beside a library that says to empty the cache at regular intervals."""
    return replace(_EMPTIES, assumed=f"assuming that it is needed less often with {library}")


def _cost(names: frozenset[str], has_others: bool, override: str | None) -> Cost:
    """Return what a call costs; ``override`` is the method that is there for such calls alone."""
    cost = _COLLECTS if min(names) == "gc.collect" else _EMPTIES
    assumed = f"assuming that memory suffices without this `{override}`" if override else ""
    assumed = assumed or ("assuming that the other calls of the step go as well" if has_others else "")
    return replace(cost, assumed=assumed)


def _stays_on_host(project: Project, loop: NodeRef) -> bool:
    """Return whether the loop trains where nothing is on a GPU."""
    return isinstance(loop.node, LOOPS) and trains_on_host(project, loop.module, loop.node)


def _takes_few_steps(project: Project, where: NodeRef) -> bool:
    """Return whether a loop is known to take a few steps, once in a run: to warm a model up."""
    loop, module = where.node, where.module
    contexts = project.fact(LoopContexts)
    if not isinstance(loop, ast.For) or counts_epochs_of(loop) or not stops_within(project, where, _FEW):
        return False
    if any(up is not loop for up in contexts.around(module, loop)):
        return False
    function = module.function(loop)
    return function is None or (
        bool(project.fact(Resolver).call_sites(module, function))
        and not contexts.enclosing_loops_of_function(module, function)
    )


def _makes_room(loop: ast.stmt) -> bool:
    """Return whether an inference engine with an allocator of its own takes turns with the training on one GPU, or the
    loop moves models back to the host (``teacher.to("cpu")`` as a statement)."""
    return any(
        (isinstance(part, ast.Call) and last_name(part.func) in _TURNS) or _moves_model_away(part)
        for part in walk(loop)
    )


def _moves_model_away(part: ast.AST) -> bool:
    match part:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="cpu"), args=[])):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value="cpu"), *_])):
            return True
    return False


def _is_by_hand(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the program collects garbage itself in place of Python's collector (``gc.disable()``), or only
    young objects (``gc.collect(1)``)."""
    names = project.fact(Resolver).call_names
    young = any(isinstance(one, ast.Constant) and one.value in (0, 1) for one in call.args)
    return "gc.collect" in names(module, call) and (
        young or any("gc.disable" in names(module, one) for one in module.calls_by_name.get("disable", ()))
    )


RULE = Rule(
    code="GPU207",
    name="empty-cache-in-loop",
    category=Category.INSUFFICIENT_GPU_MEMORY,
    dimension=Dimension.MODEL,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("empty_cache", "gc.collect", "collect("),),
    summary="the memory cache is emptied on every training iteration",
    why="each step waits while unused memory is looked for or given back, which seldom gains anything",
    evidence=(Evidence("3.1% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("allocator-flush"),
    fix=Safety.UNSAFE,
    bad="""\
for batch in loader:
    model(batch).backward()
    optimizer.step()
    torch.cuda.empty_cache()
""",
    good="""\
for batch in loader:
    model(batch).backward()
    optimizer.step()
""",
    references=("https://pytorch.org/docs/stable/notes/cuda.html#memory-management",),
)
