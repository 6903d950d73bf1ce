"""What the jobs around a place say of how much a finding there matters: one GPU, a session, caches that are kept."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.jobs import MANY_GPUS
from gpulint.assessment.kept_folders import ACTIVATED, SCRATCH, SHARED, in_claimed, own_jobs, with_command
from gpulint.assessment.shell_defaults import MAX_BYTES, texts
from gpulint.documents.call_syntax import keyword_value
from gpulint.finding import Severity
from gpulint.launch.gpu_counts import gpus_of
from gpulint.launch.job_index import JobIndex
from gpulint.launch.local_copies import LOCAL
from gpulint.libraries.schedulers import batch_systems
from gpulint.programs.cpu_starts import computes_on_cpu, is_kept_on_cpu, starts_nothing_on_gpu
from gpulint.programs.kept_environments import keeps_environment as keeps
from gpulint.programs.kept_environments import leaves_existing, runs_without_image
from gpulint.programs.single_gpu import only_on_one_gpu
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.values.constants import Constants

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.launch.job import Job, Setting
    from gpulint.project import Project

_CACHES = frozenset({"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME"})
_PACKAGE_CACHES = frozenset({"PIP_CACHE_DIR", "UV_CACHE_DIR", "CONDA_PKGS_DIRS"})
_STAYS = regex.compile(r"^kind:[ \t]*[\"']?(?:Pod|Deployment|StatefulSet|ReplicaSet|DaemonSet)\b", re.MULTILINE)
_LOGS_IN = regex.compile(r"\bsalloc\b|--pty\b|condor_submit\b")
"""Commands that open a shell for whoever types them or starts their script."""
_ENTERS = regex.compile(r"\b(?:kubectl|oc|k9s)\b[^\n]{0,80}\b(?:exec|rsh|attach|cp)\b|\bdevpod\b")
_LOCAL_PACKAGES = regex.compile(r"--no-index\b|--cache-dir[= ]|--offline\b")
"""Options of installers that read packages from a folder."""
_NAMES_GPUS = regex.compile(r"CUDA_VISIBLE_DEVICES|nproc|num[-_]process|tensor[-_]parallel|--gpus?\b|--gres")
_HARDWARE = regex.compile(
    r"gpu|cuda|nvidia|nccl|rocm|torchrun|accelerate launch|deepspeed"
    r"|(?<![a-z])([avhpkl]\d{2,3}s?|gh?200|gb\d{3}|volta|ampere|hopper|dgx|tesla|rtx|gtx|titan|mi\d{3}x?)(?![a-z])",
    re.IGNORECASE,
)
"""Words of scripts for nodes with GPUs, also of queues that have their name."""
_SESSIONS = frozenset({"jupyter", "jupyter-lab", "jupyter-notebook", "code-server", "marimo"})
_INSTALLER = regex.compile(r"\b(?:pip3?|uv|poetry|pdm|pipenv|pixi)\b")
_AGAIN = regex.compile(r"git\+|--upgrade\b|(?<!\S)-U\b|--force-reinstall|--ignore-installed|--target\b")
"""What makes an installer do its work again."""
_SET_UP = regex.compile(
    r"(?:^|[_-])(?:set-?up|install|bootstrap|provision"
    r"|(?:create|make|prep|prepare|build|init)[_-](?:\w+[_-])?(?:v|conda)?env(?:ironment|s)?"
    r"|(?:v|conda)?env(?:ironment)?[_-](?:prep|build|creation|init))(?:[_-]|$)",
    re.IGNORECASE,
)
_ON_NODE = regex.compile(r"\b(?:virtualenv|venv)\b[^\n#]{0,300}\$\{?SLURM_TMPDIR\b")
_LAYS_OUT = regex.compile(r"\b(?:cp|rsync|tar|unzip|unrar|unsquashfs)\b")
_CLUSTERS = frozenset({"skypilot", "ray"})
"""Systems whose set-up section prepares machines that several jobs then use."""


def has_one_gpu(subject: Subject) -> bool:
    """Return whether every job that runs the file and says how many GPUs it holds has one, or shows its programs only
    one. Plain scripts beside them say nothing, nor do jobs without GPUs beside others of their system. A program may
    also be shown one GPU by each command that starts it."""
    request = {job.task.system for job in subject.jobs if job.gpus is not None}
    stated = [
        job
        for job in subject.jobs
        if job.gpus is not None or (job.task.system and job.task.system not in request) or _shows_one(job)
    ]
    if stated:
        return all(gpus_of(job) == 1 or _shows_one(job) for job in stated)
    return only_on_one_gpu(subject.project, subject.path)


def _shows_one(job: Job) -> bool:
    """Return whether a job sets ``CUDA_VISIBLE_DEVICES=0``."""
    settings = job.settings.get("CUDA_VISIBLE_DEVICES", ())
    return bool(settings) and all((setting.value or "").isdigit() for setting in settings)


def is_session_of_a_person(subject: Subject) -> bool:
    """Return whether a person works in what holds the GPUs: a session, or a pod that stays until somebody deletes it,
    of few GPUs or with notes on how to enter it, or what only logs in (readers thanked for none of 12 such findings).
    That nothing computes in a job is another matter."""
    counts = {gpus_of(job) for job in subject.jobs}
    few = all(count is None or count < MANY_GPUS for count in counts)
    if subject.finding.severity < Severity.ERROR:
        line = subject.document.source.line(subject.finding.span.line) if subject.document is not None else ""
        return few or _LOGS_IN.search(line) is not None
    return subject.mentions(_STAYS) and (few or _notes_entering(subject.project))


@query
def _notes_entering(project: Project) -> bool:
    """Return whether scripts or notes of the tree open a shell in a pod."""
    found = (project.data(path)[:MAX_BYTES].decode("utf-8", "replace") for path in texts(project))
    return any(regex.occurs(_ENTERS, text) for text in found)


def prepares_session(subject: Subject) -> bool:
    """Return whether the job goes on with a notebook server for a person, on few GPUs, and no program of its own."""
    jobs = with_command(subject)
    return bool(jobs) and all(
        (gpus_of(job) or 1) < MANY_GPUS
        and any(item.command.name in _SESSIONS for item in job.commands)
        and not any(start.program is not None for start in job.launches)
        for job in jobs
    )


def requests_no_gpus(subject: Subject) -> bool:
    """Return whether the program runs in batch jobs only, and each requests cores and no GPUs, and names none."""
    project = subject.project
    if subject.is_launcher or not subject.jobs or project.config.gpus_per_node:
        return False
    systems = batch_systems(project.models)
    return all(
        job.task.system in systems
        and job.gpus is None
        and (job.cpus is not None or job.tasks_per_node is not None)
        and not any(document.matches(_HARDWARE) for document in (job.document, *job.scripts))
        for job in subject.jobs
    )


def keep_on_cpu(subject: Subject) -> bool:
    """Return whether the program, or each of its starts, hides the GPUs or tells a framework to use the CPU; of a
    launcher without GPUs, whether each of its starts does so."""
    if subject.is_launcher:
        held = any(job.gpus is not None and job.gpus.value != 0 for job in subject.jobs)
        return not held and starts_nothing_on_gpu(subject.project, subject.path)
    own = subject.module is not None and computes_on_cpu(subject.project, subject.module)
    return own or is_kept_on_cpu(subject.project, subject.path)


def is_without_job(subject: Subject) -> bool:
    """Return whether nothing says that the commands of a plain script hold GPUs but a program that they start."""
    jobs = subject.project.fact(JobIndex).jobs_in(subject.path)
    return subject.is_launcher and bool(jobs) and all(job.gpus is None and not job.task.system for job in jobs)


def is_without_gpus(subject: Subject) -> bool:
    """Return whether a plain script says nothing of how many GPUs it uses, as who runs it by hand does, whose installer
    finds what it installed before."""
    return is_without_job(subject) and not subject.mentions(_NAMES_GPUS)


def is_in_no_job(subject: Subject) -> bool:
    """Return whether no job of the tree runs the program: on the machine of whoever starts it, what it fetches is there
    the next time."""
    return not subject.jobs and not subject.is_launcher


def is_without_gpu_jobs(subject: Subject) -> bool:
    """Return whether no job that holds GPUs may run the file: what such jobs start is known, and something else
    (readers thanked for 1 of 9 findings on hidden GPUs, the one beside a job)."""
    held = [job for job in subject.project.fact(JobIndex).jobs() if job.gpus is not None]
    return all(job.complete and job not in subject.jobs for job in held)


def keeps_cache(subject: Subject) -> bool:
    """Return whether the jobs, or the call itself, name a folder for what libraries download, other than one of the
    node."""
    call = subject.node
    if isinstance(call, ast.Call) and (folder := keyword_value(call, "cache_dir")) is not None:
        assert subject.module is not None
        known = subject.project.fact(Constants).of(subject.module, folder)
        if known.every(lambda value: isinstance(value, str) and _is_kept(value)):
            return True
    return bool(subject.jobs) and all(any(_keeps(subject, one) for one in job.env) for job in subject.jobs)


def _keeps(subject: Subject, setting: Setting) -> bool:
    return setting.name in _CACHES and (_keeps_folder(setting) or _is_on_shared_disk(subject, setting))


def _keeps_folder(setting: Setting) -> bool:
    """Return whether a setting names a folder that is not one of the node."""
    return _is_kept(setting.value or "")


def _is_kept(folder: str) -> bool:
    return folder.startswith("/") and not folder.startswith(("/tmp", "/dev", "/root", "/home"))


def _is_on_shared_disk(subject: Subject, setting: Setting) -> bool:
    """``export HF_HOME=$SCRATCH/huggingface``"""
    document = subject.project.document(setting.place.path)
    if document is None:
        return False
    line = document.cell_source(setting.place.span.cell).line(setting.place.span.line)
    return SHARED.search(line.partition(f"{setting.name}=")[2]) is not None


def keeps_packages(subject: Subject) -> bool:
    """Return whether an installer reads its packages from a folder that is kept, so that nothing is downloaded."""
    document, line = subject.document, subject.finding.span
    if document is None or not subject.is_launcher:
        return False
    source = document.cell_source(line.cell)
    text = " ".join(source.line(number) for number in range(line.line, line.end_line + 1))
    return bool(_LOCAL_PACKAGES.search(text)) or any(
        setting.name in _PACKAGE_CACHES for job in subject.jobs for setting in job.env if _keeps_folder(setting)
    )


def keeps_environment(subject: Subject) -> bool:
    """Return whether a Python installer finds what it installed in an earlier run: on the disks of a cluster or of a
    runner of one's own. Conda solves the environment again, unless it finds it made, and ``git+`` builds are not
    kept."""
    document, span = subject.document, subject.finding.span
    if document is None or not subject.is_launcher or not subject.jobs:
        return False
    source = document.cell_source(span.cell)
    text = " ".join(source.line(number) for number in range(span.line, span.end_line + 1))
    if not (_INSTALLER.search(text) or leaves_existing(text)) or _AGAIN.search(text):
        return False
    models, activated = subject.project.models, ACTIVATED.search(document.source.text)
    return all(
        keeps(models, job, text) or (activated is not None and in_claimed(job, document, activated[1]))
        for job in own_jobs(subject)
    )


def makes_environment_on_node(subject: Subject) -> bool:
    """Return whether the script makes a virtual environment in ``$SLURM_TMPDIR``, as clusters advise whose shared disks
    are slow for many small files and which keep built wheels."""
    return subject.is_launcher and subject.mentions(_ON_NODE)


def fills_own_disk(subject: Subject) -> bool:
    """Return whether data of the cluster is laid out on the node's own disk, as guides advise, or unpacked there."""
    document, span = subject.document, subject.finding.span
    if document is None or not subject.is_launcher:
        return False
    source = document.cell_source(span.cell)
    text = " ".join(source.line(number) for number in range(span.line, span.end_line + 1))
    return _LAYS_OUT.search(text) is not None and any(
        LOCAL.search(word) or SCRATCH.search(word) for word in text.split()[1:]
    )


def sets_up_by_name(subject: Subject) -> bool:
    """Return whether a script that is started by itself is named for setting an environment up, which is done once on
    a cluster or a rented machine."""
    jobs = subject.jobs
    return (
        subject.document is not None
        and subject.document.kind is Kind.SHELL
        and bool(jobs)
        and bool(_SET_UP.search(subject.path.stem))
        and all(_starts_on_machine(subject, job) for job in jobs)
    )


def _starts_on_machine(subject: Subject, job: Job) -> bool:
    """Return whether a job is the script itself, outside of an image."""
    plain = not job.task.system and job.task.image is None
    return job.document.path == subject.path and (plain or runs_without_image(subject.project.models, job))


def is_machine_setup(subject: Subject) -> bool:
    """Return whether a command belongs to what a cluster runs once when its machines start, before any job."""
    jobs = subject.project.fact(JobIndex).jobs_in(subject.path)
    line = subject.finding.span.line
    return any(
        command.span.line == line
        for job in jobs
        if job.task.role == "init" and job.task.system in _CLUSTERS
        for script in job.task.scripts
        for command in script.walk()
    )
