"""Calls that leave a debugging switch on in usual runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from gpulint import reasons, regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.training.bounded_loops import is_restarted
from gpulint.training.differentiation import takes_gradients
from gpulint.training.guards import Guards, is_benchmark
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_rules.library.anomaly_blocks import fits_nothing, is_around_few_passes, trains_between
from gpulint_rules.library.debug_places import (
    differentiates_nothing,
    is_in_unused_module,
    is_switched_on,
)
from gpulint_rules.library.opposite_switches import always_runs, is_switched_back, runs_with_gradients
from gpulint_rules.library.shared_switches import Switch, grouped, switch
from gpulint_rules.library.without_gradients import is_known_to_take_none

_ANOMALY = frozenset(
    {
        "torch.autograd.set_detect_anomaly",
        "torch.autograd.anomaly_mode.set_detect_anomaly",
        "torch.autograd.detect_anomaly",
    }
)
_NVTX = frozenset({"torch.autograd.profiler.emit_nvtx", "torch.autograd.profiler.emit_itt"})
_PROFILERS = frozenset({"torch.profiler.profile", "torch.autograd.profiler.profile"})
_GUARDS_RUN = regex.compile(
    r"\bnans?\b|\binf(s|inite|inity)?\b|unstable|instabilit|diverg|explod|\bkill\b", re.IGNORECASE
)
"""Words of comments on what a mode protects a run from."""
_WORKS = regex.compile(r"(^|_)(main|train|fit|run|launch|spawn|learn)", re.IGNORECASE)
"""Names of calls that may train."""
_FEW = 20
"""Steps of a run that only tries whether a training works."""
_SETS = regex.compile("set_detect_anomaly")


_ANOMALIES, _OPTION = "anomaly detection", "Trainer(detect_anomaly=True)"
_SWITCHES = ("set_detect_anomaly", "detect_anomaly", "Trainer")


@dataclass(frozen=True, slots=True)
class DebugMode:
    """What is left on, and the node or place that sets it."""

    what: str
    node: ast.AST | None = None
    removable: bool = True
    own: Switch | None = None
    beside: tuple[Switch, ...] = ()
    """The other switches that keep it on in the same programs."""
    value: str = ""
    """That of a variable which another line of the file sets to something else."""

    @property
    def shown(self) -> str:
        """What goes: of a variable that keeps another value, the assignment."""
        return f"{self.what}={self.value}" if self.value else self.what

    def at(self, other: Switch) -> DebugMode:
        """Return the mode as another of its switches sets it: a call, or an option of a trainer."""
        if not isinstance(other.node, ast.Call) or self.what not in (_ANOMALIES, _OPTION):
            return replace(self, node=other.node)
        is_option = last_name(other.node.func) == "Trainer"
        return replace(self, what=_OPTION if is_option else _ANOMALIES, node=other.node, removable=not is_option)


def left_on(document: Document, module: ModuleIndex, call: ast.Call, project: Project) -> DebugMode | None:
    """Return the mode that a call leaves on in usual runs."""
    mode, guards = _mode_of_call(module, call, project), project.fact(Guards)
    if mode is None or not (
        not guards.is_debugging(module, call)
        and not guards.is_off_by_default(module, call)
        and not guards.is_error_path(module, call)
        and not is_switched_on(project, module, call)
        and not differentiates_nothing(project, module, call)
        and not ("anomaly" in mode.what and is_known_to_take_none(project, module, call))
        and not is_in_unused_module(project, module, call)
        and not (mode.removable and is_switched_back(project, module, call, _SETS, _ends(project, module, call)))
        and not _is_wanted(document, module, call, project)
    ):
        return None
    return mode


@query
def switches(project: Project) -> list[list[Switch]]:
    """Return the calls of the tree that switch anomaly detection on in each run that trains, those of one program
    together."""
    paths = (path for path in project.python_files_with(b"detect_anomaly") if path.suffix == ".py")
    return grouped(
        switch(project, module, call)
        for path in paths
        if (document := project.document(path)) and (module := project.module(document)) is not None
        for name in _SWITCHES
        for call in module.calls_by_name.get(name, ())
        if (always_runs(project, module, call) or runs_with_gradients(project, module, call))
        and left_on(document, module, call, project) is not None
    )


def _is_wanted(document: Document, module: ModuleIndex, call: ast.Call, project: Project) -> bool:
    """Return whether only some runs need the mode, and a comment says why (``# unstable without AMP, so stop at the
    first NaN``)."""
    return project.fact(Guards).is_conditional(module, call) and reasons.is_explained(
        document, module.syntax.span(call), more=_GUARDS_RUN, about=_GUARDS_RUN
    )


def _mode_of_call(module: ModuleIndex, call: ast.Call, project: Project) -> DebugMode | None:
    name = last_name(call.func)
    if name in ("set_detect_anomaly", "detect_anomaly"):
        names = project.fact(Resolver).call_names(module, call)
        argument = project.fact(Arguments).value(module, call, "mode", 0)
        on = argument.every(lambda value: value is True) if call.args or call.keywords else name == "detect_anomaly"
        on = on and not _is_ended(module, call, project) and not is_around_few_passes(project, module, call)
        on = on and not _meets_no_backward_pass(module, call, project)
        return DebugMode(_ANOMALIES, call) if names & _ANOMALY and on else None
    if name == "Trainer" and project.fact(Arguments).value(module, call, "detect_anomaly").every(
        lambda value: value is True
    ):
        if _is_tried(module, call, project) or fits_nothing(project, module, call):
            return None
        return DebugMode(_OPTION, call, removable=False)
    if is_benchmark(module.path) or "nvtx" in module.path.stem:
        return None  # a program that is there to be profiled
    if name in ("emit_nvtx", "emit_itt") and project.fact(Resolver).call_names(module, call) & _NVTX:
        return DebugMode(name, call, removable=False) if _around_training(module, call, project) else None
    if name == "profile" and project.fact(Resolver).call_names(module, call) & _PROFILERS:
        bounded = any(keyword.arg in ("schedule", "enabled") or keyword.arg is None for keyword in call.keywords)
        bounded = bounded or bool(call.args)  # the old profiler's `enabled`
        if not bounded and _around_training(module, call, project):
            return DebugMode("the profiler", call, removable=False)
    return None


def _is_tried(module: ModuleIndex, call: ast.Call, project: Project) -> bool:
    """Return whether a trainer of Lightning only tries a few batches, or runs on the CPU: to look for bugs."""
    arguments = project.fact(Arguments)
    if any(
        arguments.value(module, call, name).every(lambda value: type(value) is int and 0 < value <= _FEW)
        for name in ("max_steps", "limit_train_batches", "overfit_batches")
    ):
        return True
    return arguments.value(module, call, "fast_dev_run").every(bool) or arguments.value(
        module, call, "accelerator"
    ).every(lambda value: value == "cpu")


def _ends(project: Project, begun: ModuleIndex, start: ast.Call) -> Callable[[ModuleIndex], Iterator[ast.Call]]:
    """A function that yields the calls of a module that may end anomaly detection before the training."""

    def found(module: ModuleIndex) -> Iterator[ast.Call]:
        for call in module.calls_by_name.get("set_detect_anomaly", ()):
            if module is begun and call.lineno > start.lineno and trains_between(project, module, start, call):
                continue
            if not project.fact(Arguments).value(module, call, "mode", 0).every(lambda value: value is True):
                yield call

    return found


def _is_ended(module: ModuleIndex, call: ast.Call, project: Project) -> bool:
    """Return whether the same function calls ``set_detect_anomaly(False)`` further down, before the training."""
    return any(
        other.lineno > call.lineno
        and module.function(other) is module.function(call)
        and project.fact(Arguments).value(module, other, "mode", 0).every(lambda value: value is False)
        and not trains_between(project, module, call, other)
        for other in module.calls_by_name.get("set_detect_anomaly", [])
    )


def _meets_no_backward_pass(module: ModuleIndex, call: ast.Call, project: Project) -> bool:
    """Return whether the call is in what a module only runs when it is started itself (``if __name__ ==
    "__main__":``), and which runs no backward pass: it tries what others import."""
    block = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.If)), None)
    if block is None or "__main__" not in ast.unparse(block.test) or not module.classes:
        return False
    called = (last_name(part.func) for part in walk(block) if isinstance(part, ast.Call))
    return not any(map(_WORKS.search, called)) and not takes_gradients(project, module, block)


def _around_training(module: ModuleIndex, call: ast.Call, project: Project) -> bool:
    """Return whether the call is the context of a ``with`` that holds a whole epoch or training loop,
    and no loop that stops after a few batches."""
    block = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.With)), None)
    if block is None or not any(item.context_expr is call for item in block.items):
        return False
    inner = set(walk(block))
    loops = [loop for loop in module.loops if loop in inner]
    return any(project.fact(LoopContexts).role(module, loop) is Role.EPOCH for loop in loops) and not any(
        is_restarted(project, NodeRef(module, loop)) for loop in loops
    )
