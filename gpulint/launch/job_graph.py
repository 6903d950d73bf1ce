"""Linking: from the tasks of launcher documents to the scripts they call and the programs they start."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.budget import Budget
from gpulint.documents.base import Document
from gpulint.documents.tasks import Count, Task
from gpulint.launch import task_runners
from gpulint.launch.accelerate_configs import config_file
from gpulint.launch.command_environment import Layered
from gpulint.launch.job import DeclaredCount, Job, JobCommand, JobLaunch, Setting
from gpulint.launch.job_settings import (
    SettingValues,
    declared_count,
    declared_settings,
    exported_settings,
    scheduler_settings,
    script_settings,
    sourced_settings,
)
from gpulint.launch.path_resolution import Located, PathResolver
from gpulint.launch.program_launches import Launch, launches
from gpulint.launch.submission_overrides import submitted
from gpulint.launch.submitting import submitting_files
from gpulint.launch.task_joins import TaskJoins
from gpulint.launch.template_values import default_count
from gpulint.records import dataclass, field
from gpulint.rule import Kind

if TYPE_CHECKING:
    from gpulint.documents.python import PythonModule
    from gpulint.documents.shell import Script
    from gpulint.project import Project
    from gpulint.source import Span

MAX_CALLS = 6
"""Depth to which scripts that call scripts are followed."""
LINKING = "job linking"
MAX_SCRIPTS = 60
"""Most scripts of one job."""
MAX_FOLLOWED = 20_000
"""Commands, assignments and variables that one job takes over from the scripts that it calls."""
MAX_LINKED, MAX_LINKED_PER_FILE = 20_000, 100
"""The same for all jobs of a tree."""
_RUNS = regex.compile(
    rb"python|torchrun|accelerate|deepspeed|horovodrun|mpirun|mpiexec|srun|jsrun|\.py\b|\.sh\b|jupyter|code-server"
    rb"|sleep|tail -f|#SBATCH|#PBS|#BSUB|#\$[ -]|CUDA_VISIBLE|docker|singularity|apptainer|composer|salloc|sinter|sintr"
    rb"|interact |condor_submit|colossalai|qlogin|qsub -I|bsub|marimo|ttyd"
    rb"|sshd|bash|source |sbatch|kubectl|runai|oarsub|commandline|eval |make |dvc |vesslctl|vllm|llamafactory|axolotl"
    rb"|nnUNet|lm_eval|tune run|trl |yolo "
)
"""A shell script without any of these starts nothing that a rule asks about."""
_STARTS = ("launcher", "scheduler", "submitter", "gpu-program", "task-runner", "installer", "downloader", "hub-program")
"""Kinds of rows on programs and directives of scripts."""
_CONCERNS = regex.compile(
    rb"gpu|accelerator|nvidia|cuda|rocm|amd\.com|torchrun|deepspeed|horovod|mpirun|slots_|instance_?type|\.py\b|\.sh\b|notebook|ide:",
    re.IGNORECASE,
)
"""A job spec without any of these holds no GPU and starts no file of the tree."""
_NOTEBOOK_GPU = regex.compile(rb"\"accelerator\":\s*\"(?:GPU|nvidia|gpu)|\"gpuType\"|\"isGpuEnabled\":\s*true")
"""A notebook without any of these asks for no GPU."""


def is_launcher(project: Project, path: Path) -> bool:
    """Return whether a file may launch something, by its name and bytes alone."""
    kind = project.kind(path)
    if kind is Kind.DOCKERFILE:
        return True
    if kind not in (Kind.SHELL, Kind.WORKFLOW, Kind.JOBSPEC, Kind.NOTEBOOK):
        return False
    data = project.data(path)
    if kind is Kind.JOBSPEC:
        return bool(_CONCERNS.search(data))
    if kind is Kind.NOTEBOOK:
        return bool(_NOTEBOOK_GPU.search(data)) and b".py" in data
    if any(word.encode() in data for word in project.models.added_words(_STARTS)):
        return True
    return bool(_RUNS.search(data)) and (kind is Kind.SHELL or bool(_CONCERNS.search(data)))


@dataclass
class _Walk:
    """What one job turns out to run."""

    commands: list[JobCommand] = field(default_factory=list)
    launches: list[JobLaunch] = field(default_factory=list)
    env: list[Setting] = field(default_factory=list)
    scripts: list[Document] = field(default_factory=list)
    active: set[Path] = field(default_factory=set)
    budget: Budget = field(default_factory=lambda: Budget(MAX_FOLLOWED))


class JobLinker:
    """Builds the jobs of one project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.locator = PathResolver(project)
        self.joins = TaskJoins(project, self.locator)
        self.submissions: dict[Path, list[tuple[Document, Launch]]] = {}
        self.failed: set[Path] = set()
        """Scripts whose commands could not be followed; they are not tried again for each caller."""
        self.budget = Budget(MAX_LINKED + MAX_LINKED_PER_FILE * len(project.files))

    def jobs(self) -> tuple[Job, ...]:
        """All jobs. A script that others call is a job of its own only if it has scheduler directives."""
        found: list[Job] = []
        submitting = submitting_files(self.project)
        for path in self.project.files:
            document = None
            with self.project.containing(path, LINKING):
                launches = path in submitting or is_launcher(self.project, path)
                document = self.project.document(path) if launches else None
            for task in document.tasks if document is not None else ():
                assert document is not None
                with self.project.containing(path, LINKING):
                    if task.role != "build":
                        found.append(self.job(document, task))
        sent = (job for job in found if job.task.role != "session")
        reached = {job.document.path: {script.path for script in job.scripts} for job in sent}
        called: dict[Path, set[Path]] = {}
        for caller, scripts in reached.items():
            for script in scripts - {caller}:
                called.setdefault(script, set()).add(caller)
        return tuple(
            submitted(job, self.submissions.get(job.document.path, ()))
            for job in found
            if job.document.kind is not Kind.SHELL
            or job.task.system
            or not any(job.document.path not in called.get(caller, ()) for caller in called.get(job.document.path, ()))
        )

    def job(self, document: Document, task: Task) -> Job:
        walk = _Walk()
        env = declared_settings(document, task)
        for script in task.scripts:
            env |= exported_settings(document, script)
        walk.env += env.values()
        env = scheduler_settings(document, task) | env
        scripts, home = task.scripts, document
        image: Document | None = None
        if not scripts and task.role == "main" and (found := self.joins.commands(document, task)) is not None:
            home, inner = found
            image = home if home.kind is Kind.DOCKERFILE else None
            scripts, task_dir = inner.scripts, inner.working_dir
            env = declared_settings(home, inner) | env
        else:
            task_dir = task.working_dir
        walk.scripts.append(document)
        start = self._start(document, task_dir)
        if task.system == "determined" and (hook := self._hook(document)) is not None:
            walk.scripts.append(hook)
            for script in hook.scripts:
                self.script(walk, hook, script, env, document.path.parent, None, MAX_CALLS)
        for script in scripts:
            self.script(walk, home, script, env, start, task_dir, MAX_CALLS)
        if task.requirements is not None:
            task = replace(task, packages=(*task.packages, *self._required(walk, *task.requirements)))
        origin, resources = self.joins.resources(document, task)
        return Job(
            document,
            task,
            gpus=self._gpus(origin, resources.gpus),
            cpus=declared_count(origin, resources.cpus),
            nodes=declared_count(document, task.resources.nodes),
            tasks_per_node=declared_count(document, task.resources.tasks_per_node),
            env=tuple(dict.fromkeys(walk.env)),
            commands=tuple(walk.commands),
            launches=tuple(walk.launches),
            scripts=tuple(walk.scripts),
            image=image,
        )

    def script(
        self,
        walk: _Walk,
        document: Document,
        script: Script,
        env: Mapping[str, Setting],
        start: Path | None,
        folder: str | None,
        depth: int,
    ) -> None:
        """Take up the commands and launches of one piece of shell; ``folder`` is a declared working directory."""
        known = {name: item.value for name, item in env.items() if item.value is not None}
        walk.commands += [JobCommand(command, document) for command in script.walk()]
        walk.env += script_settings(document, script, known)
        sources = any(command.words[0].value in ("source", ".") for command in script.walk())
        for launch in launches(script, known) if sources else ():
            if launch.launcher == "source" and (found := self._file(launch, document, start, folder)) is not None:
                sourced = self._called(found[0], depth)
                if sourced is not None and self._affords(walk, sourced):
                    walk.budget.spend(len(env))
                    env = {**env, **sourced_settings(sourced, known)}
                    known = {name: item.value for name, item in env.items() if item.value is not None}
        self._run_tasks(walk, document, script, env, start, depth)
        for launch in launches(script, known):
            found = self._file(launch, document, start, folder)
            own = Layered(SettingValues(launch, document), env)
            if launch.launcher == "sbatch":
                if found is not None:
                    self.submissions.setdefault(found[0], []).append((document, launch))
                continue
            called = self._called(found[0], depth) if found is not None else None
            if called is not None:
                walk.launches.append(JobLaunch(launch, document, env=own, script=called))
                here = self.locator.folder(launch.working_dir, found[1] if found is not None else start, document.path)
                self._follow(walk, called, walk.launches[-1], here, depth)
                continue
            if launch.launcher == "source":
                continue
            program = found[0] if found is not None and found[0].suffix == ".py" else None
            module = self._carried(launch, document) if program is None else None
            config = config_file(self.locator, launch, document, start)
            walk.launches.append(JobLaunch(launch, document, program, module, own, config))

    def _follow(self, walk: _Walk, called: Document, start: JobLaunch, here: Path | None, depth: int) -> None:
        """The commands of a script that the job calls, with the arguments of the call."""
        if called.path in walk.active or called.path in self.failed or len(walk.scripts) > MAX_SCRIPTS:
            return
        if not self._affords(walk, called):
            return
        walk.active.add(called.path)
        walk.scripts.append(called)
        outer = {name: item for name, item in start.env.items() if not name.isdigit()}
        walk.budget.spend(len(outer))
        numbered = {str(at): Setting(str(at), word.value, start.place) for at, word in enumerate(start.launch.args, 1)}
        try:
            for script in called.scripts:
                self.script(walk, called, script, {**outer, **numbered}, here, None, depth - 1)
        except Exception as error:
            self.failed.add(called.path)
            self.project.fail(called.path, LINKING, error)
        walk.active.discard(called.path)

    def _run_tasks(
        self,
        walk: _Walk,
        document: Document,
        script: Script,
        env: Mapping[str, Setting],
        start: Path | None,
        depth: int,
    ) -> None:
        """The commands of tasks that the script has a runner such as ``make`` run."""
        if depth <= 0:
            return
        for described, task in task_runners.tasks(self.project, self.locator, document, script, start):
            if described.path in walk.active or len(walk.scripts) > MAX_SCRIPTS or not self._affords(walk, described):
                continue
            walk.active.add(described.path)
            walk.scripts.append(described)
            own = {**env, **declared_settings(described, task)}
            walk.budget.spend(len(own))
            for inner in task.scripts:
                self.script(walk, described, inner, own, start, None, depth - 1)
            walk.active.discard(described.path)

    def _affords(self, walk: _Walk, called: Document) -> bool:
        """Return whether a job may take up the commands of one more script; where it may not, a note says so."""
        cost = 10 + sum(len(script.commands) + len(script.assignments) for script in called.scripts)
        was_left = not walk.budget.exhausted
        if walk.budget.spend(cost) and self.budget.spend(cost):
            return True
        if was_left:
            caller = walk.scripts[0]
            caller.problem(f"{called.path.name} and later calls of scripts were not followed: too many", is_error=False)
            walk.budget.left = -1
        return False

    def _called(self, path: Path, depth: int) -> Document | None:
        """The document of a shell script that is called, None for anything else."""
        if depth <= 0 or self.project.kind(path) is not Kind.SHELL:
            return None
        return self.project.document(path)

    def _file(self, launch: Launch, document: Document, start: Path | None, folder: str | None) -> Located | None:
        """File of the tree that a launch runs, with the folder that it counts from."""
        cwd = launch.working_dir
        if folder is not None and folder.startswith("/") and cwd is not None and not cwd.startswith(("/", "<")):
            cwd = f"{folder}/{cwd}"
        if launch.module is not None:
            path = self.locator.module(launch.module, cwd, document.path, start)
            return None if path is None else (path, start)
        if not launch.program:
            return None
        return self.locator.locate(launch.program, cwd, document.path, start) or self._moved(launch)

    def _moved(self, launch: Launch) -> Located | None:
        """The one file of a program's name, wherever it is, if it reads all options that the launch passes."""
        assert launch.program is not None
        named = self.locator.named(posixpath.basename(launch.program))
        options = {word.value.partition("=")[0] for word in launch.args if word.value and word.value.startswith("--")}
        if len(named) != 1 or not options or named[0].suffix != ".py":
            return None
        data = self.project.data(named[0]).replace(b"-", b"_")
        read = all(option.lstrip("-").replace("-", "_").encode() in data for option in options)
        return (named[0], None) if read else None

    def _carried(self, launch: Launch, document: Document) -> PythonModule | None:
        """The Python that the document itself carries: the program's text, or a file of its name."""
        if document.inline is None:
            return None
        if launch.program is None:
            return document.inline.given_to(launch.command)
        return document.inline.named(launch.program.rpartition("/")[2])

    def _hook(self, document: Document) -> Document | None:
        """The script beside an experiment that Determined runs first in every container of its tasks."""
        beside = (path for path in self.locator.in_folder(document.path.parent) if path.name == "startup-hook.sh")
        return next((self.project.document(path) for path in beside), None)

    def _required(self, walk: _Walk, folder: str, span: Span) -> Iterator[tuple[str, Span]]:
        """The list of packages in the folder that a program is in."""
        written = posixpath.normpath(f"{folder}/requirements.txt")
        for start in walk.launches:
            if start.program is not None and start.launch.program is not None:
                named = Path(posixpath.normpath(start.launch.program)).parts
                if start.program.parts[-len(named) :] == named:
                    found = start.program.parents[len(named) - 1] / written
                    yield from [(written, span)] if self.project.is_file(found) else ()

    def _start(self, document: Document, folder: str | None) -> Path | None:
        if folder is None or folder.startswith("/"):
            return None
        path = document.path.parent / folder
        return path if self.project.is_dir(path) else None

    def _gpus(self, document: Document, number: Count | None) -> DeclaredCount | None:
        """The GPUs of a task; as many as a template's default where it fills them in."""
        stated = declared_count(document, number)
        if stated is not None and stated.value is None:
            return replace(stated, value=default_count(self.project, document, stated.text))
        return stated
