"""How often what a finding reports happens: every step, every N steps, in evaluation, once per run."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpulint.assessment.constants import figure, middle
from gpulint.assessment.seldom_places import is_seldom
from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.branches import is_in_branch
from gpulint.training.counted_places import is_at_count
from gpulint.training.full_batches import is_full_batch
from gpulint.training.guards import Guards
from gpulint.training.loader_calls import only_predicts
from gpulint.training.loader_passing import is_kept_from
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.training.own_trainings import MANY, steps_of_round
from gpulint.training.unknown_settings import is_by_unknown_setting
from gpulint.training.warm_up_epochs import is_in_warm_up
from gpulint.workload.data_split import Split, split_of, split_of_loop
from gpulint.workload.sample_preprocessing import is_held_out
from gpulint.workspace.module_index import LOOPS, NodeRef

if TYPE_CHECKING:
    from gpulint.assessment.constants import Kind
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import LoopNode, ModuleIndex

_STOPS = "breakpoint"
_MOST_CALLS = 4
"""Most functions within each other that are followed to where a program calls them."""
SHORT = 0.1
"""Seconds up to which what happens at an unknown place is taken to happen in every step, else in every epoch."""


@dataclass(frozen=True, slots=True)
class Frequency:
    """``per`` is ``step``, ``epoch``, ``evaluation`` or ``run``; it happens in one of ``every``."""

    per: str
    every: float = 1
    stated: bool = False
    """The number is written in the code."""
    at_steps: bool = False
    """Of what ends a run, or holds it up, at whichever step gets there first."""
    repeats: bool = False
    """Of the same, where the program may get there more than once."""
    lasts: bool = False
    """A share of the whole run is lost, not some time in it."""
    in_branch: bool = False
    """A test decides whether a step gets there."""
    single: bool = False
    """Of an evaluation: one batch of each gets there."""
    around: bool = False
    """What counts decides about the whole loop, not about its rounds (``if epoch % 20 == 0: for batch in loader``)."""

    @property
    def phrase(self) -> str:
        """As a part of a sentence."""
        if self.per == "run":
            stops = "at every step" if self.at_steps else "each time the program gets there" if self.repeats else ""
            return "the whole run" if self.lasts else stops or "once per run"
        if self.single:
            return "one batch of each evaluation"
        name = "evaluation batch" if self.per == "evaluation" else self.per
        if self.every == 1:
            return f"every {name}" + (" that gets there" if self.in_branch else "")
        if self.around:
            passes = f", with one pass in {self.every:g} rounds" if self.stated else " of some passes"
            return f"every {name}{passes}"
        several = f"{name}{'es' if name.endswith('batch') else 's'}"
        return f"every {self.every:g} {several}" if self.stated else f"not in every {name}"


def frequency(subject: Subject, kind: Kind) -> Frequency:
    """Return how often it happens."""
    cost = subject.cost
    per = (cost.per if cost is not None else "") or kind.per
    if cost is not None and cost.loader is not None and per in ("step", "place"):
        held_out = draws_held_out(subject.project, cost.loader)
        if held_out or subject.roles == {Role.EVAL}:
            return Frequency("evaluation")
        if per != "place":
            return _of_draws(subject.project, cost.loader, per)
    if cost is not None and cost.per and cost.every > 1:
        return Frequency(per, cost.every, True)
    rare = kind.seconds is not None and middle(kind.seconds) >= SHORT
    if per in ("place", "step") and (found := _around(subject, rare)) is not None:
        # What is set up in front of an epoch's steps concerns each of them.
        if found.per == "step" and found.every == 1 and kind.share is None:
            steps = [context.loop for context in subject.contexts if context.role is Role.STEP]
            return _in_several_steps(subject.project, steps) or found
        return Frequency("step") if kind.share is not None and found == Frequency("epoch") else found
    if per == "evaluation" and _reaches_one_batch(subject):
        return Frequency(per, figure("assumed", "every"), single=True)
    if per != "place":
        stops = cost is not None and cost.kind == _STOPS
        at_steps = per == "run" and stops and Role.STEP in subject.roles
        repeats = per == "run" and stops and _repeats(subject)
        return Frequency(per, at_steps=at_steps, repeats=repeats, lasts=per == "run" and kind.share is not None)
    return Frequency("step" if kind.seconds is None or middle(kind.seconds) < SHORT else "epoch")


def _reaches_one_batch(subject: Subject) -> bool:
    """Return whether the work is done at one count of the loop that the finding marks."""
    done_at = subject.cost.done_at if subject.cost is not None else None
    if done_at is None or subject.node is None:
        return False
    return is_at_count(done_at.module, done_at.node, subject.node)


def _of_draws(project: Project, loader: Loader, per: str) -> Frequency:
    """Return how often a batch of a loader to train with is drawn."""
    if is_drawn_in_few_epochs(project, loader):
        return Frequency(per, figure("assumed", "every_epochs"), around=True)
    draws = [read.where for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)]
    return _in_several_steps(project, draws) or Frequency(per)


def _in_several_steps(project: Project, loops: Sequence[NodeRef]) -> Frequency | None:
    """Return how often loops come round of which each round takes several steps; None if one takes a step a round."""
    steps = [steps_of_round(project, loop.module, loop.node) for loop in loops]
    if not steps or 1 in steps:
        return None
    known = [count for count in steps if count != MANY]
    return Frequency("step", min(known), True) if known else Frequency("step", figure("assumed", "every"))


def _repeats(subject: Subject) -> bool:
    """Return whether a program may get to a place more than once: in a loop, in a method, or in a function that is not
    seen to be called once."""
    module, node = subject.module, subject.node
    for _ in range(_MOST_CALLS):
        if module is None or node is None:
            return False
        if any(isinstance(up, LOOPS) for up in module.syntax.ancestors(node)):
            return True
        function = module.function(node)
        if function is None:
            return False
        sites = [*subject.project.fact(Resolver).first_sites(module, function, 2)]
        if len(sites) != 1 or module.class_of(function) is not None:
            return True
        module, node = sites[0].module, sites[0].node
    return True


def evaluates_once(subject: Subject) -> bool:
    """Return whether a program that trains runs the place in none of its epochs or steps, as far as its calls are
    known."""
    module, node = subject.module, subject.node
    if module is None or node is None or not subject.trains or not subject.roles.isdisjoint({Role.STEP, Role.EPOCH}):
        return False
    function = module.function(node)
    return function is None or bool(subject.project.fact(Resolver).first_sites(module, function, 1))


def may_never_happen(subject: Subject) -> bool:
    """Return whether steps only reach the place under a condition whose outcome the tree does not tell."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    return is_by_unknown_setting(subject.project, module, node, subject.contexts)


def _around(subject: Subject, rare: bool) -> Frequency | None:
    """Return what the loops around the place say. What is ``rare``, for it takes long, is not done in every round: a
    comparison around it holds in few."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return None
    done_at = subject.cost.done_at if subject.cost is not None else None
    places = [(module, node), *([(done_at.module, done_at.node)] if done_at is not None else [])]
    for role, per in ((Role.STEP, "step"), (Role.EPOCH, "epoch"), (Role.EVAL, "evaluation")):
        contexts = [context for context in subject.contexts if context.role is role]
        if not contexts:
            continue
        guards = subject.project.fact(Guards)
        ways = [[*places, *((site.module, site.node) for site in context.calls)] for context in contexts]
        seldom = [[place for place in way if guards.is_periodic(*place) or is_seldom(*place)] for way in ways]
        if rare and per == "step":
            unclear = [
                any(guards.is_conditional(*place, context.loop.node) for place in way if place not in known)
                for context, way, known in zip(contexts, ways, seldom, strict=True)
            ]
            if any(unclear) and all(known or maybe for known, maybe in zip(seldom, unclear, strict=True)):
                return Frequency(per, figure("assumed", "every"))
        once = [
            any(is_at_count(*place, context.loop.node) for place in way)
            for context, way in zip(contexts, ways, strict=True)
        ]
        if per == "evaluation" and all(once):
            return Frequency(per, figure("assumed", "every"), single=True)
        if per == "step" and all(
            at or is_full_batch(context.loop.node) for at, context in zip(once, contexts, strict=True)
        ):
            per, seldom = "epoch", [[place for place in way if _is_rare(guards, place)] for way in seldom]
        branches = per == "step" and all(is_in_branch(subject.project, module, node, one) for one in contexts)
        decided = zip(contexts, seldom, strict=True)
        found = dataclasses.replace(_every(guards, per, seldom), in_branch=branches)
        around = found.every != 1 and per != "epoch"
        around = around and all(_are_around(guards, way, context.loop.node) for context, way in decided)
        return dataclasses.replace(found, around=around)
    return None


def _are_around(guards: Guards, places: Sequence[tuple[ModuleIndex, ast.AST]], loop: ast.AST) -> bool:
    """Return whether places stand in a loop whose rounds all get there, while counts decide whether the loop runs."""
    return all(
        loop in module.syntax.ancestors(node)
        and not guards.is_periodic(module, node, loop)
        and not is_seldom(module, node)
        for module, node in places
    )


def _every(guards: Guards, per: str, seldom: Sequence[Sequence[tuple[ModuleIndex, ast.AST]]]) -> Frequency:
    """Return how often a place is reached, by the conditions on the ways to it that seldom hold."""
    if not all(seldom):
        return Frequency(per)
    counted = [way for way in seldom if not any(is_seldom(*place) for place in way)]  # nothing else is rarer
    known = (guards.interval(*place, sure=True) for way in counted for place in way)
    stated = [found[0] for found in known if found is not None and found[0] > 1]
    if stated:
        return Frequency(per, min(stated), True)
    return Frequency(per, figure("assumed", "every_epochs" if per == "epoch" else "every"))


def _is_rare(guards: Guards, place: tuple[ModuleIndex, ast.AST]) -> bool:
    """Return whether a place is not reached in each epoch, by a count of them or otherwise."""
    return is_seldom(*place) or guards.interval(*place, sure=True) is not None


@query
def draws_held_out(project: Project, loader: Loader) -> bool:
    """Return whether the batches of a loader are only drawn to evaluate."""
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    loops = project.fact(LoopContexts)
    roles = {
        context.role for read in reads for context in loops.enclosing_loops(read.where.module, _inside(read.where.node))
    }
    if _is_for_evaluation(loader) or only_predicts(loader):
        return True
    if Role.STEP in roles:  # perhaps for a function that gives out a loader to train with as well
        return is_held_out(loader.variable) and any(
            _passes_beside(project, read.where)
            or _passes_without_steps(project, loader, read.where)
            or _is_of_phase(read.where)
            for read in reads
        )
    if roles and roles <= {Role.EVAL, Role.EPOCH} and Role.EVAL in roles:
        return True
    function = loader.module.function(loader.node)
    return is_held_out(loader.variable) or (function is not None and is_held_out(function.name))


def _passes_beside(project: Project, read: NodeRef) -> bool:
    """Return whether batches are read by a loop that takes no training steps itself, whatever is around it."""
    loop = read.node
    return isinstance(loop, LOOPS) and project.fact(LoopContexts).role(read.module, loop) in (Role.EVAL, Role.OTHER)


def _is_of_phase(read: NodeRef) -> bool:
    """Return whether a loop reads one of several loaders, by whether a phase trains or evaluates (``for phase in
    ("train", "val"): for batch in loaders[phase]``)."""
    if not isinstance(read.node, ast.For):
        return False
    taken = unwrap_iterable(read.node.iter)
    key = taken.slice if isinstance(taken, ast.Subscript) else None
    return isinstance(key, ast.Name) and split_of_loop(read.module, key) is Split.BOTH


def _passes_without_steps(project: Project, loader: Loader, read: NodeRef) -> bool:
    return isinstance(read.node, LOOPS) and only_evaluates(project, loader, read.module, read.node)


def only_evaluates(project: Project, loader: Loader, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether the function around a loop gets the loader with arguments that keep the loop from training."""
    loops = project.fact(LoopContexts)
    steps = [call for call in loops.calls_in(module, loop) if loops.is_training_step(module, call)]
    return bool(steps) and all(is_kept_from(project, loader, module, step) for step in steps)


@query
@query
def is_drawn_in_few_epochs(project: Project, loader: Loader) -> bool:
    """Return whether a single epoch, or those of a warm-up, draw the batches of a loader: ``if epoch < 1:
    warm_up(loader)``."""
    loops = project.fact(LoopContexts)
    around = [
        (context, [read.where, *context.calls])
        for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)
        for context in loops.enclosing_loops(read.where.module, read.where.node)
        if context.role is Role.EPOCH
    ]
    return bool(around) and all(
        any(
            place.module is context.loop.module
            and (is_at_count(place.module, place.node, loop) or is_in_warm_up(place.module, place.node, loop))
            for place in way
        )
        for context, way in around
        if isinstance(loop := context.loop.node, LOOPS)
    )


def _is_for_evaluation(loader: Loader) -> bool:
    """Return whether a function makes the loader only if it is asked for one to evaluate (``if mode == "test"``), or
    for none to train (``if phase == "train": ... else:``) and for nothing else by name."""
    told = [*_names_asked(loader)]
    asked = [name for name, holds in told if holds]
    if any(map(is_held_out, asked)):
        return is_held_out(loader.variable)
    return not asked and any(split_of(name) is Split.TRAIN for name, _ in told)


def _names_asked(loader: Loader) -> Iterator[tuple[str, bool]]:
    """Yield the strings that conditions around a loader compare something with, and whether it is the same."""
    for test, holds in conditions(loader.module, loader.node):
        match test:
            case ast.Compare(ops=[ast.Eq() | ast.NotEq() as operator], comparators=[ast.Constant(value=str(name))]):
                yield name, holds is isinstance(operator, ast.Eq)


def _inside(node: ast.AST) -> ast.AST:
    """A place that the loop runs."""
    return node.body[0] if isinstance(node, ast.For | ast.AsyncFor | ast.While) else node
