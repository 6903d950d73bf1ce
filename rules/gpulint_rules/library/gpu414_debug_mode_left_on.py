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
(``--accelerator cpu``) or is for machines of that name (``--partition=cpu``), nor one that an image has while it is
built alone, that only tests get (``pytest``), or that is exported where the programs only start on other machines
(``ssh node "torchrun"``) without ``SendEnv``. Anomaly detection around a few steps that try it, or in a trainer that
only runs a model, is not reported either, nor in a program whose files take no gradients. A program without cuDNN loses
nothing where it makes no convolutions and recurrent layers of PyTorch; the impact is low unless a program that runs the
line names some, or a library's models that are made of them. It is low as well for blocking launches beside settings
for reproducible runs or below what initialises CUDA, for anomaly detection by whose errors a loop leaves out steps with
NaN or of a class for debugging that only settings may name, for anomaly detection before Lightning's trainer, which
trains under an option of its own, or in a program that only may take gradients by what it loads by name, in demos that
train nothing, in jobs whose programs run no model, for a variable that only groups of processes read where a launcher
starts several processes but no file of the program forms a group, and for a mode that only a group of processes
switches on (``if distributed:``) where nothing of the tree starts one.

Fix safety
Removing the anomaly mode, blocking launches and the distributed debug mode is safe: results do not change. Unsafe
where this also removes a comment, which may say why the mode is on, among the seeds of a run, and where other lines
still print that the variable is set. An import that nothing else needs goes with it, and so do lines of a script that
only print the variable's state. Where a program sets the same switch in several places, or a script that starts it
does as well, one fix takes all of them, or none. Anomaly detection stays where the program catches the error that it
raises, and blocking launches beside settings for reproducible runs (``CUBLAS_WORKSPACE_CONFIG``,
``use_deterministic_algorithms``). Re-enabling cuDNN is unsafe, since other kernels give other rounding, and left to
you where a comment gives a reason or recurrent layers may be differentiated in ways that cuDNN cannot, or a copy of
the function keeps it off; profilers are left to you.

References
https://pytorch.org/docs/stable/autograd.html#anomaly-detection
https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars
https://pytorch.org/docs/stable/distributed.html#torch-distributed-debug
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.programs.environment_variables import EnvironmentSetting, is_explained, settings
from gpulint.programs.single_gpu import forms_no_group, shows_no_group
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.source import joined
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_rules.library.anomaly_blocks import cost_of, is_around_backward_alone, looks_for_nan
from gpulint_rules.library.caught_errors import leaves_out_steps
from gpulint_rules.library.cudnn_layers import has_layers
from gpulint_rules.library.cudnn_switch import has_a_reason, is_left_off, is_reproducible, switches, together
from gpulint_rules.library.debug_calls import DebugMode, left_on
from gpulint_rules.library.debug_calls import switches as anomaly_switches
from gpulint_rules.library.debug_places import is_explained_elsewhere, is_for_some, named_for_mode
from gpulint_rules.library.debug_variables import LAUNCHES, VARIABLES, set_together, stays_set, switch_of
from gpulint_rules.library.first_cuda_calls import follows_first_call
from gpulint_rules.library.group_modes import cost_in_group
from gpulint_rules.library.lightning_modes import is_replaced
from gpulint_rules.library.shared_switches import Switch, beside, switch
from gpulint_rules.library.without_gradients import takes_none

_MOST = 3
"""Most further lines that a help names."""
_RECORDS = ", which records every operation of the run"
_COSTS = {
    "emit_nvtx": _RECORDS,
    "emit_itt": _RECORDS,
    "profile": _RECORDS,
    LAUNCHES: ", which makes the host wait for each kernel",
    "TORCH_DISTRIBUTED_DEBUG": ", which checks each collective with another one",
}
"""What the modes cost."""
_GUARD = ", or guard it with a debug option that is off by default"
_RUN, _BACKWARD = "for the whole run", "for each backward pass"
_OF_GROUPS = frozenset({"TORCH_DISTRIBUTED_DEBUG"})
"""Those that only a group of processes reads."""

DETERMINISM = regex.compile(r"use_deterministic_algorithms\(True|CUBLAS_WORKSPACE_CONFIG|enable_full_determinism")
"""Settings for reproducible runs."""
_REPRODUCIBLE = Cost("debug-mode", assumed="assuming that reproducible runs do not need it")
_CAUGHT = Cost("debug-mode", assumed="assuming that the program need not leave out the steps with NaN")
_NO_GRADIENTS = Cost("debug-mode", assumed="assuming that the program takes gradients, which no file of it does")
_REPLACED = Cost("debug-mode", assumed="assuming that Lightning's trainer does not switch it off, as from 1.5 on")
_NO_GROUP = Cost(
    "debug-mode", assumed="assuming that the program forms a group of its processes, which no file of it does"
)
_LATE = Cost("debug-mode", assumed="assuming that CUDA still reads the variable after the calls above")
_REPRODUCED = ", and set `torch.backends.cudnn.deterministic = True` if you need reproducible results"
_WITHOUT_CUDNN = Cost("without-cudnn")
_NO_LAYERS = Cost("without-cudnn", assumed="assuming that its models have convolutions or recurrent layers of PyTorch")


def check(document: Document, project: Project) -> Iterator[Finding]:
    yield from _by_settings(document, project)
    module = project.module(document)
    if module is None:
        return
    for call in module.calls:
        if (mode := left_on(document, module, call, project)) is not None:
            own = switch(project, module, call)
            group = next((one for one in anomaly_switches(project) if own in one), [])
            others = beside(own, group)
            yield RULE.finding(
                document.path,
                module.syntax.span(call),
                f"{mode.what} is left on {_BACKWARD if is_around_backward_alone(module, call) else _RUN}",
                help=f"remove {mode.what}{_beside(project, others)}{_does(project, module, call)}{_GUARD}",
                payload=replace(mode, own=own, beside=others),
                cost=cost_in_group(project, module, call) or _cost_of_anomalies(project, module, call),
                cause=group[0].place if group else None,
            )
    yield from _cudnn_off(document, module, project)


def _cost_of_anomalies(project: Project, module: ModuleIndex, call: ast.Call) -> Cost | None:
    """Return the cost of anomaly detection whose errors the program catches to leave out a step, or that a class is
    there for which only settings name, of a program that takes no gradients, or that Lightning's trainer switches off;
    else None."""
    if (owner := named_for_mode(project, module, call)) is not None:
        return Cost("debug-mode", assumed=f"assuming that the settings of a run name `{owner}`")
    if "anomaly" in ast.unparse(call) and takes_none(project, module, call):
        return _NO_GRADIENTS
    if is_replaced(project, module, call):
        return _REPLACED
    looks = "anomaly" in last_name(call.func) and looks_for_nan(project, module, call)
    return _CAUGHT if looks and leaves_out_steps(project, module.path) else None


def _by_settings(document: Document, project: Project) -> Iterator[Finding]:
    """Yield the debug modes that environment variables switch on."""
    for setting in settings(document, project, frozenset(VARIABLES)):
        if setting.value not in VARIABLES[setting.name] or setting.conditional:
            continue
        if is_explained(document, setting.span) or is_explained_elsewhere(project, setting.name, setting.value):
            continue
        if setting.name in _OF_GROUPS and forms_no_group(project, document.path, setting.span):
            continue
        if not stays_set(project, document, setting):
            continue
        own = switch_of(project, document, setting)
        group = next((one for one in set_together(project, setting.name) if own in one), [])
        part = "a part of the" if is_for_some(project, document, setting) else "the whole"
        others = beside(own, group)
        mode = DebugMode(
            setting.name,
            setting.node,
            own=own,
            beside=others,
            value=setting.value if _stays(document, project, setting) else "",
        )
        yield RULE.finding(
            document.path,
            setting.span,
            f"{setting.name}={setting.value} is left on for {part} job",
            help=f"remove `{mode.shown}`{_beside(project, others)}{_COSTS[setting.name]}; "
            "set it manually when you debug",
            payload=mode,
            cause=group[0].place if group else None,
            cost=_cost_of_variable(document, project, setting),
        )


def _stays(document: Document, project: Project, setting: EnvironmentSetting) -> bool:
    """Return whether another line of the file gives the variable a value that switches no debug mode on."""
    return any(
        other.span != setting.span and other.value not in VARIABLES[setting.name]
        for other in settings(document, project, frozenset({setting.name}))
    )


def _cost_of_variable(document: Document, project: Project, setting: EnvironmentSetting) -> Cost | None:
    """Return the cost of a variable that may be set on purpose, or to no effect; else None."""
    if setting.name in _OF_GROUPS and shows_no_group(project, document.path, setting.span):
        return _NO_GROUP
    if setting.name != LAUNCHES:
        return None
    if DETERMINISM.search(document.source.text):
        return _REPRODUCIBLE
    module = project.module(document)
    late = module is not None and setting.node is not None and follows_first_call(project, module, setting.node)
    return _LATE if late else None


def _does(project: Project, module: ModuleIndex, call: ast.Call) -> str:
    """Say what a mode does."""
    return _COSTS.get(last_name(call.func)) or cost_of(project, module, call)


def _also(project: Project, others: Sequence[Switch]) -> str:
    """Return ``, also in a.py:3``: further lines that have to go for any effect."""
    named = [f"{project.place(one.place.path)}:{one.place.span.mark}" for one in others]
    return f", also in {joined(named[:_MOST], len(named[_MOST:]))}" if named else ""


def _beside(project: Project, others: Sequence[Switch]) -> str:
    """Return `` (also in a.py:3)``."""
    also = _also(project, others).removeprefix(", ")
    return f" ({also})" if also else ""


def _cudnn_off(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    for statement in switches(project, module):
        if not is_left_off(project, module, statement):
            continue
        own = switch(project, module, statement)
        group = next((one for one in together(project) if own in one), [])
        others = beside(own, group)
        if any(one.runs_wherever(own) and has_a_reason(project, one) for one in others):
            continue
        also = _also(project, others)
        then = "" if is_reproducible(project, module, statement) else _REPRODUCED
        yield RULE.finding(
            document.path,
            module.syntax.span(statement),
            "cuDNN is switched off",
            help=f"remove the line{also}{then}",
            payload=DebugMode("cuDNN switch", statement, removable=False, own=own, beside=others),
            cause=group[0].place if group else None,
            cost=_WITHOUT_CUDNN if has_layers(project, module, statement) else _NO_LAYERS,
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
    why="a switch for debugging slows every step down",
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
