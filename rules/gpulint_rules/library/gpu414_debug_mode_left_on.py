"""What it detects
Debugging switches left on in a job: ``torch.autograd.set_detect_anomaly(True)`` (also ``detect_anomaly()`` and
Lightning's ``Trainer(detect_anomaly=True)``), ``CUDA_LAUNCH_BLOCKING=1``, ``TORCH_DISTRIBUTED_DEBUG=DETAIL``,
``cudnn.enabled = False``, and ``emit_nvtx`` or a profiler without a schedule around the whole run.

Recognizes PyTorch and Lightning, and the variables in Python, shell scripts, Dockerfiles and job specs.

Why it costs GPU time
Anomaly mode checks every gradient and keeps the stack of every operation; blocking launches make the host wait for
each kernel; the detailed distributed debug mode checks every collective with another one; without cuDNN convolutions
run on slow fallbacks. API misuse is one of the study's 15 categories, in the library dimension (3.97% of 706
issues).

When to ignore this rule
While debugging. A switch behind a debug flag, an option that is off by default, one that each program switches back
later, or a scheduled profiler is not reported, nor is a variable that only groups of processes read where the job holds
one GPU or its program forms no group, nor one of a job without GPUs that tells its program to compute on the CPU
(``--accelerator cpu``). A program without cuDNN loses nothing where it makes no convolutions and
recurrent layers of PyTorch; the impact is low unless a program that runs the line names some, or a library's models
that are made of them. It is low as well for blocking launches beside settings for reproducible runs.

Fix safety
Removing the anomaly mode, blocking launches and the distributed debug mode is safe: results do not change. Unsafe
where this also removes a comment, which may say why the mode is on, and among the seeds of a run. An import that
nothing else needs goes with it. Where several modules of a program switch anomaly detection on, one fix takes all of
them, or none. Anomaly detection stays where the program catches the error that it raises, and
blocking launches beside settings for reproducible runs (``CUBLAS_WORKSPACE_CONFIG``, ``use_deterministic_algorithms``).
Re-enabling cuDNN is unsafe, since other kernels give other rounding, and left to you where a comment gives a reason or
recurrent layers may be differentiated in ways that cuDNN cannot, or a copy of the function keeps it off; profilers are
left to you.

References
https://pytorch.org/docs/stable/autograd.html#anomaly-detection
https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars
https://pytorch.org/docs/stable/distributed.html#torch-distributed-debug
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from gpulint import reasons, regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.programs.environment_variables import is_explained, is_unset_below, settings
from gpulint.programs.single_gpu import forms_no_group
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.points_to import Resolver
from gpulint.training.bounded_loops import is_restarted
from gpulint.training.differentiation import takes_gradients
from gpulint.training.guards import Guards, is_benchmark
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_rules.library.cudnn_layers import has_layers
from gpulint_rules.library.cudnn_switch import is_left_off, switches
from gpulint_rules.library.debug_places import (
    comes_too_late,
    differentiates_nothing,
    gets_to_programs,
    is_explained_elsewhere,
    is_in_unused_module,
    is_switched_on,
)
from gpulint_rules.library.opposite_switches import always_runs, is_switched_back
from gpulint_rules.library.shared_switches import Switch, beside, grouped, switch

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
_LAUNCHES = "CUDA_LAUNCH_BLOCKING"
_VARIABLES = {
    _LAUNCHES: frozenset({"1", "true", "True", "on"}),
    "TORCH_DISTRIBUTED_DEBUG": frozenset({"DETAIL", "detail"}),
}
_CHECKS = ", which checks every gradient and keeps the stack of every operation"
_RECORDS = ", which records every operation of the run"
_COSTS = {
    "set_detect_anomaly": _CHECKS,
    "detect_anomaly": _CHECKS,
    "Trainer": _CHECKS,
    "emit_nvtx": _RECORDS,
    "emit_itt": _RECORDS,
    "profile": _RECORDS,
    _LAUNCHES: ", which makes the host wait for each kernel",
    "TORCH_DISTRIBUTED_DEBUG": ", which checks each collective with another one",
}
"""What the modes cost."""
_GUARD = ", or guard it with a debug option that is off by default"
_FEW = 20
"""Steps of a run that only tries whether a training works."""
_SETS = regex.compile("set_detect_anomaly")
_OF_GROUPS = frozenset({"TORCH_DISTRIBUTED_DEBUG"})
"""Those that only a group of processes reads."""

DETERMINISM = regex.compile(r"use_deterministic_algorithms\(True|CUBLAS_WORKSPACE_CONFIG|enable_full_determinism")
"""Settings for reproducible runs."""
_REPRODUCIBLE = Cost("debug-mode", assumed="assuming that reproducible runs do not need it")
_NO_LAYERS = Cost("debug-mode", assumed="assuming that its models have convolutions or recurrent layers of PyTorch")


@dataclass(frozen=True, slots=True)
class DebugMode:
    """What is left on, and the node or place that sets it."""

    what: str
    node: ast.AST | None = None
    removable: bool = True
    own: Switch | None = None
    beside: tuple[Switch, ...] = ()
    """The switches of other modules that keep it on in the same programs."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    yield from _by_settings(document, project)
    module = project.module(document)
    if module is None:
        return
    for call in module.calls:
        if (mode := _left_on(document, module, call, project)) is not None:
            own = switch(project, module, call)
            group = next((one for one in _switches(project) if own in one), [])
            yield RULE.finding(
                document.path,
                module.syntax.span(call),
                f"{mode.what} is left on for the whole run",
                help=f"remove {mode.what}{_COSTS.get(last_name(call.func), '')}{_GUARD}",
                payload=replace(mode, own=own, beside=beside(own, group)),
                cause=group[0].place if group else None,
            )
    yield from _cudnn_off(document, module, project)


def _left_on(document: Document, module: ModuleIndex, call: ast.Call, project: Project) -> DebugMode | None:
    """Return the mode that a call leaves on in usual runs."""
    mode, guards = _mode_of_call(module, call, project), project.fact(Guards)
    if mode is None or not (
        not guards.is_debugging(module, call)
        and not guards.is_off_by_default(module, call)
        and not guards.is_error_path(module, call)
        and not is_switched_on(project, module, call)
        and not differentiates_nothing(project, module, call)
        and not is_in_unused_module(project, module, call)
        and not (mode.removable and is_switched_back(project, module, call, _SETS, _ends(project)))
        and not _is_wanted(document, module, call, project)
    ):
        return None
    return mode


def _is_switch(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is a statement that switches anomaly detection for the whole process."""
    return last_name(call.func) == "set_detect_anomaly" and isinstance(module.syntax.parents.get(call), ast.Expr)


@query
def _switches(project: Project) -> list[list[Switch]]:
    """Return the calls of the tree that switch anomaly detection on in each run, those of one program together."""
    paths = (path for path in project.python_files_with(b"set_detect_anomaly") if path.suffix == ".py")
    return grouped(
        switch(project, module, call)
        for path in paths
        if (document := project.document(path)) and (module := project.module(document)) is not None
        for call in module.calls_by_name.get("set_detect_anomaly", ())
        if _is_switch(module, call)
        and always_runs(project, module, call)
        and _left_on(document, module, call, project) is not None
    )


def _by_settings(document: Document, project: Project) -> Iterator[Finding]:
    """Yield the debug modes that environment variables switch on."""
    for setting in settings(document, project, frozenset(_VARIABLES)):
        if setting.value not in _VARIABLES[setting.name] or setting.conditional:
            continue
        if is_explained(document, setting.span) or is_explained_elsewhere(project, setting.name, setting.value):
            continue
        if setting.name in _OF_GROUPS and forms_no_group(project, document.path, setting.span):
            continue
        module = project.module(document)
        if module is not None and setting.node is not None:
            if project.fact(Guards).is_debugging(module, setting.node) or is_switched_on(project, module, setting.node):
                continue
            late = setting.name == _LAUNCHES and comes_too_late(project, module, setting.node)
            if late or is_unset_below(document, project, module, setting):
                continue
        elif not gets_to_programs(project, document, setting):
            continue
        yield RULE.finding(
            document.path,
            setting.span,
            f"{setting.name}={setting.value} is left on for the whole job",
            help=f"remove `{setting.name}`{_COSTS[setting.name]}; set it manually when you debug",
            payload=DebugMode(setting.name, setting.node),
            cost=_REPRODUCIBLE if setting.name == _LAUNCHES and DETERMINISM.search(document.source.text) else None,
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
        on = on and not _is_ended(module, call, project) and not _is_around_one_pass(module, call, project)
        on = on and not _meets_no_backward_pass(module, call, project)
        return DebugMode("anomaly detection", call) if names & _ANOMALY and on else None
    if name == "Trainer" and project.fact(Arguments).value(module, call, "detect_anomaly").every(
        lambda value: value is True
    ):
        if _is_tried(module, call, project):
            return None
        return DebugMode("Trainer(detect_anomaly=True)", call, removable=False)
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


def _ends(project: Project) -> Callable[[ModuleIndex], Iterator[ast.Call]]:
    """A function that yields the calls of a module that may end anomaly detection."""

    def found(module: ModuleIndex) -> Iterator[ast.Call]:
        for call in module.calls_by_name.get("set_detect_anomaly", ()):
            if not project.fact(Arguments).value(module, call, "mode", 0).every(lambda value: value is True):
                yield call

    return found


def _is_ended(module: ModuleIndex, call: ast.Call, project: Project) -> bool:
    """Return whether the same function calls ``set_detect_anomaly(False)`` further down."""
    return any(
        other.lineno > call.lineno
        and module.function(other) is module.function(call)
        and project.fact(Arguments).value(module, other, "mode", 0).every(lambda value: value is False)
        for other in module.calls_by_name.get("set_detect_anomaly", [])
    )


def _is_around_one_pass(module: ModuleIndex, call: ast.Call, project: Project) -> bool:
    """Return whether the call is the context of a ``with`` around a backward pass that no loop repeats: a check."""
    block = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.With)), None)
    if block is None or not any(item.context_expr is call for item in block.items):
        return False
    inner = set(walk(block))
    return (
        any(backward in inner for backward in module.calls_by_name.get("backward", ()))
        and not any(loop in inner for loop in module.loops)
        and not project.fact(LoopContexts).enclosing_loops(module, call)
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


def _cudnn_off(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    for statement in switches(project, module):
        if is_left_off(project, module, statement):
            yield RULE.finding(
                document.path,
                module.syntax.span(statement),
                "cuDNN is switched off",
                help=(
                    "remove the line, or set `torch.backends.cudnn.deterministic = True` if you need "
                    "reproducible results"
                ),
                payload=DebugMode("cuDNN switch", statement, removable=False),
                cost=None if has_layers(project, module, statement) else _NO_LAYERS,
            )


RULE = Rule(
    code="GPU414",
    name="debug-mode-left-on",
    category=Category.API_MISUSE,
    dimension=Dimension.LIBRARY,
    severity=Severity.WARNING,
    kinds=frozenset(Kind),
    tokens=(
        (
            "set_detect_anomaly",
            "detect_anomaly",
            "CUDA_LAUNCH_BLOCKING",
            "cudnn",
            "TORCH_DISTRIBUTED_DEBUG",
            "emit_nvtx",
            "emit_itt",
            "profile",
        ),
    ),
    summary="debug switch left on in a GPU job",
    why="a debug mode slows every step down",
    evidence=(Evidence("API misuse is part of the library dimension: 3.97% of 706 issues"),),
    check=check,
    cost=Cost("debug-mode"),
    fix=Safety.SAFE,
    bad="torch.autograd.set_detect_anomaly(True)\n",
    good="torch.autograd.set_detect_anomaly(args.debug)\n",
    references=(
        "https://pytorch.org/docs/stable/autograd.html#anomaly-detection",
        "https://pytorch.org/docs/stable/distributed.html#torch-distributed-debug",
    ),
)
