"""Debug modes that are no part of a usual run: behind an option, in another program, in an image to write code in."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from pathlib import Path

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.launch.idle_commands import session, stays_open
from gpulint.launch.job import Job, JobLaunch
from gpulint.launch.job_index import JobIndex
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.devices import Device
from gpulint.programs.cpu_starts import starts_nothing_on_gpu
from gpulint.programs.environment_variables import EnvironmentSetting, is_explained, settings
from gpulint.programs.evaluation_programs import only_runs_trained_models
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse, Use
from gpulint.project import Project
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

_FOR_WORK = regex.compile(r"(^|[/._-])(\.?dev(container|el(opment)?)?|debug(ging)?)([/._-]|$)", re.IGNORECASE)
"""Names of images to write code in, and of scripts to look for errors; others open a session for that."""
_OTHERS = frozenset({".ipynb", ".json", ".md", ".rst", ".txt", ".csv"})
"""Suffixes of files that set no variables, or whose comments say nothing of it."""
MAX_FILES = 60
"""Most files that are read for comments on a variable."""
_DEBUGS = regex.compile(r"debug|mem_?check|saniti[sz]e|(^|[-_])gdb([-_]|$)", re.IGNORECASE)
"""Names of targets that look for errors."""
_LOOKS_FOR_ERRORS = regex.compile(r"\b(compute-sanitizer|cuda-memcheck|cuda-gdb|-m i?pdb)\b|--debug\b")
"""Debuggers and options of commands that look for errors."""
_TESTS = regex.compile(r"(?<![\w/-])(pytest|py\.test|-m unittest|tox|nox|ctest)(?![\w/-])")
_STARTS = regex.compile(
    r"\bpython[\d.]*\s(?!-m (pytest|unittest|pip)\b)|\b(torchrun|srun|mpirun|accelerate|deepspeed)\b"
)
"""Commands that run tests, and those that may start a training."""
_FOR_CPUS = regex.compile(r"(?<![A-Za-z])cpu(s|nodes?)?(?![A-Za-z])", re.IGNORECASE)
_FOR_GPUS = regex.compile(r"gpu|cuda|tesla|\b[avhl]\d{2,3}", re.IGNORECASE)
"""Names of queues for machines without GPUs, and with some."""
_FOR_DEBUGGING = regex.compile(r"(?i:anomal|debug)|NaN|Nan(?![a-z])")
"""Names of classes that look for errors."""
_PROFILERS = frozenset({"nsys", "ncu", "nv-nsight-cu-cli", "nvprof", "rocprof", "rocprofv2"})


def is_switched_on(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a mode is in a function that is called only where an option asks for it, or something went wrong:
    ``if args.strict: strict_mode()``."""
    function, guards = module.function(node), project.fact(Guards)
    sites = project.fact(Resolver).call_sites(module, function) if function is not None else ()
    return bool(sites) and all(
        guards.is_off_by_default(site.module, site.node)
        or guards.is_debugging(site.module, site.node)
        or guards.is_error_path(site.module, site.node)
        for site in sites
    )


def named_for_mode(project: Project, module: ModuleIndex, node: ast.AST) -> str | None:
    """Return the name of a class around a mode that is there for debugging (``DetectAnomalyHook``) and that no code of
    the tree makes an object of: only settings may name it; else None."""
    owner = module.class_of(node)
    if owner is None or not _FOR_DEBUGGING.search(owner.name):
        return None
    makers = project.python_files_with(owner.name.encode())
    modules = (project.module_at(path) for path in makers)
    made = any(one is not None and one.calls_by_name.get(owner.name) for one in modules)
    return None if made else owner.name


def differentiates_nothing(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether anomaly detection is on in a program that only runs trained models: it checks backward passes."""
    return "anomaly" in last_name(call.func) and only_runs_trained_models(project, module)


def gets_to_programs(project: Project, document: Document, setting: EnvironmentSetting) -> bool:
    """Return whether a variable of a launcher is set where programs that train are started, not for a test before
    them alone; of an image, whether it is one to run jobs in."""
    if document.kind is Kind.DOCKERFILE:
        if not _is_in_image(project, document, setting):
            return False
        commands = (item.command for job in project.fact(JobIndex).jobs_in(document.path) for item in job.commands)
        return not _FOR_WORK.search(document.path.relative_to(project.root).as_posix()) and not any(
            session(command) or stays_open(command) for command in commands
        )
    if _looks_for_errors(document, setting) or _only_tests(document, setting) or _FOR_WORK.search(document.path.name):
        return False
    if document.kind is not Kind.SHELL:
        return True
    index = project.fact(JobIndex)
    jobs = index.jobs_in(document.path)
    starts = [start for job in jobs for start in job.launches if start.script is None]
    if starts and all(_stays_on_cpu(project, start) for start in starts):
        return False
    if starts_nothing_on_gpu(project, document.path) or (jobs and all(map(_is_for_cpus, jobs))):
        return False
    trains = _that_train(project, starts)
    return not trains or any(_is_started_with(start, setting) and not _is_examined(start) for start in trains)


def is_for_some(project: Project, document: Document, setting: EnvironmentSetting) -> bool:
    """Return whether a launcher starts a program with a variable and others that train without it."""
    if document.kind is not Kind.SHELL:
        return False
    jobs = project.fact(JobIndex).jobs_in(document.path)
    starts = _that_train(project, [start for job in jobs for start in job.launches if start.script is None])
    return len({_is_started_with(start, setting) for start in starts}) > 1


def programs_with(project: Project, document: Document, setting: EnvironmentSetting) -> frozenset[Path]:
    """Return the programs that a launcher starts with a variable."""
    starts = (start for job in project.fact(JobIndex).jobs_in(document.path) for start in job.launches)
    return frozenset(start.program for start in starts if start.program and _is_started_with(start, setting))


def _that_train(project: Project, starts: Sequence[JobLaunch]) -> list[JobLaunch]:
    """Return the starts of programs that may train: of those that are known, if there are any."""
    trains = [start for start in starts if _may_train(project, start)]
    return [start for start in trains if project.fact(MultiGpuUse).started(start) is not None] or trains


def _is_started_with(start: JobLaunch, setting: EnvironmentSetting) -> bool:
    """Return whether a start gets a variable, also from its own words."""
    return _gets(start, setting) or start.place.span.line <= setting.span.line <= start.place.span.end_line


def _is_in_image(project: Project, document: Document, setting: EnvironmentSetting) -> bool:
    """Return whether what an image starts gets a variable: not one of a command that builds it, nor one of a stage
    that it is not made from and that no other file names as its target."""
    for task in document.tasks:
        given = any(variable.span == setting.span for variable in task.env)
        if task.role == "main" and (given or task.span.line <= setting.span.line <= task.span.end_line):
            return True
        target = rb"\btarget\b[\"']?[=:\s]{1,9}[\"']?" + re.escape(os.fsencode(task.name)) + rb"\b"
        if given and task.role == "build" and project.is_like_in_other_files(target):
            return True
    return False


def _is_for_cpus(job: Job) -> bool:
    """Return whether a job requests no GPUs, and machines that are called by their CPUs (``--partition=cpu``)."""
    queue = job.task.resources.queue
    return job.gpus is None and _FOR_CPUS.search(queue) is not None and not _FOR_GPUS.search(queue)


def _stays_on_cpu(project: Project, start: JobLaunch) -> bool:
    """Return whether a program that is known uses no GPU."""
    program = project.fact(MultiGpuUse).started(start) if start.program is not None else None
    return program is not None and (program.stays_on_cpu or program.use is Use.NO)


def comes_too_late(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether what the CUDA driver reads once, when the first tensor moves to a GPU, is set after that: in the
    same function, or in one that is only called after it."""
    function = module.function(node)
    if _follows_move(project, module, node):
        return True
    sites = project.fact(Resolver).call_sites(module, function) if function is not None else ()
    return bool(sites) and all(_follows_move(project, site.module, site.node) for site in sites)


def _follows_move(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    function, line = module.function(node), getattr(node, "lineno", 0)
    return any(
        transfer.node.lineno < line
        and module.function(transfer.node) is function
        and (transfer.to_gpu or Device.CUDA in transfer.devices)
        and not project.fact(Guards).is_conditional(module, transfer.node)
        for transfer in project.fact(DeviceTransfers).transfers(module)
    )


def is_in_unused_module(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place at the top of a module is in one that only defines, trains nothing, and that no
    other file names."""
    if module.function(node) is not None or module.path.suffix != ".py" or module.path.name == "__init__.py":
        return False
    parts = [part for part in module.syntax.tree.body if part not in module.syntax.ancestors(node)]
    defined = [part for part in parts if isinstance(part, (*FUNCTIONS, ast.ClassDef))]
    rest = [part for part in parts if part not in defined]
    texts = [part for part in rest if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)]
    return (
        bool(defined)
        and all(part in texts or isinstance(part, ast.Import | ast.ImportFrom | ast.Assign) for part in rest)
        and next(project.fact(GpuPrograms).users(module.path), None) is None
        and not project.fact(MultiGpuUse).of(module.path).trains
        and not _is_named(project, module.path.stem)
    )


@query
def _is_named(project: Project, stem: str) -> bool:
    """Return whether a file that is no Python module may name a module: ``models/camera.py``, ``import camera``,
    ``models.camera``, or the bare word where programs import modules by names that they get."""
    word = os.fsencode(re.escape(stem))
    if any(project.files_with(way) for way in (b"import_module", b"__import__(", b"spec_from_file")):
        return project.is_in_other_files(os.fsencode(stem))
    return project.is_like_in_other_files(rb"[./\\]%s\b|\b%s\.py\b|(\bimport|-m)\s+%s\b" % (word, word, word))


def is_set_for_nobody(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a variable is set where a module is imported, and it is one that nothing of the tree imports."""
    return not any(isinstance(up, ast.If) for up in module.syntax.ancestors(node)) and is_in_unused_module(
        project, module, node
    )


def _gets(start: JobLaunch, setting: EnvironmentSetting) -> bool:
    """Return whether a start gets a variable with the value of a setting, and not that of one further down."""
    given = start.env.get(setting.name)
    return given is not None and given.value in (None, setting.value)


def _is_examined(start: JobLaunch) -> bool:
    """Return whether a command measures a program (``nsys profile``) or looks for errors in it."""
    words = [word.text for word in start.launch.command.argv]
    return not _PROFILERS.isdisjoint(words) or _LOOKS_FOR_ERRORS.search(" ".join(words)) is not None


@query
def is_explained_elsewhere(project: Project, name: str, value: str) -> bool:
    """Return whether a comment gives a reason for a variable where another file of the tree sets it to the same value:
    scripts are copied, and comments get lost."""
    paths = [path for path in project.files_with(name.encode()) if path.suffix not in _OTHERS]
    documents = (project.document(path) for path in paths[:MAX_FILES])
    return any(
        setting.value == value and is_explained(document, setting.span)
        for document in documents
        if document is not None
        for setting in settings(document, project, frozenset({name}))
    )


def _looks_for_errors(document: Document, setting: EnvironmentSetting) -> bool:
    """Return whether a variable is set for one command that looks for errors (``compute-sanitizer``), or by a target
    of that name (``make debug``)."""
    if _LOOKS_FOR_ERRORS.search(document.cell_source(setting.span.cell).line(setting.span.line)):
        return True
    return document.kind is Kind.WORKFLOW and any(
        task.span.line <= setting.span.line <= task.span.end_line and _DEBUGS.search(task.name)
        for task in document.tasks
    )


def _only_tests(document: Document, setting: EnvironmentSetting) -> bool:
    """Return whether what gets a variable runs tests and starts nothing else: its command, its task, or its script."""
    source = document.cell_source(setting.span.cell)
    own = source.line(setting.span.line)
    tasks = [task.span for task in document.tasks if task.span.line <= setting.span.line <= task.span.end_line]
    if not _TESTS.search(own) and document.kind is Kind.SHELL:
        lines = source.text.splitlines()
    elif not _TESTS.search(own) and tasks:
        task = max(tasks, key=lambda span: span.line)
        lines = [source.line(number) for number in range(task.line, task.end_line + 1)]
    else:
        lines = [own]
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return bool(_TESTS.search(text)) and not _STARTS.search(text)


def _may_train(project: Project, start: JobLaunch) -> bool:
    program = project.fact(MultiGpuUse).started(start)
    return start.launch.trains or (start.launch.code is None and (program is None or program.trains))
