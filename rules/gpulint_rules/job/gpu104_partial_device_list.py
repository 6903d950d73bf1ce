"""What it detects
A device list that is hard-coded and shorter than what the job requests: ``CUDA_VISIBLE_DEVICES=0`` in a script that
requests four GPUs, ``Trainer(devices=1)``, ``DataParallel(model, device_ids=[0])``.

Recognizes the ``Trainer``, ``Fabric`` and ``LightningLite`` of Lightning, PyTorch's ``DataParallel``, TensorFlow's
``MirroredStrategy``, and the variables of CUDA and ROCm; Slurm, PBS, LSF and SGE directives; job specs of Kubernetes
(with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined, Lightning workflows,
docker-compose and what Python submits. Jobs of Ray are left alone.

Why it costs GPU time
The GPUs outside of the list are held and never used.

When to ignore this rule
One GPU is requested; each of several processes gets its own GPU; the list serves one of several runs that share the
node.

Fix safety
Unsafe: with more devices the global batch grows, and a model that was on one GPU is replicated. Where the command
names no more GPUs than the list (``--num_gpus 4``), the fix requests as many, and where the program has no sign of
using several GPUs, it requests one; there is none where such a sign may be for the CPU's cores alone.
Processes that a launcher starts for the devices grow with them; where they only evaluate, each may go through all
samples, and nothing is changed.

References
https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Sequence

from gpulint import regex
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.gpu_counts import alone, devices, processes
from gpulint.launch.job import Job, JobLaunch, Setting
from gpulint.launch.replaced_defaults import may_be_replaced
from gpulint.numerals import whole
from gpulint.programs.inline_checks import only_looks
from gpulint.programs.multi_gpu_use import MultiGpuUse, Program, Use
from gpulint.programs.unproven_use import of_other_stages
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope
from gpulint.training.guards import Guards
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint.workspace.word_index import word_of
from gpulint_rules.job.idle import idle
from gpulint_rules.job.surplus import limit

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_TRAINERS = {
    "Trainer": ("devices", "gpus", "num_gpus"),
    "Fabric": ("devices",),
    "LightningLite": ("devices",),
    "DataParallel": ("device_ids",),
    "data_parallel": ("device_ids",),
    "MirroredStrategy": ("devices",),
}

_DEVICE = regex.compile(r"""cuda:(\d+)|\bdevice\(["']cuda["'], ?(\d+)|\.cuda\((\d+)""")
_OF_HOSTS = frozenset({"multiprocessing", "Pool", "ProcessPoolExecutor"})
"""Names of processes that most programs use for work of the CPU alone."""
_NUMBER = regex.compile(r"\d+")
_EVALUATES = regex.compile(
    r"--?(do[-_]|run[-_])?(eval(uate|uation)?|test|predict|infer(ence)?)([-_](only|mode))?", re.IGNORECASE
)
"""Flags with which a program only evaluates."""
_TRAINS_OR_DIVIDES = regex.compile(r"--?(do[-_]|run[-_])?(train$|dist(ributed)?[-_]?(eval|test|infer))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Partial:
    """The list as written, where, and how many GPUs there are."""

    place: Place
    gpus: int
    language: str
    request: Place | None = None
    """Where the GPUs are requested, if all that runs uses no more of them than the list has."""
    used: int = 1
    """How many the list has."""
    passed_on: str = ""
    """What of the command names others than the first ones, if anything."""
    doubtful: bool = False
    """Whether each program that runs is one process, in which nothing is known to use several GPUs."""
    processes: tuple[Place, ...] = ()
    """Where a launcher gets a process for each device of the list."""
    evaluates: bool = False
    """More processes may each do all of the work, as the program only evaluates."""


def check(job: Job, project: Project) -> Iterator[Finding]:
    gpus = job.gpus.value if job.gpus is not None else None
    if job.task.role != "main" or gpus is None or gpus < 2 or job.task.resources.fractional:
        return
    if job.task.system == "ray" or _divides_machine(job):
        return
    # A command in `$(...)` only queries something: a free port, a path.
    starts = [
        start
        for start in job.launches
        if start.script is None and not start.launch.command.in_substitution and not only_looks(project, start)
    ]
    shown = {setting.value for start in starts for name in _VISIBLE if (setting := start.env.get(name)) is not None}
    # Where only some of the programs get a list, another one may well use the rest.
    hidden = {name for name in _VISIBLE if all(start.env.get(name) is not None for start in starts)}
    for start in starts:
        if not alone(job, start) or start.launch.command.in_loop or _narrow(start):
            continue
        setting = next((start.env[name] for name in _VISIBLE if name in start.env), None)
        if setting is not None:
            if _is_replaced(project, job, start, setting):
                continue
            if setting.value is not None and len(shown) == 1 and setting.name in hidden:
                yield from _short(project, job, setting, gpus, starts)
            continue
        if start.program is not None and _single(project, job, start):
            yield from _in_program(job, start, gpus, project)


def _is_replaced(project: Project, job: Job, start: JobLaunch, setting: Setting) -> bool:
    """Return whether a list is a default that whoever starts the script replaces: ``CUDA_VISIBLE_DEVICES=${1:-0}``."""
    here = setting.place.path == start.document.path
    return here and may_be_replaced(project, job, start, setting.place.span)


def _divides_machine(job: Job) -> bool:
    """Return whether the services of a file of docker-compose, which run on one machine, name different GPUs of it."""
    if job.task.system != "compose":
        return False
    given = {variable.value for task in job.document.tasks for variable in task.env if variable.name in _VISIBLE}
    return len(given) > 1


def _single(project: Project, job: Job, start: JobLaunch) -> bool:
    """Return whether one process runs on a node."""
    counted = processes(project, job, start)
    return counted is not None and counted[0] == 1


def _narrow(start: JobLaunch) -> bool:
    """Return whether the launcher itself takes only a part of the node's GPUs."""
    return start.launch.gpus is not None or start.launch.uncalled


def _signs(project: Project, job: Job, start: JobLaunch) -> frozenset[str] | None:
    """Return what may spread the one process that a launch starts over GPUs; None if that is not known."""
    program = project.fact(MultiGpuUse).started(start)
    if program is None or not _single(project, job, start) or start.launch.distributed:
        return None
    if program.use is not Use.YES or program.loads_by_name or program.spreads_model:
        return None
    return frozenset(sign.name for sign in program.parallel)


def _evaluates(start: JobLaunch) -> bool:
    """Return whether a launcher starts processes that only evaluate (``torchrun main.py --eval``), and no option says
    that they divide the samples (``--dist_eval``)."""
    words = [word.text for word in start.launch.args]
    flags = [word for at, word in enumerate(words) if at + 1 == len(words) or words[at + 1].startswith("-")]
    return (
        start.launch.distributed
        and any(map(_EVALUATES.fullmatch, flags))
        and not any(map(_TRAINS_OR_DIVIDES.match, words))
    )


def _processes(start: JobLaunch, devices: int) -> Place | None:
    """Return where a launcher gets a process for each device."""
    count = start.launch.processes_per_node
    if count is None or count.value != devices or count.implicit or count.from_default:
        return None
    return Place(start.document.path, count.span) if start.launch.distributed else None


def _short(project: Project, job: Job, setting: Setting, gpus: int, starts: Sequence[JobLaunch]) -> Iterator[Finding]:
    listed = devices(setting.value or "")
    if 0 < len(set(listed)) == len(listed) < gpus:
        message = f"{setting.name}={setting.value} uses {_count(len(listed))} of {gpus} requested"
        advice = f"use all {gpus} GPUs (do not set {setting.name}), or request {len(listed)}"
        found_signs = [_signs(project, job, one) for one in starts]
        known = [one for one in found_signs if one is not None]
        signs = frozenset[str]().union(*known) if len(known) == len(found_signs) else None
        serial = signs is not None and not signs and len(listed) == 1
        evaluates = any(map(_evaluates, starts))
        limits = [one for start in starts if (one := limit(start, len(listed))) is not None]
        # A model may be replicated over all GPUs that are visible, whichever device it starts from.
        limited = len(limits) == len(starts) and (len(listed) > 1 or not signs)
        others = next((one.text for one in limits if one.others), "")
        if limited:
            advice = f"request {len(listed)}: `{limits[0].text}` names no more"
        elif serial:
            advice = f"request 1 GPU (without {setting.name}): the program has no sign of using several"
        elif evaluates:
            advice = f"request {len(listed)}: of more processes, each may go through all samples"
        doubtful = signs is not None and signs <= _OF_HOSTS
        counts = (len(listed), gpus)
        fewer = serial or limited
        found = _finding(job, setting.place, message, counts, "shell", advice, serial=fewer, doubtful=doubtful)
        places = tuple(place for one in starts if (place := _processes(one, len(listed))) is not None)
        assert isinstance(found.payload, Partial)
        payload = dataclasses.replace(found.payload, processes=places, evaluates=evaluates, used=len(listed))
        payload = dataclasses.replace(payload, passed_on=others if limited else "")
        yield dataclasses.replace(found, payload=payload)


def _in_program(job: Job, start: JobLaunch, gpus: int, project: Project) -> Iterator[Finding]:
    assert start.program is not None
    module = project.module_at(start.program)
    if module is None:
        return
    program = project.fact(MultiGpuUse).of(start.program)
    unproven = of_other_stages(project, job, start, gpus)
    for name, keywords in _TRAINERS.items():
        for call in module.calls_by_name.get(name, []):
            for keyword in call.keywords:
                if keyword.arg in keywords and not _conditional(project, module, call):
                    size = _size(project, module, keyword.value)
                    if size is not None and 0 < size < gpus and not _uses_more(project, program, call, gpus):
                        place = Place(module.path, module.syntax.span(keyword.value))
                        text = module.syntax.text(keyword.value)
                        message = f"{name}({keyword.arg}={text}) uses {_count(size)} of {gpus} requested"
                        advice = f"use all {gpus} GPUs, or request {size}"
                        yield _finding(job, place, message, (size, gpus), "python", advice, unproven=unproven)
    for target, value, _ in module.stores.get("environ", []):
        if isinstance(target, ast.Subscript) and value is not None and not _conditional(project, module, target):
            key = target.slice.value if isinstance(target.slice, ast.Constant) else None
            known = project.fact(Constants).of(module, value)
            listed = devices(str(known.constants[0])) if known.complete and len(known.values) == 1 else ()
            if key in _VISIBLE and 0 < len(set(listed)) == len(listed) < gpus:
                place = Place(module.path, module.syntax.span(value))
                message = f"{key}={known.constants[0]!r} uses {_count(len(listed))} of {gpus} requested"
                advice = f"use all {gpus} GPUs (do not set {key}), or request {len(listed)}"
                yield _finding(job, place, message, (len(listed), gpus), "environ", advice, unproven=unproven)


def _uses_more(project: Project, program: Program, call: ast.Call, gpus: int) -> bool:
    """Return whether a program takes other GPUs than those that a call names: with another trainer, that may have them
    all, or as the device of another model (``ema.to("cuda:3")``)."""
    name = last_name(call.func)
    keywords = _TRAINERS[name]
    if "device_ids" in keywords:
        listed = {text for keyword in call.keywords for text in _NUMBER.findall(ast.unparse(keyword.value))}
        return any(
            set(filter(None, match)) - listed for path in program.files for match in _DEVICE.findall(program.text(path))
        )
    for module in program.modules_where(lambda project, path: project.word_index.holds(path, word_of(name))):
        for other in module.calls_by_name.get(name, ()):
            sizes = [_size(project, module, keyword.value) for keyword in other.keywords if keyword.arg in keywords]
            if other is not call and not any(size is not None and size < gpus for size in sizes):
                return True
    return False


def _conditional(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    function = module.function(node)
    return project.fact(Guards).is_conditional(module, node) or (function is not None and "test" in function.name)


def _size(project: Project, module: ModuleIndex, node: ast.expr) -> int | None:
    """Number of devices that a constant names: ``1``, ``[0, 1]``, ``"0,1"``; None where it is unknown or "all"."""
    known = project.fact(Constants).of(module, node)
    if not known.complete or len(known.values) != 1:
        return None
    value = known.constants[0]
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value if value > 0 else None
    if isinstance(value, tuple | list):
        return len(value) or None
    if isinstance(value, str) and "," in value:
        return len(devices(value)) or None
    return whole(value) if isinstance(value, str) and last_name(node) == "" else None


def _count(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def _finding(
    job: Job,
    place: Place,
    message: str,
    counts: tuple[int, int],
    language: str,
    advice: str,
    *,
    serial: bool = False,
    doubtful: bool = False,
    unproven: str = "",
) -> Finding:
    """``counts`` are the GPUs in use and those requested, ``unproven`` what other stages of the job may do."""
    assert job.gpus is not None
    used, gpus = counts
    related = (Place(job.gpus.place.path, job.gpus.place.span, f"{gpus} GPUs are requested here"),)
    payload = Partial(place, gpus, language, job.gpus.place if serial else None, doubtful)
    cost = idle(used, gpus, unproven)
    return RULE.finding(place.path, place.span, message, help=advice, payload=payload, related=related, cost=cost)


RULE = Rule(
    code="GPU104",
    name="partial-device-list",
    category=Category.GPU_OVERSUBSCRIPTION,
    dimension=Dimension.JOB,
    severity=Severity.ERROR,
    kinds=frozenset({Kind.PYTHON, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    scope=Scope.JOB,
    summary="a hard-coded device list is shorter than the job's request",
    why="the GPUs that are not in the list are allocated but never used",
    evidence=(Evidence("GPU Oversubscription is one of the study's fifteen categories of low GPU utilization"),),
    check=check,
    cost=Cost("idle-gpus"),
    fix=Safety.UNSAFE,
    bad="""\
#SBATCH --gres=gpu:4
export CUDA_VISIBLE_DEVICES=0
python train.py
""",
    good="""\
#SBATCH --gres=gpu:4
python train.py
""",
    references=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables",),
)
