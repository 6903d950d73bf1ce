"""What a place says of how much a finding there matters: never called, off by default, loaded already."""

from __future__ import annotations

import ast
import re
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.choices import is_of_other_class, is_other_choice, is_way_of_choice
from gpulint.documents.python import walk
from gpulint.launch.gpu_counts import gpus_of
from gpulint.placement.default_devices import is_on_cpu
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import asked_once, query
from gpulint.semantic import operating_systems, overridden_methods
from gpulint.semantic.failing_calls import fails_each_call
from gpulint.semantic.path_conditions import conditions
from gpulint.training import given_values, passed_options
from gpulint.training.collectives import WRAPPERS, wraps_itself
from gpulint.training.explanations import updates_weights
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.one_item_loops import has_one_round
from gpulint.training.repetition import training_contexts
from gpulint.training.unfinished_loops import stops_unfinished_loop
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name, source_text

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.documents.base import Document
    from gpulint.documents.shell import Command
    from gpulint.project import Project
    from gpulint.source import Span

_GPUS = regex.compile(r"gpu|device_count|device_ids|\bdevices\b", re.IGNORECASE)
_RANK = regex.compile(r"rank|localid|procid|\$\?", re.IGNORECASE)
_DRAWS = ("rand", "randn")
IMAGE_AXES = 4
"""Axes of a batch of images."""
_MEASURES = regex.compile(r"profile|flop|macs|complexity|summary|trace|export", re.IGNORECASE)
"""Names of functions that run a model once to describe it."""
_MADE_UP = regex.compile(r"(^|_)(dummy|random|synthetic)_|_dummy$", re.IGNORECASE)
_STEPS = regex.compile(r"backward\(|Trainer\(|\.fit\(|optimizer")
MAX_USERS = 6
"""Most importing modules that are asked whether they train."""
_WORKS = regex.compile(r"(^|_)(main|train|fit|run|parse_args|DataLoader)", re.IGNORECASE)
"""Calls of programs that do more than try a class."""
_TRAINS = regex.compile(r"train|fit|distributed|ddp|dist\b|gpu|cuda|amp|fp16|rank", re.IGNORECASE)
"""Words of switches that those who train on GPUs set."""


_FOR_CPU = regex.compile(r"^(?!.*(gpu|cuda|offload|to_cpu|from_cpu|2cpu)).*(^|_)cpu(_|$)", re.IGNORECASE)
"""Names of modules and functions that are for machines without GPUs: ``cpu_settings.py``."""


def fails_before(subject: Subject) -> bool:
    """Return whether all calls of the function around the place raise an error, as they do not fit its parameters."""
    module, node = subject.module, subject.node
    return module is not None and node is not None and fails_each_call(subject.project, module, node)


def is_overridden(subject: Subject) -> bool:
    """Return whether a method of a base class holds the place, and each class that is made has one of its own."""
    module, node = subject.module, subject.node
    return module is not None and node is not None and overridden_methods.is_overridden(subject.project, module, node)


def is_for_missing_argument(subject: Subject) -> bool:
    module, node = subject.module, subject.node
    return (
        module is not None and node is not None and given_values.is_for_missing_argument(subject.project, module, node)
    )


def tries_classes(subject: Subject) -> bool:
    """Return whether a place only runs when a module is started that defines classes and updates no weights, to try
    what it defines (``if __name__ == "__main__": print(Net()(torch.randn(2, 3, 32, 32)).shape)``)."""
    module, node = subject.module, subject.node
    if module is None or node is None or not module.classes or subject.jobs:
        return False
    if subject.trains and updates_weights(subject.project, module):
        return False
    block = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.If)), None)
    if block is None or "__main__" not in source_text(module, block.test):
        return False
    called = {last_name(part.func) for part in walk(block) if isinstance(part, ast.Call)}
    own = {owner.name for owner in module.classes}
    own |= {
        target.id
        for part in module.syntax.tree.body
        if isinstance(part, ast.Assign)
        for target in part.targets
        if isinstance(target, ast.Name)
    }  # ``norm = Norm.apply``
    return not called.isdisjoint(own | {function.name for function in module.functions}) and not any(
        _WORKS.search(name) for name in called
    )


def is_for_another_system(subject: Subject) -> bool:
    return (
        subject.module is not None
        and subject.node is not None
        and operating_systems.is_for_another_system(subject.module, subject.node)
    )


def is_off(subject: Subject) -> bool:
    """Return whether a switch between the training loop and the place is off. One around the whole training is not: who
    trains sets it."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    guards = subject.project.fact(Guards)
    if not subject.contexts:
        tests = [*conditions(module, node)]
        other = [(test, holds) for test, holds in tests if not _TRAINS.search(source_text(module, test))]
        return any(guards.is_false_by_default(module, test, holds) for test, holds in other) or (
            len(other) == len(tests) and guards.is_switched_off(module, node)
        )
    for context in subject.contexts:
        places = [(module, node), *((site.module, site.node) for site in context.calls)]
        loop = context.loop.node
        if not any(guards.is_off_by_default(*place, loop) for place in places):
            return False
    return True


def is_for_unpassed_option(subject: Subject) -> bool:
    """Return whether the place runs only for options that no call of the tree passes."""
    module, node = subject.module, subject.node
    return (
        module is not None and node is not None and passed_options.is_for_unpassed_option(subject.project, module, node)
    )


def is_choice(subject: Subject) -> bool:
    """Return whether the place runs only if something else than the default is chosen: around it, on all ways from the
    training loops to it, or where its class is made."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    steps = [context for context in subject.contexts if context.role is Role.STEP]
    return (
        is_other_choice(subject.project, module, node)
        or is_of_other_class(subject.project, module, node)
        or (
            bool(steps)
            and all(
                is_way_of_choice(
                    subject.project, [(site.module, site.node) for site in context.calls], context.loop.node
                )
                for context in steps
            )
        )
    )


def only_infers(subject: Subject) -> bool:
    """Return whether nothing that the module is part of takes training steps."""
    return subject.module is not None and not subject.trains and _only_infers(subject.project, subject.module)


@query
def _only_infers(project: Project, module: ModuleIndex) -> bool:
    if _STEPS.search(module.syntax.source.text):
        return False
    users = islice(project.fact(GpuPrograms).users(module.path), MAX_USERS)
    others = (project.module_at(user) for user in users)
    loops = project.fact(LoopContexts)
    return not any(other is not None and loops.has_training_step(other) for other in others)


def is_for_several_gpus(subject: Subject) -> bool:
    """Return whether a test asks for more than one GPU around the place (``if torch.cuda.device_count() > 1``), and no
    job of the tree holds as many."""
    module, node = subject.module, subject.node
    if module is None or node is None or any((gpus_of(job) or 0) > 1 for job in subject.jobs):
        return False
    return any(
        holds and isinstance(part, ast.Compare) and _asks_for_several(module, part)
        for test, holds in conditions(module, node)
        for part in walk(test)
    )


def _asks_for_several(module: ModuleIndex, test: ast.Compare) -> bool:
    match test.ops, test.comparators:
        case ([ast.Gt()], [ast.Constant(value=1)]) | ([ast.GtE()], [ast.Constant(value=2)]):
            return bool(_GPUS.search(source_text(module, test.left)))
    return False


def is_by_option(subject: Subject) -> bool:
    """Return whether a switch that is off by default leads to the place."""
    module, node = subject.module, subject.node
    return (
        module is not None
        and node is not None
        and subject.project.fact(Guards).is_off_by_default(module, node, several=True)
    )


def is_beside_ddp(subject: Subject) -> bool:
    """Return whether another branch of a test around the place wraps the model in DDP or FSDP, or another statement of
    its function, or of the module's own, does."""
    module, node = subject.module, subject.node
    if module is None or node is None or not wraps_itself(module, subject.project):
        return False
    inner = node
    for up in module.syntax.ancestors(node):
        if isinstance(up, FUNCTIONS):
            return any(last_name(call.func) in WRAPPERS for call in module.calls_of(up))
        if isinstance(up, ast.If):
            other = up.orelse if inner in up.body else up.body
            calls = (part for one in other for part in walk(one) if isinstance(part, ast.Call))
            if any(last_name(call.func) in WRAPPERS for call in calls):
                return True
        inner = up
    return any(last_name(call.func) in WRAPPERS for call in module.calls_of(None))


def has_few_repetitions(subject: Subject) -> bool:
    """Return whether the place runs only on the way out, or in a loop around whole trainings."""
    module, node = subject.module, subject.node
    if module is None or node is None or not subject.contexts:
        return False
    return (
        bool(subject.roles)
        and not all(has_one_round(subject.project, at.loop.module, at.loop.node) for at in subject.contexts)
        and not training_contexts(subject.project, module, node)
        and "evaluation" not in {role.value for role in subject.roles}
    )


def trains_on_made_up_numbers(subject: Subject) -> bool:
    """Return whether the loop around counts its rounds and draws what it trains on at random: ``dummy =
    torch.randn(...)``, or images (``torch.randn(8, 3, 224, 224)``)."""
    module = subject.module
    loops = [context.loop.node for context in subject.contexts if context.loop.module is module]
    counted = [loop for loop in loops if isinstance(loop, ast.For) and _counts(loop)]
    if module is None or not counted:
        return False
    drawn = (call for name in _DRAWS for call in module.calls_by_name.get(name, ()))
    return any(
        any(loop in module.syntax.ancestors(call) for loop in counted) and _is_made_up(module, call) for call in drawn
    )


def _counts(loop: ast.For) -> bool:
    return isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) in ("range", "trange")


def _is_made_up(module: ModuleIndex, drawn: ast.Call) -> bool:
    """Return whether random numbers are called dummies, or have the shape of a batch of images."""
    shape = drawn.args[0].elts if drawn.args and isinstance(drawn.args[0], ast.Tuple | ast.List) else drawn.args
    statement = next((up for up in module.syntax.ancestors(drawn) if isinstance(up, ast.stmt)), None)
    names = statement.targets if isinstance(statement, ast.Assign) else []
    if names and _only_measures(module, last_name(names[0])):
        return False
    whole = [size for size in shape if isinstance(size, ast.Constant) and isinstance(size.value, int)]
    return len(whole) == len(shape) == IMAGE_AXES or any(_MADE_UP.search(last_name(name)) for name in names)


def _only_measures(module: ModuleIndex, name: str) -> bool:
    """Return whether a variable only goes to functions that count operations or layers (``profile(model, (x,))``)."""
    uses = [use for use in module.uses.get(name, ()) if isinstance(use.ctx, ast.Load)]
    calls = [[up for up in module.syntax.ancestors(use) if isinstance(up, ast.Call)] for use in uses]
    return bool(calls) and all(any(_MEASURES.search(last_name(call.func)) for call in around) for around in calls)


def is_one_epoch(subject: Subject) -> bool:
    """Return whether the training around runs once over its data."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    for name in ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs"):
        for use in islice(module.uses.get(name, ()), 3):
            known = subject.project.fact(Constants).of(module, use)
            if known.complete and known.every(lambda value: value == 1):
                return True
    return False


def is_without_gpu(subject: Subject) -> bool:
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    function = module.function(node)
    named = (module.path.stem, function.name if function is not None else "")
    return any(map(_FOR_CPU.search, named)) or subject.project.fact(Guards).is_without_gpu(module, node)


def is_on_cpu_by_default(subject: Subject) -> bool:
    return subject.module is not None and is_on_cpu(subject.project, subject.module)


def names_no_device(subject: Subject) -> bool:
    """Return whether a program of PyTorch names no device anywhere, nor a library that chooses one."""
    return subject.module is not None and subject.project.fact(GpuPrograms).stays_on_cpu(subject.module)


def is_conditional_command(subject: Subject) -> bool:
    """Return whether a command of a script runs only under a condition."""
    return subject.document is not None and subject.is_launcher and may_not_run(subject.document, subject.finding.span)


def may_not_run(document: Document, span: Span) -> bool:
    """Return whether the command in the line of a span runs only under a condition, other than one on the process that
    runs it."""
    return (span.cell, span.line) in _conditional_lines(document)


@asked_once
def _conditional_lines(document: Document) -> frozenset[tuple[int | None, int]]:
    """Cells and lines of the commands that run only under a condition."""
    found = set[tuple[int | None, int]]()
    for command in (command for script in document.scripts for command in script.walk()):
        calls = command.script.calls(command.in_function) if command.in_function else ()
        if _is_conditional(command) or (calls and all(map(_is_conditional, calls))):
            found.add((command.span.cell, command.span.line))
    return frozenset(found)


def _is_conditional(command: Command) -> bool:
    return any(not _RANK.search(block.text) for block in command.conditions)


def is_conditional_stop(subject: Subject) -> bool:
    """Return whether a program stops for a person only under a condition: in the branch for what was not foreseen."""
    module, node = subject.module, subject.node
    return module is not None and node is not None and subject.project.fact(Guards).is_conditional(module, node)


def is_in_unfinished_loop(subject: Subject) -> bool:
    """Return whether a debugger stops a loop that does nothing with what it makes."""
    module, node = subject.module, subject.node
    return module is not None and node is not None and stops_unfinished_loop(subject.project, module, node)
