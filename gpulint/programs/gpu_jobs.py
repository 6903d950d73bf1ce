"""Which jobs hold GPUs, and the shell commands that run while they do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.base import LAUNCHERS
from gpulint.finding import Place
from gpulint.launch.gpu_counts import gpus_of
from gpulint.launch.image_runs import ImageRuns
from gpulint.launch.job_index import JobIndex
from gpulint.launch.program_launches import is_uncalled
from gpulint.launch.transfer_commands import install_tool, only_prepares, only_tries
from gpulint.libraries.gpu_libraries import PLAIN_COMMANDS
from gpulint.libraries.schedulers import batch_systems
from gpulint.programs.foreign_programs import asks_for_gpus, runs_known_program, trains_where_gpus_are
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse, Use
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.rule import Kind

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.documents.shell import Command
    from gpulint.documents.shell.script import Block
    from gpulint.launch.job import Job, JobCommand, JobLaunch
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_STAGE = regex.compile(r"\$\{?(start_?|stop_?)?stage\b")
_IS_ON = regex.compile(r"""\[\[?\s+["']?\$\{?(\w+)\}?["']?\s+(?:==?|-eq)\s+["']?(?:true|1|yes|y)["']?\s+\]\]?""")
_SETS_UP = regex.compile(
    r"^[ \t]*(?:export[ \t]+NCCL_\w+=|(?:module|ml)[ \t]+(?:load|add)[ \t][^#\n]*\bcuda)", re.MULTILINE
)
_ARGUMENT = regex.compile(r"[\"']?\$\{?([1-9])(?:[:?-][^}]*)?\}?[\"']? in (.+)", re.DOTALL)
MAX_CALLS = 20
"""Calls of one function or script that are looked at."""
_CHECKS = regex.compile(
    r"(^|_)(check|verify|validate|test)_(\w+_)?(install\w*|env\w*|setup|gpus?|cuda|torch|imports?|deps|dependencies)(_|$)"
)
"""Names of programs that only look at what is installed."""
_OFF = frozenset({"false", "0", "no", "n", ""})
_PIPELINE_CALLS = frozenset(
    {"Compiler", "create_run_from_pipeline_func", "create_run_from_pipeline_package", "PipelineJob"}
)
_CPU = regex.compile(r"^(?!.*(gpu|cuda)).*(^|[_-]|run)cpu([_-]|$)")
"""Names of scripts that are for machines without GPUs: ``run_cpu.sh``."""


@dataclass(frozen=True, slots=True)
class GpuJobCommand:
    """A command that runs in ``job`` while its GPUs are held; ``evidence`` says why they are."""

    command: Command
    job: Job
    evidence: Place


def runs_file_of_tree(held: GpuJobCommand) -> bool:
    """Return whether a command runs a file of the tree, in which what it does is reported."""
    starts = held.job.started_by.get(id(held.command), ())
    return any(item.program is not None or item.script is not None for item in starts)


def tests_existence(command: Command) -> bool:
    """Return whether a command only runs where some file is missing (``[ ! -d data ]``)."""
    return any(f" {flag} " in f" {block.text} " for block in command.conditions for flag in ("-d", "-e", "-f", "-s"))


def may_skip(job: Job, document: Document, command: Command) -> bool:
    """Return whether a plain script starts a command only in a stage of a recipe, or if a flag is set that is off.

    Recipes are run by hand, stage by stage, on whatever machine suits it. A batch job holds its GPUs throughout.
    """
    if job.gpus is not None or job.task.system:
        return False
    calls = [item.launch.command for item in job.calls.get(document.path, ())]
    return any(
        _is_stage(block) or _is_off(block, around) for around in (command, *calls) for block in around.conditions
    )


def _compiles_pipeline(module: ModuleIndex) -> bool:
    """Return whether a program only writes down or submits a pipeline of Kubeflow, whose tasks run on other
    machines."""
    return bool(module.calls_by_name.keys() & _PIPELINE_CALLS) and any(
        binding.target.partition(".")[0] == "kfp" for binding in module.imports
    )


def _is_aside(command: Command) -> bool:
    """Return whether a command of a script that installs something only prints, copies or tests, or calls what is
    listed as well."""
    return (
        command.in_substitution
        or command.name in PLAIN_COMMANDS
        or command.name in command.script.functions
        or command.script.nested(command) is not None
    )


def _ways_to(command: Command) -> list[tuple[Block, ...]]:
    """The blocks that a command stands in; of a function's, with those of each of its calls."""
    function = command.in_function
    calls = command.script.calls(function)[:MAX_CALLS] if function else ()
    return [(*command.blocks, *call.blocks) for call in calls] or [command.blocks]


def _least(job: Job) -> int:
    """Return what sorts jobs by their GPUs, the most first."""
    return -(gpus_of(job) or 0)


def _is_not_chosen(job: Job, item: JobCommand) -> bool:
    """Return whether a script that a job calls runs a command only for another argument (``case $1 in cpu)``, called
    with gpu)."""
    calls = job.calls.get(item.document.path, ()) if item.document is not job.document else ()
    return bool(calls) and all(
        any(_is_for_others(block, calls) for block in blocks if block.kind == "case")
        for blocks in _ways_to(item.command)
    )


def _is_for_others(block: Block, calls: tuple[JobLaunch, ...]) -> bool:
    asked = _ARGUMENT.fullmatch(block.text)
    if asked is None:
        return False
    number, patterns = int(asked[1]), [text.strip().strip("\"'") for text in asked[2].split("|")]
    if any(mark in text for text in patterns for mark in "*?[$"):
        return False
    for call in calls[:MAX_CALLS]:
        args = call.launch.args
        given = args[number - 1].value if len(args) >= number else None
        if given is None or given in patterns:
            return False
    return True


def _is_set_up_for_gpus(job: Job) -> bool:
    """Return whether a batch script sets NCCL's variables or loads CUDA. Where nodes come whole, none are asked for by
    number."""
    return job.task.system in batch_systems(job.document.models) and job.document.matches(_SETS_UP)


def _is_stage(block: Block) -> bool:
    return bool(_STAGE.search(block.text))


def _is_off(block: Block, command: Command) -> bool:
    """``install=false`` and then ``if [ "$install" = true ]``."""
    test = _IS_ON.fullmatch(block.text) if block.kind == "if" and block.branch == 0 else None
    if test is None:
        return False
    set_to = [item.value.raw for item in command.script.assignments if item.name == test[1] and item.value is not None]
    return bool(set_to) and all(text.strip("\"'").lower() in _OFF for text in set_to)


class GpuJobs:
    """The jobs of one project that hold GPUs."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    def held_in(self, path: Path) -> list[tuple[Job, Place]]:
        """Jobs of a document that hold GPUs, with what says so."""
        jobs = ((job, self.evidence(job)) for job in self._project.fact(JobIndex).jobs_in(path))
        return [(job, evidence) for job, evidence in jobs if evidence is not None]

    @query
    def evidence(self, job: Job) -> Place | None:
        """Return what says that a job holds GPUs; None if nothing does."""
        with self._project.containing(job.document.path, "GPUs of jobs"):
            return self._evidence(job)
        return None

    def holding(self, program: Path) -> Place | None:
        """Return what requests the GPUs of a job that starts a program, whether the program can use them or not."""
        for launched in sorted(self._project.fact(JobIndex).launches_of(program), key=lambda one: _least(one.job)):
            job, start = launched.job, launched.start
            if start.program != program or start.launch.uncalled or start.launch.submitted:
                continue
            if job.task.role == "session":
                continue  # by hand, whatever it is for
            if tests_existence(start.launch.command):
                continue
            if job.gpus is not None and job.gpus.value and (evidence := self._evidence(job)) is not None:
                return evidence
        return None

    def holding_document(self, launcher: Path) -> Place | None:
        """Return what says that a job which runs a launcher's commands holds GPUs, so that Python within it does."""
        for job in self._project.fact(JobIndex).jobs_with(launcher):
            if job.task.role != "session" and (evidence := self.evidence(job)) is not None:
                return evidence
        return None

    def holding_part(self, file: Path) -> Place | None:
        """The same for a module, which may be the program or one that the program imports, also through others."""
        if self._project.kind(file) in LAUNCHERS:
            return self.holding_document(file)
        if (held := self.holding(file)) is not None or self._project.is_test(file):
            return held
        users = (self.holding(user) for user in self._project.fact(GpuPrograms).users(file))
        return next((held for held in users if held is not None), None)

    @query
    def only_sets_up(self, job: Job) -> bool:
        """Return whether a batch script is there to make an environment, once, on a machine like those that others then
        train on."""
        if job.document.kind is not Kind.SHELL:
            return False
        if any(item.program is not None and item.launch.command.name == "conda" for item in job.launches):
            return False  # `conda run python train.py`
        known = {id(item.launch.command) for items in job.calls.values() for item in items}
        known |= {id(item.launch.command) for item in job.launches if self._tries(item)}
        if not job.task.system:
            known |= {id(item.launch.command) for item in job.launches if only_tries(item.launch.command)}
        installs = any(install_tool(self._project.models, item.command) for item in job.commands)
        return all(
            id(item.command) in known
            or only_prepares(self._project.models, item.command)
            or (installs and _is_aside(item.command))
            for item in job.commands
        )

    def _tries(self, start: JobLaunch) -> bool:
        """Return whether a launch tests what was installed (``python tests/check_install.py``)."""
        path = start.program
        return path is not None and (self._project.is_test(path) or _CHECKS.search(path.stem) is not None)

    @query
    def last_uses(self, job: Job) -> dict[Path | None, int]:
        """Number of the last launch in a job of each program that uses GPUs."""
        return {start.program: number for number, start in enumerate(job.launches) if self.uses_gpu(start)}

    @query
    def commands_of(self, document: Document) -> list[GpuJobCommand]:
        """Return the commands in a document that run in a GPU job, in order; each once, in the job of most GPUs."""
        found: dict[tuple[int, int], GpuJobCommand] = {}
        for job in sorted(self._project.fact(JobIndex).jobs_with(document.path), key=_least):
            evidence = self.evidence(job)
            with self._project.containing(job.document.path, "commands of jobs"):
                for item in job.commands if evidence is not None else ():
                    own = item.document is job.document  # what other scripts source, they may call
                    if job.task.role == "session" and not own:
                        continue
                    if item.document.path != document.path or may_skip(job, item.document, item.command):
                        continue
                    if (item.command.blocks or item.command.in_function) and (
                        _is_not_chosen(job, item) or self._excludes_training(job, item)
                    ):
                        continue
                    if not (own and is_uncalled(item.command)):
                        assert evidence is not None
                        span = item.command.span
                        found.setdefault((span.line, span.column), GpuJobCommand(item.command, job, evidence))
        return sorted(found.values(), key=lambda item: (item.command.span.line, item.command.span.column))

    def _excludes_training(self, job: Job, item: JobCommand) -> bool:
        """Return whether a command of a plain script runs in another branch than all that uses GPUs (``case $1 in
        setup)``)."""
        if job.gpus is not None or job.task.system:
            return False
        total, branches = self._training_branches(job, item.document.path)
        return total > 0 and all(
            any(
                sum(held.values()) == total and block.branch not in held
                for block in blocks
                if block.kind in ("if", "case") and (held := branches.get(block.key)) is not None
            )
            for blocks in _ways_to(item.command)
        )

    @query
    def _training_branches(self, job: Job, path: Path) -> tuple[int, dict[int, dict[int, int]]]:
        """Return how many commands of a document start programs that use GPUs, and how many of them each branch of a
        choice holds."""
        total, branches = 0, dict[int, dict[int, int]]()
        for start in job.launches:
            command = start.launch.command
            if start.document.path != path or not self.uses_gpu(start):
                continue
            calls = command.script.calls(command.in_function)[:1] if command.in_function else ()
            total += 1
            for block in dict.fromkeys((*command.blocks, *(block for call in calls for block in call.blocks))):
                if block.kind in ("if", "case"):
                    held = branches.setdefault(block.key, {})
                    held[block.branch] = held.get(block.branch, 0) + 1
        return total, branches

    def _evidence(self, job: Job) -> Place | None:
        """The GPUs that the job asks for; for a plain script or an image, the GPU program that it launches."""
        if self._is_of_test(job):
            return None
        if job.task.role not in ("main", "init", "session"):
            return None
        if job.gpus is not None:
            if job.gpus.value == 0 or (job.task.only_if_training and not any(map(self.uses_gpu, job.launches))):
                return None
            return Place(job.gpus.place.path, job.gpus.place.span, "the GPUs are held from here on")
        if job.task.system not in ("", "docker") and not _is_set_up_for_gpus(job):
            return None  # scripts and images do not say what machine they are for
        if not job.task.system and (_CPU.search(job.document.path.stem) or self._starts_job(job)):
            return None  # the GPUs, if any, are where that job runs
        start = next((start for start in job.launches if self.uses_gpu(start)), None)
        if start is not None:
            return Place(start.document.path, start.launch.span, "the GPU program that it starts")
        rows = self._project.models.rows("gpu-program")
        known = next((item for item in job.commands if runs_known_program(rows, item)), None)
        if known is not None:
            return Place(known.place.path, known.place.span, "the GPU program that it runs")
        is_image = job.document.kind is Kind.DOCKERFILE
        return self._project.fact(ImageRuns).on_gpus(job.document.path) if is_image else None

    def _is_of_test(self, job: Job) -> bool:
        """Return whether a launcher tests the code: nothing submits it, and it requests no GPUs for a program that
        tests a model (``test_net.sh`` for ``test_net.py``)."""
        project, path = self._project, job.document.path
        if not project.is_test(path) or project.fact(JobIndex).is_submitted(path):
            return False
        return job.gpus is None or not any(
            one.stem.startswith("test_") and not project.is_test(one) for one in job.programs
        )

    def _starts_job(self, job: Job) -> bool:
        """Return whether a plain script starts a job on other machines, whatever its arguments."""
        rows = self._project.models.rows("job-starter")
        return any(not item.command.blocks and runs_known_program(rows, item) for item in job.commands)

    def uses_gpu(self, start: JobLaunch) -> bool:
        """Return whether a launch starts a program that runs on GPUs."""
        if start.launch.submitted or start.launch.uncalled:
            return False
        if start.program is not None:
            module = self._project.module_at(start.program)
            if module is None or _compiles_pipeline(module):
                return False
            return self._project.fact(GpuPrograms).runs_on_gpu(module)
        if start.module is not None:
            text = start.module.source.text.encode("utf-8", "replace")
            program = self._project.fact(MultiGpuUse).started(start)
            computes = self._project.fact(GpuPrograms).words.computes_on_gpu(text)
            return computes and program is not None and program.use is not Use.NO
        return start.launch.trains or asks_for_gpus(start.launch) or trains_where_gpus_are(start.launch, start.document)
