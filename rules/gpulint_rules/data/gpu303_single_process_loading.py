"""What it detects
A ``torch.utils.data.DataLoader`` (or a loader that forwards to it) without ``num_workers``, or with
``num_workers=0``, whose batches go to a GPU.

Recognizes PyTorch loops, Accelerate, Fabric, Ray Train, Lightning, Determined, Composer and Ignite; the loaders of
torchdata, PyG, DGL, MONAI, Determined and WebDataset; fastai's ``DataLoaders`` if they are set to use no workers;
arguments of a Hugging Face trainer, launchers' options (``--workers 0``) and YAML files of a training with 0 workers.

Why it costs GPU time
Samples are read, decoded and collated in the training process, between two steps, while the GPU waits. Inefficient
host-GPU data transfer is the most frequent category of the study: 27.9% of 706 issues in 400 jobs.

When to ignore this rule
The data set is small and in memory, so that a worker's copy costs more than the work; the stream cannot be split
between processes; the samples are on the GPU already; the data set is not safe to use after a fork.

Fix safety
Unsafe: samples then come from other processes, whose random state, open files and memory are their own, and the number
is a guess unless the launcher says how many cores the job has. Persistent workers draw their seed once instead of at
the start of every epoch, so from the second epoch on the same seed gives another order. Loaders created in the
processes of a ``multiprocessing.Pool`` are not changed, because these processes may not start workers, nor are loaders
in nested loops, for pictures of a few samples, or of functions that make one for each array or item they are given: all
would start their own. Jobs with one core per process get no workers either. An explicit 0 stays if a comment is behind
it, a line that is commented out sets another number, or a command passes it over another default. An option or a
setting of the program that holds a number of workers is used if there is one; a line that is commented out and passes
it is restored. Nothing is changed where workers could not start on Windows or macOS, and the tree says that the program
runs there.

References
https://pytorch.org/docs/stable/data.html#multi-process-data-loading
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.job_index import JobIndex
from gpulint.launch.program_launches import Launch, launches
from gpulint.libraries import gate_words
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.outside_loops import is_moved
from gpulint.programs.drawn_batches import drawn_batch_makers
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions
from gpulint.source import Span
from gpulint.training.collecting_loops import only_collects
from gpulint.training.loader_calls import Loader, loader_argument, only_predicts
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.undrawn_loaders import UndrawnLoaders
from gpulint.values.arguments import Arguments
from gpulint.values.config_files import key_of
from gpulint.values.configured import always_overridden
from gpulint.values.constants import Constants
from gpulint.values.replaced_settings import is_default
from gpulint.values.training_configs import settings
from gpulint.values.unread_settings import is_unread
from gpulint.workload import loaded_sets
from gpulint.workload.converted_samples import takes_time
from gpulint.workload.default_tensors import defaults_to_gpu
from gpulint.workload.gpu_samples import gpu_part
from gpulint.workload.making_commands import settings_of
from gpulint.workload.sample_counts import is_written_out
from gpulint.workload.samples_with_gradients import are_learnt
from gpulint.workload.stream_sets import divides_its_stream
from gpulint.workload.trainer_workers import moves_batches, trainers_without_workers
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_rules.data import drawn_ahead, worker_advice, worker_reasons
from gpulint_rules.data.worker_reasons import is_exception

_WORDS = (
    *gate_words("loader", "batch-maker"),
    *("Loader", "dataloader_num_workers", "prepare_dataloader", "TrainingArguments", "SFTConfig"),
)
_ZERO = regex.compile(r"workers['\"]?:(?:[ \t]*0\b|\s+train(?:ing)?:[ \t]*0\b)", re.IGNORECASE)
_WORKERS = regex.compile(
    r"(^|\.)(num_|n_)?((train_)?(data|dataloader|loader)_)?(num_)?workers(\.train(ing)?)?$", re.IGNORECASE
)
_OPTION = regex.compile(r"--(dataloader[-_]|data[-_]?loader[-_])?(num[-_]?|n[-_]?)?workers|([\w.]+\.)?num_workers")
_PREPARES = regex.compile(r"prepare|preprocess|extract|convert|download|export", re.IGNORECASE)
"""Programs whose workers are no loaders'."""
_ON_CPU = regex.compile(r"(^|=)cpu$")
_STAND_IN = regex.compile(r"debug|smoke|tiny|mock|functional[-_]?test", re.IGNORECASE)
_HELD_OUT = regex.compile(r"val|test|eval|infer|predict", re.IGNORECASE)
_AHEAD = "assuming that the thread that makes batches ahead falls behind"
_UNKNOWN = (0.0005, 0.005)
"""Seconds for a batch of which only the number of workers is seen (assumed). Who writes 0 has often measured it, or
keeps the data in memory."""


@dataclass(frozen=True, slots=True)
class SingleProcess:
    """The loader, and the expression that says 0 workers if there is one."""

    loader: Loader
    workers: NodeRef | None


def check(document: Document, project: Project) -> Iterator[Finding]:
    yield from _commands(document, project)
    module = project.module(document)
    if module is None:
        yield from _configuration(document, project)
        return
    yield from _fastai(document, module, project)
    yield from _arguments(document, module, project)
    for loader in project.fact(LoaderFlow).in_module(module):
        if not loads_in_process(project, loader):
            continue
        argument = loader_argument(project, loader, "num_workers")
        known = [settings_of(project, loader, ref) for ref in argument.refs]
        if any(_divides(ref) or _is_excluded(ref) or is_exception(project, ref) for ref in argument.refs):
            continue  # 0 would stop the program, lead elsewhere, or is for other machines
        if not is_moved(project, loader):
            continue
        if worker_reasons.is_fallback(loader) or worker_reasons.is_tried(loader):
            continue
        if worker_reasons.is_explained(project, loader, argument.refs):
            continue
        if (
            _takes_everything(project, loader)
            or only_collects(project, loader)
            or _is_made_anew(project, loader)
            or project.fact(UndrawnLoaders).only_first_batches(loader.module, loader.node)
        ):
            continue
        if _needs_one_process(project, loader) or not takes_time(project, loader):
            continue
        default = [value for one in known for value in one.values if is_default(project, value)]
        if any(always_overridden(project, key_of(ref.node), ref.module.path) for ref in argument.refs):
            continue
        name = loader.variable
        yield RULE.finding(
            document.path,
            module.syntax.span(loader.node),
            (f"DataLoader '{name}'" if name else "DataLoader")
            + " loads in the training process"
            + worker_advice.said(project, default, known=bool(known)),
            help=worker_advice.advice(project, loader),
            severity=Severity.INFO if default else None,
            payload=SingleProcess(loader, argument.refs[0] if argument.refs else None),
            cost=_cost(project, loader),
            related=worker_advice.notes(project, loader, default, argument.refs),
        )


def _cost(project: Project, loader: Loader) -> Cost:
    assumed = _AHEAD if drawn_ahead.is_made_ahead(project, loader) else ""
    return Cost("in-process-loading", loader=loader, assumed=assumed or loaded_sets.assumption(project, loader))


def _divides(workers: NodeRef) -> bool:
    """Return whether something is divided by the number of workers in its function (``math.ceil(samples / (batch *
    workers))``)."""
    function = workers.module.function(workers.node)
    if function is None or not isinstance(workers.node, ast.Name):
        return False
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Div | ast.FloorDiv)
        and any(isinstance(name, ast.Name) and name.id == workers.node.id for name in walk(part.right))
        for part in walk(function)
    )


def _is_excluded(workers: NodeRef) -> bool:
    """Return whether the loader is in the branch for workers (``if args.workers > 0:``)."""
    text = ast.unparse(workers.node)
    return any(
        isinstance(test, ast.Compare)
        and holds
        and isinstance(test.ops[0], ast.Gt | ast.NotEq)
        and ast.unparse(test) in (f"{text} > 0", f"{text} != 0")
        for test, holds in conditions(workers.module, workers.node)
    )


def _fastai(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """fastai starts a worker per core unless it is told not to, and moves the batches to the GPU itself."""
    for call in drawn_batch_makers(project, module):
        argument = project.fact(Arguments).of(module, call, "num_workers")
        known = project.fact(Arguments).value(module, call, "num_workers")
        if argument.is_absent or not known.every(lambda number: number == 0):
            continue
        yield RULE.finding(
            document.path,
            module.syntax.span(call),
            "fastai's DataLoaders load in the training process (num_workers is 0)",
            help="give it workers, or remove `num_workers`: fastai then uses the machine's cores",
            payload=SingleProcess(Loader(NodeRef(module, call), "fastai.DataLoaders"), argument.refs[0]),
        )


def _arguments(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``TrainingArguments(dataloader_num_workers=0)`` and the configurations that are like it, or arguments without
    workers for a trainer that prepares images or audio."""
    for found in trainers_without_workers(project, module):
        if project.fact(GpuPrograms).runs_on_gpu(module):
            assert isinstance(found.arguments.node, ast.Call)
            yield RULE.finding(
                document.path,
                module.syntax.span(found.arguments.node),
                "the training process loads its batches itself (dataloader_num_workers is 0 by default)",
                help=worker_advice.trainer_advice(found),
                payload=found,
                cost=Cost("in-process-loading", basis=f"{found.work} in the training process"),
                related=tuple(project.fact(Constants).place(*one) for one in worker_advice.trainer_notes(found)),
            )
    for call in module.calls:
        for keyword in call.keywords:
            if keyword.arg != "dataloader_num_workers" or not isinstance(keyword.value, ast.Constant):
                continue
            helps = keyword.value.value == 0 and not moves_batches(project, NodeRef(module, call))
            if helps and project.fact(GpuPrograms).runs_on_gpu(module):
                yield _written(document, module.syntax.span(keyword), "dataloader_num_workers is 0")


def _commands(document: Document, project: Project) -> Iterator[Finding]:
    """``torchrun train.py --workers 0`` in a launcher or in the command of a job."""
    if project.is_test(document.path) or _STAND_IN.search(project.place(document.path)):
        return
    if document.kind is Kind.JOBSPEC:
        held = (task for task in document.tasks if task.resources.gpus is not None and task.resources.gpus.value != 0)
        scripts = [script for task in held for script in task.scripts]
    else:
        scripts = list(document.scripts)
    seen = set[tuple[int | None, int]]()
    for launch in (launch for script in scripts for launch in launches(script)):
        program = Path(launch.program).stem if launch.program else launch.module
        if not program or _PREPARES.search(program) or any(_ON_CPU.search(word.text) for word in launch.args):
            continue
        if document.kind is not Kind.JOBSPEC and not _uses_gpu(document, launch, project):
            continue
        for at, word in enumerate(launch.args):
            name, equals, value = word.text.partition("=")
            following = launch.args[at + 1].value if not equals and at + 1 < len(launch.args) else value
            if following != "0" or not _OPTION.fullmatch(name) or (word.span.cell, word.span.line) in seen:
                continue
            seen.add((word.span.cell, word.span.line))
            if not worker_reasons.is_explained_where_declared(project, document.path, launch, name):
                yield _written(document, word.span, f"{name} is 0", "the program")


def _uses_gpu(document: Document, launch: Launch, project: Project) -> bool:
    """Return whether a command starts a program that uses a GPU, as far as its text or its job tells."""
    jobs = project.fact(GpuJobs)
    linked = project.fact(JobIndex).launches_at(document.path, launch.span)
    return launch.trains or any(jobs.uses_gpu(one.start) or jobs.evidence(one.job) is not None for one in linked)


def _configuration(document: Document, project: Project) -> Iterator[Finding]:
    """``num_workers: 0`` in the configuration file of a training."""
    for key, value, span in settings(document, project, _ZERO, _WORKERS):
        if isinstance(value, bool) or value != 0 or _HELD_OUT.search(key) or is_unread(project, document, key):
            continue
        yield _written(document, span, f"{key} is 0")


def _written(document: Document, span: Span, what: str, process: str = "the training process") -> Finding:
    return RULE.finding(
        document.path,
        span,
        f"{process} loads its batches itself ({what})",
        help="set it to the job's cores per GPU",
        cost=Cost(
            "in-process-loading", seconds=_UNKNOWN, basis="loading samples of an unknown kind in the training process"
        ),
    )


def _takes_everything(project: Project, loader: Loader) -> bool:
    """Return whether all samples are one batch (``batch_size=len(dataset)``) or a few that are written out, or all
    batches are kept in a list, or the data set has read all samples: there is nothing to prepare ahead."""
    if drawn_ahead.is_kept(loader) or is_written_out(project, loader) or loaded_sets.holds_samples(project, loader):
        return True
    size = keyword_value(loader.node, "batch_size")
    given = {ast.unparse(argument) for argument in loader.node.args[:1]}
    return (
        isinstance(size, ast.Call)
        and last_name(size.func) == "len"
        and any(ast.unparse(argument) in given for argument in size.args)
    )


def _is_made_anew(project: Project, loader: Loader) -> bool:
    """Return whether every training step makes the loader, and would start its workers."""
    contexts = project.fact(LoopContexts).enclosing_loops(loader.module, loader.node)
    return any(context.role is Role.STEP for context in contexts)


def _needs_one_process(project: Project, loader: Loader) -> bool:
    """Return whether the loader reads a stream, holds its data on the GPU, samples there itself, makes samples of what
    is trained, or computes samples there, as all tensors may be made there by default."""
    if any(keyword.arg in ("device", "use_uva") for keyword in loader.node.keywords):
        return True
    if (divides := divides_its_stream(project, loader)) is not None:
        return not divides or only_predicts(loader)
    if project.fact(HostToDevice).yields_gpu_tensors(loader) or gpu_part(project, loader):
        return True
    return are_learnt(project, loader) or defaults_to_gpu(project, loader.module, False)


RULE = Rule(
    code="GPU303",
    name="single-process-loading",
    category=Category.HOST_GPU_TRANSFER,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    reads=("loader", "batch-maker"),
    tokens=((*_WORDS, "workers", "WORKERS"),),
    code_tokens=(_WORDS,),
    summary="DataLoader prepares batches in the training process",
    why="the GPU waits while the training process itself reads and collates samples",
    evidence=(Evidence("27.9% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("in-process-loading"),
    fix=Safety.UNSAFE,
    bad="""\
loader = DataLoader(images, batch_size=64, pin_memory=True)
for batch in loader:
    loss = step(batch.cuda(non_blocking=True))
""",
    good="""\
loader = DataLoader(
    images, batch_size=64, pin_memory=True, num_workers=8, persistent_workers=True
)
for batch in loader:
    loss = step(batch.cuda(non_blocking=True))
""",
    references=("https://pytorch.org/docs/stable/data.html#multi-process-data-loading",),
)
