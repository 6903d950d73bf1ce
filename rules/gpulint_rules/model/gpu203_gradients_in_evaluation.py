"""What it detects
A loop that runs a model in evaluation mode (after ``model.eval()``) while gradients are enabled: no ``torch.no_grad``
or ``torch.inference_mode`` around it, on its function, or around any call of that function. Also a loop over a held-out
loader between the steps of a training, though the model stays in training mode.

So is a pass of a function that evaluates by its name, where nothing sets the model to evaluation but a total or a
list keeps the loss of each batch with its graph (``losses.append(loss)``, ``total += loss``), or where only a later
part of each round is in ``torch.no_grad()``. The model may run in a method of the object that holds it
(``self.predict(x)``), which may set it to evaluation when it is made (``self.teacher = teacher.eval()``).

Recognizes evaluation loops that are written out in PyTorch.

Why it costs GPU time
Every forward pass stores its activations for a backward pass that never comes. The memory forces smaller batches, and
insufficient GPU memory ends jobs: it accounts for 3.1% of the study's 706 issues in 400 jobs. Where a total or a list
keeps the losses, the activations of all batches stay until the pass ends, as no ``backward`` frees them.

When to ignore this rule
Evaluation differentiates on purpose: adversarial examples, input gradients, meta-learning. Nothing is reported where
``torch.no_grad()`` is commented out, or where a loop runs models on one made-up input, for its shapes or its speed.

Fix safety
Safe where no graph leaves the function (its callers only read what it returns, and it stores nothing with a graph)
and nothing that it may call takes gradients: ``@torch.no_grad()`` then changes no value. Unsafe elsewhere, where the
function does more than to evaluate in a ``while`` loop, where calls that evaluate with a function which trains in
others are put under ``with torch.no_grad():`` (in the same module), and where padding masks go to a
``TransformerEncoder``, which fills padded places with zeros when it keeps no graph. Left alone where the model is
explained by its gradients (class activation maps, attributions).

References
https://pytorch.org/docs/stable/notes/autograd.html#locally-disable-grad-doc
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from itertools import chain

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.impact_causes import BESIDE
from gpulint.placement.cpu_forwards import runs_on_cpu
from gpulint.placement.cpu_models import stays_where_made
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.gradient_switches import may_run_without_gradients, may_switch_gradients_off
from gpulint.programs.trained_models import graphs_of_trained_models
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.package_names import package_name
from gpulint.training.chained_calls import chains_graphs
from gpulint.training.counted_places import is_at_count
from gpulint.training.differentiation import takes_gradients
from gpulint.training.evaluated_models import forward_disables
from gpulint.training.frozen_models import ends_in_layers, is_frozen
from gpulint.training.gradient_free import runs_without_gradients
from gpulint.training.gradient_needs import may_need_gradients
from gpulint.training.inference_loops import InferenceLoop, graphs_in_evaluation, trains_as_well
from gpulint.training.later_losses import collects_loss
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.made_up_inputs import is_given_made_up
from gpulint.training.model_frameworks import may_be_of_another_framework
from gpulint.training.unseen_models import may_have_no_weights
from gpulint.workload.data_split import Split, split_of
from gpulint.workload.validation_graphs import graphs_in_validation
from gpulint.workspace.module_index import ModuleIndex, NodeRef, dotted, last_name
from gpulint_rules.model.held_graphs import HeldGraph, held_in
from gpulint_rules.model.unset_evaluations import EVALUATION_WORDS, graphs_kept_in_passes

_FEW = Cost("gradients", assumed="assuming that it is given many samples")
_HEAD = Cost("gradients", assumed="assuming that the layers behind the frozen model are large")
_PART = Cost("gradients", assumed="assuming that what the forward pass runs with gradients is large")
_CHAIN = Cost("gradients", basis="the graphs of all its rounds stay in memory")
_HELD = Cost("held-graphs")
_SWITCHED_OFF = regex.compile(r"\s*#\s*(with\s+)?@?torch\.(no_grad|inference_mode|set_grad_enabled)\(")


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    places: dict[ast.AST, list[InferenceLoop]] = {}
    for found in chain(
        graphs_in_evaluation(project, module),
        graphs_of_trained_models(project, module),
        graphs_in_validation(project, module),
        graphs_kept_in_passes(project, module),
    ):
        if not (
            _is_switched_off(module, found)
            or is_frozen(project, module, _run(found))
            or runs_on_cpu(project, module, found.forward)
            or stays_where_made(project, module, found.forward)
            or is_given_made_up(project, module, found.forward, found.loop)
            or runs_without_gradients(project, module, found.forward, _run(found))
            or may_be_of_another_framework(project, module, found.forward)
            or may_have_no_weights(project, module, _run(found))
            or _needs_gradients(project, module, found)
            or may_run_without_gradients(project, module, found.function)
        ):
            places.setdefault(found.loop or found.forward, []).append(found)
    if places and (project.fact(GpuPrograms).stays_on_cpu(module) or may_switch_gradients_off(project, module)):
        return
    for at, (first, *others) in places.items():
        models = list(dict.fromkeys(f"'{one.model}'" for one in (first, *others)))
        held = held_in(project, first)
        yield RULE.finding(
            document.path,
            module.syntax.span(first.forward) if first.loop is None else module.syntax.head(first.loop),
            f"{' and '.join(models)} {'runs' if len(models) == 1 else 'run'} in evaluation with gradients enabled"
            + (f", and {held.name!r} keeps the graphs of all batches" if held is not None else ""),
            help=_advice(project, first),
            payload=first,
            cost=_placed(_cost(project, first, held), [first, *others]),
            cause=_repaired(project, first),
            related=(*_notes(project, first, others, held), *_beside(places, at)),
        )


def _notes(
    project: Project, first: InferenceLoop, others: list[InferenceLoop], held: HeldGraph | None
) -> Iterator[Place]:
    """The calls that run the model in a loop, and what keeps the graphs of all."""
    path, syntax = first.module.path, first.module.syntax
    for one in others if first.loop is None else (first, *others):
        yield Place(path, syntax.span(one.forward), _note(project, one))
    if held is not None:
        yield Place(path, syntax.span(held.value), "this carries the whole graph of its batch")


def _beside(places: dict[ast.AST, list[InferenceLoop]], at: ast.AST) -> Iterator[Place]:
    """The other places of a function at which its evaluation records gradients, of which each has to be changed; none
    where the function can run without them as a whole."""
    found = places[at][0]
    if found.function is None or found.trains_too:
        return
    for other, (first, *_) in places.items():
        if other is not at and first.function is found.function:
            span = found.module.syntax.head(first.loop) if first.loop is not None else None
            yield Place(found.module.path, span or found.module.syntax.span(first.forward), BESIDE)


def _is_switched_off(module: ModuleIndex, found: InferenceLoop) -> bool:
    """Return whether code that would disable gradients there is commented out."""
    region = found.loop or found.forward
    first, last = region.lineno, region.end_lineno or region.lineno
    return any(_SWITCHED_OFF.match(module.syntax.source.line(number)) for number in range(first - 1, last + 1))


def _needs_gradients(project: Project, module: ModuleIndex, found: InferenceLoop) -> bool:
    """Return whether the loop itself takes gradients, or may take them, for maps of what the model looks at; or a
    function that gets the model does (``get_hessian(model, loader)``), or what is below the loop, of all its rounds."""
    if found.loop is None:
        return takes_gradients(project, module, found.forward)
    if found.trains_too:
        return False
    return (
        takes_gradients(project, module, found.loop)
        or may_need_gradients(project, module, found.loop, found.forward, found.model)
        or collects_loss(project, module, found.loop, found.forward)
    )


def _run(found: InferenceLoop) -> ast.expr:
    """The model that a call runs, by itself, in a function that gets it or in a method of the object that holds it."""
    modes = (call.func for call in found.module.calls_by_name.get("eval", ()))
    owners = (func.value for func in modes if isinstance(func, ast.Attribute))
    named = (one for one in (found.forward.func, *found.forward.args, *owners) if dotted(one) == found.model)
    return next(named, found.forward.func)


def _note(project: Project, found: InferenceLoop) -> str:
    """Describe a call: one that hands the model to another function may record only a part of what that runs."""
    if chains_graphs(project, found.module, found):
        return "gets what the call before made, so that the activations of all calls stay"
    return (
        "each call here records its activations" if _run(found) is found.forward.func else "the model runs in this call"
    )


def _cost(project: Project, found: InferenceLoop, held: HeldGraph | None) -> Cost | None:
    if found.loop is None and _is_given_few(project, found):
        return _FEW
    if chains_graphs(project, found.module, found):
        return _CHAIN
    if ends_in_layers(project, found.module, _run(found)):
        return _HEAD
    if forward_disables(project, found.module, found.forward):
        return _PART
    return _HELD if held is not None else None


def _placed(cost: Cost | None, places: list[InferenceLoop]) -> Cost:
    """The cost with the call that most rounds of the loop get to: conditions on its count say how often."""
    cost, first = cost or RULE.cost or Cost("gradients"), places[0]
    if first.loop is None:
        return cost
    often = next((one for one in places if not is_at_count(one.module, one.forward, first.loop)), first)
    return dataclasses.replace(cost, done_at=NodeRef(often.module, often.forward))


def _is_given_few(project: Project, found: InferenceLoop) -> bool:
    """Return whether a call between the steps of a training that draws batches is given one of them, or some noise: no
    whole split, and no whole graph."""
    given = (*found.forward.args, *(keyword.value for keyword in found.forward.keywords))
    names = (last_name(part) for one in given for part in walk(one) if isinstance(part, ast.Name | ast.Attribute))
    if any(split_of(name) is Split.EVAL for name in names):
        return False
    loops = project.fact(LoopContexts)
    around = loops.enclosing_loops(found.module, found.forward)
    homes = dict.fromkeys((found.module, *(context.loop.module for context in around)))
    return any(loops.over_loader(home, loop) for home in homes for loop in home.loops)


def _decorated(project: Project, found: InferenceLoop) -> Place | None:
    """The function that can run without gradients as a whole, with all its loops."""
    function = found.function
    if function is None or found.loop is None or found.trains_too or trains_as_well(project, found.module, function):
        return None
    if takes_gradients(project, found.module, function):
        return None  # beside the loop
    return None if _only_inside(found) else Place(found.module.path, found.module.syntax.head(function))


def _repaired(project: Project, found: InferenceLoop) -> Place | None:
    """Return what one change repairs: that function, or the loop alone where the function itself imports PyTorch."""
    if found.loop is not None and _only_inside(found):
        return Place(found.module.path, found.module.syntax.head(found.loop))
    return _decorated(project, found)


def _only_inside(found: InferenceLoop) -> bool:
    return package_name(found.module, "torch") is None and _inner_name(found) is not None


def _inner_name(found: InferenceLoop) -> str | None:
    """Return how the function of a loop names PyTorch; only there, as a decorator could not use what it imports."""
    return package_name(found.module, "torch", found.loop or found.forward)


def _advice(project: Project, found: InferenceLoop) -> str:
    name = f"{found.function.name!r}" if found.function is not None else "this loop"
    torch = package_name(found.module, "torch") or _inner_name(found) or "torch"
    if found.trains_too:
        return (
            f"call {name} in `with {torch}.no_grad():` where it evaluates, or use `{torch}.set_grad_enabled(...)` in it"
        )
    if found.loop is None:
        return f"run it in `with {torch}.no_grad():`"
    if _decorated(project, found) is None:
        return f"wrap the loop in `with {torch}.no_grad():`"
    return f"decorate {name} with `@{torch}.no_grad()`, or wrap the loop in `with {torch}.no_grad():`"


RULE = Rule(
    code="GPU203",
    name="gradients-in-evaluation",
    category=Category.INSUFFICIENT_GPU_MEMORY,
    dimension=Dimension.MODEL,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=((".eval()", "torch.load(", "load_state_dict(", ".backward(", *EVALUATION_WORDS), ("torch",)),
    summary="evaluation runs with gradients enabled",
    why="activations are kept for a backward pass that never comes",
    evidence=(Evidence("3.1% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("gradients"),
    fix=Safety.SAFE,
    bad="""\
def validate(model, loader):
    model.eval()
    for images, labels in loader:
        correct += (model(images).argmax(1) == labels).sum()
""",
    good="""\
@torch.no_grad()
def validate(model, loader):
    model.eval()
    for images, labels in loader:
        correct += (model(images).argmax(1) == labels).sum()
""",
    references=("https://pytorch.org/docs/stable/notes/autograd.html#locally-disable-grad-doc",),
)
