"""What it detects
A job that holds GPUs for a person rather than for a program: Jupyter, code-server, a VS Code tunnel or sshd as what
the job runs, ``sleep infinity`` or ``tail -f /dev/null`` with nothing beside it, ``salloc`` and ``srun --pty bash``
with GPUs, ``condor_submit -interactive``, a development environment.

Recognizes Slurm, PBS, LSF and SGE directives; job specs of Kubernetes (with Kubeflow's and Volcano's jobs), Ray,
SkyPilot, dstack, Azure ML, SageMaker, Determined, Lightning workflows, docker-compose and what Python submits; as
sessions also RStudio and notebook images.

Why it costs GPU time
The GPUs are idle while people think, type and take breaks. The study counts interactive jobs among those with the
most idle time.

When to ignore this rule
Profiling or debugging that needs this very GPU. Cap such sessions with a time limit and release them when idle.

Fix safety
There is only advice: which program should run instead is the user's decision.

References
https://slurm.schedmd.com/sbatch.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.finding import Finding, Place, Severity
from gpulint.impact import Cost
from gpulint.launch.idle_commands import ALLOCATES, session, stays_open
from gpulint.launch.job import Job, JobCommand
from gpulint.launch.job_index import JobIndex
from gpulint.launch.transfer_commands import only_brings
from gpulint.libraries.gpu_libraries import PLAIN_COMMANDS
from gpulint.libraries.schedulers import batch_systems
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope

_MPI = regex.compile(r"mpi(run|exec|job)?\b|hostfile|slotsPerWorker", re.IGNORECASE)
_MPI_JOB = regex.compile(r"^kind:\s*[\"']?MPIJob\b", re.MULTILINE)
_NOTEBOOK_IMAGE = regex.compile(r"jupyter|notebook|code-server|rstudio", re.IGNORECASE)
_DEV_KIND = regex.compile(r"^kind:\s*[\"']?(?:Notebook|DevWorkspace|Workspace|Profile)\b", re.MULTILINE)
_REQUESTS_GPUS = regex.compile(r"request_gpus\s*=\s*[\"']?[1-9]", re.IGNORECASE)
_SRUN = "srun --pty"
_SCHEDULER = frozenset({"sbatch", "srun", "salloc", "scancel", "qsub", "qdel"})
"""Commands that do nothing without arguments."""
_ENTERS = frozenset({"kubectl", "oc", "docker", "podman", "docker-compose", "nerdctl"})
_SCRIPTS = frozenset({"", ".sh", ".bash", ".zsh", ".mk", ".yml", ".yaml"})
_SELECTORS = regex.compile(r"""\b(?:container_)?name:\s*["']?([\w.-]+)""")
_PROGRAM = regex.compile(
    r"\.py\b|\.sh\b|^(?:python[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|make)$|\bpython\S* "
)
_ADVICE = "submit the program as a batch job that holds GPUs only while it computes; develop on a machine without GPUs"


def check(job: Job, project: Project) -> Iterator[Finding]:
    if job.task.role != "main":
        return
    for item in () if _is_notes(job) else job.commands:
        name = session(item.command)
        if name in ALLOCATES or (name == _SRUN and (_own_gpus(item) or _holds(job))):
            yield _finding(job, item.place, f"{name} holds GPUs for an interactive session")
        elif _submits_session(job, item, project):
            yield _finding(job, item.place, "condor_submit -interactive holds GPUs for an interactive session")
    if not _holds(job) or job.document.matches(_DEV_KIND) or _is_patched(job, project):
        return
    if job.task.interactive is not None:
        what = "a session that `runai` opens" if job.task.system == "runai" else "an editor session"
        yield _finding(job, Place(job.document.path, job.task.interactive), f"{what} holds GPUs")
        return
    for item in job.commands:
        name = session(item.command)
        if name is None or name == _SRUN or name in ALLOCATES:
            continue
        if name == "sshd" and (job.document.matches(_MPI) or not (_ends(job, item) or _only(job, item, project))):
            continue
        yield _finding(job, item.place, f"{name} holds {_gpus(job)} for an interactive session")
        return
    waits = next((item for item in job.commands if stays_open(item.command)), None)
    if waits is not None:
        others = _is_host(job) or _is_entered(job, project) or _is_mpi_worker(job)
        if not others and _only(job, waits, project):
            text = " ".join(word.text for word in waits.command.argv)
            message = f"{_gpus(job)} held by `{text}`: nothing computes unless somebody logs in"
            # A number that only the one who submits knows may be 0.
            certain = job.gpus is not None and job.gpus.value is not None
            yield _finding(job, waits.place, message, Severity.ERROR if certain else Severity.WARNING)
    elif not job.commands and job.task.image is not None and _NOTEBOOK_IMAGE.search(job.task.image.rpartition("/")[2]):
        yield _finding(job, _image_place(job), f"image {job.task.image!r} runs a notebook server on {_gpus(job)}")


def _is_patched(job: Job, project: Project) -> bool:
    """Return whether another document gives the container another command: an overlay of Kustomize, or a second file
    for docker-compose, which repeat its name alone."""
    return job.task.system in ("kubernetes", "compose") and any(
        other.task.name == job.task.name
        and other.task.system == job.task.system
        and other.document is not job.document
        and other.task.image is None
        and other.task.build is None
        and other.gpus is None
        and not any(session(item.command) or stays_open(item.command) for item in other.commands)
        and any(item.document is other.document for item in other.commands)
        for other in project.fact(JobIndex).jobs()
    )


def _is_notes(job: Job) -> bool:
    """Return whether a plain file lists commands for people to copy: a session is followed by other work, or a command
    of the scheduler lacks its arguments."""
    if job.gpus is not None or job.task.system:
        return False
    own = [item.command for item in job.commands if item.document is job.document and not item.command.blocks]
    if any(command.name in _SCHEDULER and len(command.argv) == 1 for command in own):
        return True
    opened = [number for number, command in enumerate(own) if (name := session(command)) in ALLOCATES or name == _SRUN]
    plain = PLAIN_COMMANDS | _SCHEDULER | ALLOCATES.keys()
    return bool(opened) and any(command.name not in plain for command in own[opened[0] + 1 :])


def _ends(job: Job, item: JobCommand) -> bool:
    """Return whether a batch job ends in the command, so that it lasts as long as the connection."""
    return job.task.system in batch_systems(job.document.models) and job.commands[-1].command is item.command


def _holds(job: Job) -> bool:
    return job.gpus is not None and job.gpus.value != 0


def _submits_session(job: Job, item: JobCommand, project: Project) -> bool:
    """Return whether HTCondor opens a shell in a slot with GPUs: ``condor_submit -i train.sub``."""
    words = [word.text for word in item.command.argv]
    if item.command.name != "condor_submit" or not {"-i", "-interactive"} & set(words):
        return False
    if any(_REQUESTS_GPUS.search(word) for word in words):
        return True
    described = {job.document.path.parent / word for word in words[1:] if not word.startswith("-")}
    return any(_holds(other) for path in described for other in project.fact(JobIndex).jobs_in(path))


def _own_gpus(item: JobCommand) -> bool:
    return any(re.match(r"--gres=gpu|--gpus|-G\d?$|gpu:", word.text) for word in item.command.argv)


def _gpus(job: Job) -> str:
    count = job.gpus.value if job.gpus is not None else None
    return "GPUs" if count is None else "a GPU" if count == 1 else f"{count} GPUs"


def _only(job: Job, item: JobCommand, project: Project) -> bool:
    """Return whether nothing beside the command computes or serves: the rest only sets up the machine and fetches."""
    plain = PLAIN_COMMANDS | {
        "sshd",
        "service",
        "tail",
        "ssh-keygen",
        "while",
        "usermod",
        "useradd",
        "chpasswd",
        "nvidia-smi",
    }
    others = (other.command for other in job.commands if other.command is not item.command)
    return all(command.name in plain or only_brings(project.models, command) for command in others)


def _is_host(job: Job) -> bool:
    """Return whether one of several machines waits for the connections of a launcher: ``service ssh start`` beside."""
    several = any(count is not None and count.value != 1 for count in (job.nodes, job.task.replicas))
    return several and any("ssh" in word.text for item in job.commands for word in item.command.argv)


def _is_mpi_worker(job: Job) -> bool:
    """Return whether a replica of an MPI job waits for the processes that its launcher starts there."""
    return job.document.matches(_MPI_JOB)


def _is_entered(job: Job, project: Project) -> bool:
    """Return whether a script of the tree runs a program in the waiting container, by its name: ``kubectl exec bench --
    torchrun train.py``."""
    names = {job.task.name, *_SELECTORS.findall(job.document.source.text)} - {""}
    for path in project.files_with(b"exec"):
        if path.suffix not in _SCRIPTS or (document := project.document(path)) is None:
            continue
        for command in (command for script in document.scripts for command in script.walk()):
            words = [word.text for word in command.argv]
            if command.name in _ENTERS and "exec" in words and _runs_program(words[words.index("exec") + 1 :], names):
                return True
    return False


def _runs_program(words: list[str], names: set[str]) -> bool:
    at = next((at for at, word in enumerate(words) if word.rpartition("/")[2] in names), None)
    return at is not None and any(map(_PROGRAM.search, words[at + 1 :]))


def _image_place(job: Job) -> Place:
    text = job.document.source.text
    source, span = job.document.source, job.task.span
    at = text.find(job.task.image or "", source.offset(span.line, span.column))
    return job.place if at < 0 else Place(job.document.path, source.span(at, at + len(job.task.image or "")))


def _finding(job: Job, place: Place, message: str, severity: Severity = Severity.WARNING) -> Finding:
    related = (
        (Place(job.gpus.place.path, job.gpus.place.span, "the GPUs are requested here"),)
        if job.gpus is not None
        else ()
    )
    return RULE.finding(place.path, place.span, message, help=_ADVICE, severity=severity, related=related)


RULE = Rule(
    code="GPU101",
    name="interactive-job",
    category=Category.INTERACTIVE_JOB,
    dimension=Dimension.JOB,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW, Kind.DOCKERFILE}),
    scope=Scope.JOB,
    summary="GPUs held for an interactive session",
    why="the GPUs wait while people think and type",
    evidence=(Evidence("Interactive Job is one of the study's fifteen categories of low GPU utilization"),),
    check=check,
    cost=Cost("interactive"),
    bad="""\
#SBATCH --gres=gpu:1
jupyter lab --no-browser --ip=0.0.0.0
""",
    good="""\
#SBATCH --gres=gpu:1
python train.py
""",
    references=("https://slurm.schedmd.com/sbatch.html",),
)
