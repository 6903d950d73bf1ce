"""What it detects
``os.environ["CUDA_VISIBLE_DEVICES"]`` set after CUDA was initialised by an earlier statement:
``torch.cuda.is_available()``, ``current_device()``, ``.cuda()``, ``.to("cuda")``, ``tf.config.list_logical_devices``,
``jax.devices()``.

Recognizes PyTorch, TensorFlow, JAX and CuPy as what initialises CUDA.

Why it costs GPU time
The driver reads the variable once, at its initialisation. Set later, each process that uses one GPU stays on the
first one, and those that the variable names stay idle. The impact is low where the variable names the first GPU, and
where one process drives all that it sees (``DataParallel``): it takes GPUs from others then, and leaves none idle.

When to ignore this rule
The process that is started next reads the variable; nothing before touches the GPU (``import torch`` and, since
PyTorch 1.13, ``torch.cuda.device_count()`` alone do not: it asks NVML).

Fix safety
Unsafe: the program then runs on the intended devices, which are not those of before.

References
https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.gpu_counts import alone, devices
from gpulint.launch.job import Job, JobLaunch
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.gpu_libraries import Approach
from gpulint.programs.environment_variables import settings
from gpulint.programs.multi_gpu_use import MultiGpuUse, Program
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_rules.library.first_cuda_calls import first_call

_NAMES = frozenset({"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
_SELECTS = {"set_device": frozenset({"torch.cuda.set_device"}), "device": frozenset({"torch.device"})}
_BY_NUMBER = regex.compile(r"\bset_device\((?!0\))|\bdevice_ids=\[(?!0\])|cuda:\{|\.cuda\((?!0\)|\))")
"""How a process selects its GPU."""
_FIRST = (0, "0", "cuda", "cuda:0", "cpu")
"""Devices of a program that has selected none."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    for setting in settings(document, project, _NAMES):
        if setting.node is None or _spawns(module, setting.node):
            continue
        found = first_call(project, module, setting.node)
        if found is None:
            continue
        call, late = found
        if _selects_device(project, module, setting.node) or _keeps(module, setting.node, setting.name):
            continue
        text = module.syntax.text(call).splitlines()[0]
        before = module.syntax.span(call).words
        yield RULE.finding(
            document.path,
            setting.span,
            f"{setting.name} is set after `{text}` has initialised CUDA, so it changes nothing",
            help=f"set {setting.name} before {before}, or in the command that starts the program",
            payload=late,
            cost=_cost(project, module, setting.value),
            related=(Place(document.path, module.syntax.span(call), "CUDA is initialised here"),),
        )


def _cost(project: Project, module: ModuleIndex, value: str | None) -> Cost | None:
    """Low where no GPU is idle: the first one is used as wanted, or all of them are. One process takes
    one GPU as it would take another."""
    if value is not None and devices(value) in ((), ("0",)):
        return Cost("idle-gpus", assumed="assuming that the first GPU is not the one to use")
    program = project.fact(MultiGpuUse).of(module.path)
    signs = {sign.approach for sign in program.parallel} | (
        {Approach.MODEL} if program.spreads_model or _wraps_itself(program) else set()
    )
    if signs & {Approach.ONE_PROCESS, Approach.MODEL}:
        return Cost("idle-gpus", assumed="assuming that others need the GPUs that it takes beyond those named")
    starts = [*project.fact(JobIndex).launches_of(module.path)]
    if starts and all(found.job.gpus is not None and found.job.gpus.value == 1 for found in starts):
        return Cost("idle-gpus", assumed="assuming that the job has other GPUs")
    if (
        starts
        and not signs
        and all(found.job.gpus is not None and _is_only(found.job, found.start) for found in starts)
    ):
        return Cost("idle-gpus", assumed="assuming that other processes use the first GPU")
    if program.mentions(_BY_NUMBER):
        return Cost("idle-gpus", assumed="assuming that no process selects its GPU by number")
    return Cost("first-gpu") if not signs else None


def _is_only(job: Job, start: JobLaunch) -> bool:
    """Return whether one process at a time runs on the GPUs of a job."""
    count = start.launch.processes_per_node
    return alone(job, start) and count is not None and count.value == 1


def _wraps_itself(program: Program) -> bool:
    """Return whether a trainer of transformers uses all GPUs that it sees."""
    return any(sign.name.endswith("TrainingArguments") for sign in program.parallel)


def _selects_device(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether the function around a setting selects its GPU by number as well: ``set_device(rank)``,
    ``torch.device(f"cuda:{rank}")``. No process then stays on the first GPU because of the variable."""
    function = module.function(node)
    calls = (call for name in _SELECTS for call in module.calls_by_name.get(name, ()) if call.args)
    return any(
        module.function(call) is function
        and project.fact(Resolver).call_names(module, call) & _SELECTS.get(last_name(call.func), frozenset())
        and not _may_be_first(project, module, call.args[0], named=last_name(call.func) == "device")
        for call in calls
    )


def _may_be_first(project: Project, module: ModuleIndex, argument: ast.expr, named: bool) -> bool:
    """Return whether an argument may be the first GPU, or whichever one is current; ``named`` if it is the name of a
    device, which may have no number."""
    origins = project.fact(Resolver).points_to(module, argument)
    inner = [ref.node.args[0] if _is_device(ref.node) else ref.node for ref in origins]  # torch.device("cuda")
    if any(isinstance(one, ast.IfExp) for one in inner):
        return True
    if named and not all(isinstance(one, ast.JoinedStr | ast.Constant) for one in inner):
        return True
    known = [project.fact(Constants).of(ref.module, one) for ref, one in zip(origins, inner, strict=True)]
    return any(values.any(lambda value: value in _FIRST) for values in known)


def _is_device(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and last_name(node.func) == "device" and bool(node.args)


def _keeps(module: ModuleIndex, node: ast.AST, name: str) -> bool:
    """Return whether a value is that of before: ``environ[name] = environ.get(name, "0")``."""
    statement = next((up for up in (node, *module.syntax.ancestors(node)) if isinstance(up, ast.stmt)), None)
    return isinstance(statement, ast.Assign) and any(
        isinstance(part, ast.Constant) and part.value == name for part in walk(statement.value)
    )


def _spawns(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether processes are started afterwards, which read the variable when they begin."""
    line = getattr(node, "lineno", 0)
    starters = (
        *("Popen", "run", "Process", "spawn", "check_call", "call", "system", "start", "Pool", "exec", "execv"),
        *("ProcessPoolExecutor",),
    )
    return any(
        call.lineno > line for name in starters for call in module.calls_by_name.get(name, []) if _starts_process(call)
    )


def _starts_process(call: ast.Call) -> bool:
    text = ast.unparse(call.func)
    return (
        text.startswith(("subprocess.", "os.", "mp.", "multiprocessing.", "torch.multiprocessing."))
        or text in ("Process", "Popen", "Pool")
        or last_name(call.func) in ("Process", "Pool", "ProcessPoolExecutor")
    )


RULE = Rule(
    code="GPU412",
    name="visible-devices-set-late",
    category=Category.API_MISUSE,
    dimension=Dimension.LIBRARY,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("VISIBLE_DEVICES",),),
    summary="visible devices are set after CUDA was initialised",
    why="the driver reads the variable only once, so a process on one GPU stays on GPU 0 and those named are idle",
    evidence=(Evidence("API Misuse is one of the study's fifteen categories of low GPU utilization"),),
    check=check,
    cost=Cost("idle-gpus"),
    fix=Safety.UNSAFE,
    bad="""\
import os
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
""",
    good="""\
import os

os.environ["CUDA_VISIBLE_DEVICES"] = "1"
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
""",
    references=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables",),
)
