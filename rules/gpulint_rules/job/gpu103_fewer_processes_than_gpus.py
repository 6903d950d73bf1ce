"""What it detects
A job that starts fewer processes on a node than it has GPUs there: ``torchrun --nproc_per_node=4`` in a job that
requests eight, ``accelerate launch --num_processes``, ``deepspeed --num_gpus``, ``mpirun``, ``srun``, ``jsrun``,
``mp.spawn(nprocs=2)``, or one plain ``python`` with a program that is written for one process per GPU. The numbers
are followed through variables, ``${NPROC:-4}`` and scripts that call scripts, and compared with the scheduler's
directives, the job spec, ``CUDA_VISIBLE_DEVICES`` or the setting ``gpus-per-node``.

Recognizes ``torchrun``, ``accelerate launch``, ``deepspeed``, ``horovodrun``, ``mpirun``, ``srun``, ``jsrun``,
``aprun``, ``composer``, ``colossalai run``, ``lightning run`` and ``fabric run``; files of ``accelerate config``;
Slurm, PBS, LSF and SGE directives; job specs of Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack,
Azure ML, SageMaker, Determined, Lightning workflows, docker-compose and what Python submits. Jobs of Ray, Determined
and Lightning start their processes themselves and are left alone.

Why it costs GPU time
A GPU without a process does nothing for as long as the job holds it.

When to ignore this rule
One process drives several GPUs (DataParallel, tensor parallelism, vLLM); an inference engine or another model beside
the processes holds a GPU, as ``use_vllm: true`` says in TRL's recipes and ``--teacher_devices 2,3`` in a command (both
recognized); several launches share the node; the extra GPU is requested only for the memory or the cores that are
allocated with it.

Fix safety
Unsafe: more processes mean a larger global batch, so the learning rate may have to be adjusted. Where nothing in the
program divides work among processes, or the command names no more GPUs (``--gpus 2``), the fix requests fewer GPUs
instead.

References
https://pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.gpu_counts import PER_NODE, alone, processes, visible
from gpulint.launch.job import DeclaredCount, Job, JobLaunch, Launched
from gpulint.libraries.gpu_libraries import Approach
from gpulint.libraries.programs import Spawner
from gpulint.programs.cpu_starts import keeps_on_cpu
from gpulint.programs.multi_gpu_use import MultiGpuUse, Program, Use
from gpulint.programs.side_engines import leaves_gpus_to_others
from gpulint.programs.unproven_use import assumption, has_several_each
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex
from gpulint.workspace.word_index import word_of
from gpulint_rules.job.idle import idle
from gpulint_rules.job.surplus import Surplus, limited, names_more, of_devices, options, surplus

_DRIVES_SEVERAL = frozenset({Approach.ONE_PROCESS, Approach.MODEL, Approach.SPAWN})
_TRAINS = regex.compile(
    r"(?:pre|fine)?_?-?t(?:rain|une)|main_(?:pre|fine)?t(?:rain|une)|run_(?:pre|fine)?t(?:rain|une)"
)
"""Names of programs that train, which one process of a launcher for several does on one GPU."""
_OLD = "torch.distributed.launch"
_LAUNCHERS = frozenset({"torch.distributed.run", _OLD, "torchrun"})
_GROUPED = ("--launcher", "--gpus", "--gpu-ids", "--gpu_ids")
_PASS_ON = "start one process per GPU and pass `--launcher` (`pytorch` for torchrun, `slurm` for tasks of Slurm)"
_SEVERAL = regex.compile(r"\[?\d{1,3}(, ?\d{1,3})+\]?")
"""Numbers of several devices."""
_MODEL_NAMES = frozenset({"device_map", "world_size"})
"""Named by programs that keep a model on one GPU, too."""


@dataclass(frozen=True, slots=True)
class TooFew:
    """Where the number is written, how many processes it gives on a node, and the GPUs there."""

    place: Place
    processes: int
    gpus: int
    launcher: str
    set_at: Place | None = None
    """Where a number stands that the launcher is passed for all machines, if that is elsewhere."""
    old_launcher: bool = False
    """Whether it is the older launcher of PyTorch, which took only numbers before PyTorch 1.9."""


@dataclass(frozen=True, slots=True)
class Found:
    """A launch, the GPUs that it has on a node, how many processes it starts there and where that is written, and what
    is not proven of it."""

    start: JobLaunch
    gpus: DeclaredCount
    counted: tuple[int, Place | None]
    unproven: str

    @property
    def machines(self) -> int:
        """On how many machines the launcher starts the processes that it is told as a total; 1 for anything else."""
        totals = [level.total.value for level in self.start.launch.levels if level.total is not None]
        total = totals[0] if len(totals) == 1 else None
        return total // self.counted[0] if total and total % self.counted[0] == 0 else 1

    @property
    def option(self) -> Place | None:
        """The option that is passed a total which another line sets (``["--num_processes", str(count)]``)."""
        written, words = self.counted[1], self.start.launch.command.argv
        if written is None or self.machines == 1:
            return None
        for flag, word in pairwise(words):
            if word.span == written.span and flag.text.startswith("-") and flag.span.line != word.span.line:
                return Place(written.path, flag.span)
        return None


def check(job: Job, project: Project) -> Iterator[Finding]:
    if job.task.role != "main":
        return
    for start in job.launches:
        gpus = visible(job, start, project.config.gpus_per_node)
        if gpus is None or gpus.value is None or gpus.value < 2 or start.script is not None or not alone(job, start):
            continue
        counted = processes(project, job, start)
        if counted is None or not 0 < counted[0] < gpus.value:
            continue
        if _is_compared(project, job, start, counted[0]) or keeps_on_cpu(project, start):
            continue
        if counted[0] == 1 and _is_told_of_several(start):
            continue
        if counted[0] > 1 and names_more(start, gpus.value, counted[0]):
            continue
        program = project.fact(MultiGpuUse).started(start)
        if leaves_gpus_to_others(project, start, program):
            continue
        if program is not None and counted[0] > 1 and has_several_each(program):
            continue
        unproven = assumption(project, job, start, gpus.value, program, counted[0])
        found = Found(start, gpus, counted, unproven)
        if program is None:
            fewer = limited(start, gpus, counted[0])
            if start.launch.trains and counted[0] > 1:
                yield _finding(found, Severity.ERROR, fewer=fewer)
            elif start.launch.launcher == "torchrun" and counted[1] is not None and _TRAINS.match(_name(start)):
                yield _finding(found, Severity.WARNING, fewer=fewer)
        elif counted[0] == 1 and (option := _launcher_option(job, start, project)) is not None:
            yield _finding(found, Severity.WARNING, at=start.place, evidence=option, advice=_PASS_ON)
        elif program.use is Use.YES and program.trains and not _starts_launcher(program):
            yield from _of_program(found, program, project)


def _is_told_of_several(start: JobLaunch) -> bool:
    """Return whether a program gets a list of several devices (``--device 0,1,2,3``), which it may drive itself."""
    return any(of_devices(option) and _SEVERAL.fullmatch(value) is not None for option, value in options(start))


def _is_compared(project: Project, job: Job, start: JobLaunch, count: int) -> bool:
    """Return whether the job also starts the program with another number of processes, to compare the two or to look at
    what they wrote."""
    others = (one for one in job.launches if one is not start and start.program is not None)
    counts = (processes(project, job, one) for one in others if one.program == start.program)
    return any(found is not None and found[0] != count for found in counts)


def _launcher_option(job: Job, start: JobLaunch, project: Project) -> Place | None:
    """Return where a program of OpenMMLab declares ``--launcher``, with which its processes form a group: without that
    and options for GPUs, it uses one, whatever wraps its model."""
    module = project.module_at(start.program) if start.program is not None else None
    launched = Launched(job, start)
    if module is None or any(word.hole for word in start.launch.args) or launched.option(_GROUPED):
        return None
    found: Place | None = None
    for call in module.calls_by_name.get("add_argument", ()):
        listed, default = keyword_value(call, "choices"), keyword_value(call, "default")
        match call.args, listed, default:
            case [ast.Constant(value="--launcher"), *_], ast.List() | ast.Tuple(), ast.Constant(value="none"):
                if {"none", "pytorch"} <= {part.value for part in listed.elts if isinstance(part, ast.Constant)}:
                    found = Place(module.path, module.syntax.span(call), "without it the program uses one GPU")
            case [ast.Constant(value="--gpus" | "--gpu-ids" | "--gpu_ids"), *_], _, ast.expr():
                if not isinstance(default, ast.Constant) or default.value not in (None, 0, 1):
                    return None
    return found


def _starts_launcher(program: Program) -> bool:
    """Return whether the program starts a launcher itself (``subprocess.call(["torchrun", ...])``)."""
    return any(text in _LAUNCHERS for module in program.modules for text in module.strings)


def _name(start: JobLaunch) -> str:
    return PurePosixPath(start.launch.program or start.launch.module or "").stem


def _of_program(found: Found, program: Program, project: Project) -> Iterator[Finding]:
    start, gpus, counted = found.start, found.gpus, found.counted
    ways = {sign.approach for sign in program.parallel if sign.name not in _MODEL_NAMES}
    spawned = _spawned(program, project)
    if counted[0] == 1 and spawned is not None:
        number, where = spawned
        if number is not None and number < (gpus.value or 0):
            yield _finding(Found(start, gpus, (number, where), found.unproven), Severity.ERROR, where=where)
    elif program.pinned is not None and counted[0] == 1 and not ways & {Approach.ONE_PROCESS, Approach.SPAWN}:
        alone_there = Found(start, gpus, (1, None), found.unproven)
        fewer = surplus(start, gpus, 1, program)
        yield _finding(alone_there, Severity.ERROR, at=gpus.place, evidence=program.pinned, fewer=fewer)
    elif Approach.MODEL in ways or ways & _DRIVES_SEVERAL or _may_hold_more(program, counted[0], ways):
        return
    elif counted[0] > 1 or (start.launch.distributed and Approach.FRAMEWORK not in ways):
        serial = start.launch.launcher == "srun" and not ways and not program.loads_by_name
        fewer = surplus(start, gpus, counted[0], program) if serial else limited(start, gpus, counted[0])
        yield _finding(found, Severity.ERROR, serial=serial, fewer=fewer)
    elif ways == {Approach.PER_PROCESS}:
        yield _finding(found, Severity.WARNING)


def _may_hold_more(program: Program, count: int, ways: set[Approach]) -> bool:
    """Return whether one process may drive all GPUs: by a model that it spreads over them, or in a module that is
    imported by a name from a configuration."""
    return count == 1 and (program.spreads_model or (program.loads_by_name and Approach.PER_PROCESS not in ways))


def _spawned(program: Program, project: Project) -> tuple[int | None, Place] | None:
    """Processes that the program starts itself (``mp.spawn(nprocs=2)``), None where the number is no constant."""
    unknown: tuple[None, Place] | None = None
    for module, keyword in _spawners(program, project):
        known = project.fact(Constants).of(module, keyword.value) if keyword.arg is not None else None
        numbers = [value for value in known.constants if isinstance(value, int)] if known else []
        place = Place(module.path, module.syntax.span(keyword.value))
        if known is not None and known.complete and len(numbers) == 1 == len(known.values):
            return numbers[0], place
        unknown = unknown or (None, place)
    return unknown


def _spawners(program: Program, project: Project) -> Iterator[tuple[ModuleIndex, ast.keyword]]:
    """Yield the arguments for the number of processes that the program starts itself, ``**options`` among them."""
    rows: tuple[Spawner, ...] = project.models.rows("spawner")
    words = frozenset(word_of(word) for row in rows for word in row.words)
    for module in program.modules_where(lambda project, path: project.word_index.holds_one(path, words)):
        for row in rows:
            for call in project.fact(Resolver).calls_to(module, frozenset(row.calls)):
                yield from ((module, keyword) for keyword in call.keywords if keyword.arg in (row.processes, None))


def _finding(
    found: Found, severity: Severity, *, where: Place | None = None, at: Place | None = None,
    evidence: Place | None = None, serial: bool = False, advice: str = "", fewer: Surplus | None = None,
) -> Finding:  # fmt: skip
    """``where`` the processes are started if not by the launch, ``at`` the place to report if not the number's;
    ``serial`` if each of several processes would do the whole work; ``fewer`` what the job could request."""
    start, gpus, (count, written) = found.start, found.gpus, found.counted
    machines, option = found.machines, found.option
    place = at or option or written or start.place
    where = where or start.place
    held = "visible" if "VISIBLE" in gpus.text else "on each node" if gpus.text == PER_NODE else "requested"
    numbers = f"{gpus.value} GPUs {held}"
    severity = min(severity, Severity.WARNING) if gpus.text == PER_NODE else severity
    started, on = "1 process" if count == 1 else f"{count} processes", ""
    starts = f"starts {started}"
    if machines > 1:
        on = f" on each of {machines} machines"
        starts = f"{count * machines} processes on {machines} machines are {count} on each"
    related = [Place(gpus.place.path, gpus.place.span, f"{numbers} here")]
    related += [Place(where.path, where.span, starts)] + ([evidence] if evidence is not None else [])
    if option is not None and written is not None:
        related.append(Place(written.path, written.span, f"{count * machines}, passed as the total of all machines"))
    advice = advice and f"{advice}, or request {count}"
    old = start.launch.launcher == "torchrun" and _OLD in [word.text for word in start.launch.command.argv]
    fixable = written is not None and at is None and where == start.place
    set_at = written if option is not None else None
    more = TooFew(place, count, gpus.value or 0, start.launch.launcher, set_at, old) if fixable and not serial else None
    return RULE.finding(
        place.path,
        place.span,
        f"{numbers} at {_where(gpus.place)}, but {started} started{on} at {_where(where)}",
        help=advice or _advice(found, evidence, serial=serial, limit=fewer.limit if fewer is not None else ""),
        severity=severity,
        payload=fewer or more,
        related=tuple(related),
        cost=idle(count, gpus.value, found.unproven),
    )


def _advice(found: Found, evidence: Place | None, *, serial: bool, limit: str) -> str:
    """Return what to start or to request instead."""
    start, gpus, count, machines = found.start, found.gpus.value or 0, found.counted[0], found.machines
    several = "s" if count > 1 else ""
    if limit:
        return f"request {count} GPU{several}: `{limit}` names no more"
    if start.launch.launcher == "python" or evidence is not None:
        return f"start one process per GPU (`torchrun --nproc_per_node=gpu`, `accelerate launch`), or request {count}"
    if start.launch.launcher == "jsrun":
        return f"request {count} for each resource set (`-g {count}`), or start {gpus} processes in each (`-a`)"
    if serial:
        return f"request {count} GPU{several}: nothing in the program divides work among processes"
    if machines > 1:
        return f"start {gpus * machines} processes in all, or request {count} GPU{several} on each node"
    return f"start {gpus} processes on each node, or request {count} GPU{several}"


def _where(place: Place) -> str:
    return f"{place.path.name}:{place.span.mark}"


RULE = Rule(
    code="GPU103",
    name="fewer-processes-than-gpus",
    former_names=("gpu-oversubscription",),
    category=Category.GPU_OVERSUBSCRIPTION,
    dimension=Dimension.JOB,
    severity=Severity.ERROR,
    kinds=frozenset({Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW, Kind.DOCKERFILE}),
    scope=Scope.JOB,
    summary="fewer processes than GPUs on a node",
    why="a GPU that no process drives is idle for the whole job",
    evidence=(Evidence("4.82% of 706 issues concern the job as a whole, among them more GPUs than the program uses"),),
    check=check,
    cost=Cost("idle-gpus"),
    fix=Safety.UNSAFE,
    bad="""\
#SBATCH --gres=gpu:8
torchrun --nproc_per_node=4 train.py
""",
    good="""\
#SBATCH --gres=gpu:8
torchrun --nproc_per_node=8 train.py
""",
    references=("https://pytorch.org/docs/stable/elastic/run.html",),
)
