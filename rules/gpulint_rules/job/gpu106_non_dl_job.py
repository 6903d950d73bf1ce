"""What it detects
A job that requests GPUs and starts nothing that could use one: shell commands that compute nothing, builds, and
programs that import, with everything that they import from the tree, only libraries for the CPU, or PyTorch besides and
move nothing to a GPU.

Recognizes which libraries may use a GPU (PyTorch, TensorFlow, Keras, JAX, RAPIDS, CuPy, PaddlePaddle, MXNet, ONNX
Runtime, vLLM and many more; an unknown import suppresses the finding); Slurm, PBS, LSF and SGE directives; job specs of
Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined, Lightning
workflows, docker-compose and what Python submits.

Why it costs GPU time
The GPUs are held and idle from the first second to the last (the study's Non-DL Job).

When to ignore this rule
A program that gpulint cannot see uses the GPU; the job tests the scheduler's allocation of GPUs.

Fix safety
Unsafe: the directives of a Slurm job that request GPUs are removed; its partition has to take jobs without them. For
other systems there is only advice, because gpulint cannot see whether a queue without GPUs has the memory and the
software.

References
https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from gpulint import regex
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.idle_commands import session, sleeps, stays_open
from gpulint.launch.job import DeclaredCount, Job, JobCommand
from gpulint.launch.job_index import JobIndex
from gpulint.launch.transfer_commands import download_tool, words_of
from gpulint.libraries.gpu_libraries import PLAIN_COMMANDS
from gpulint.programs.foreign_programs import runs_known_program
from gpulint.programs.multi_gpu_use import MultiGpuUse, Use
from gpulint.programs.stubs import is_stub
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope

_IDLE_IMAGES = regex.compile(
    r"(^|/)(sleep|pause|hello-world|hello-app|agnhost|echo|busybox|nginx(-slim)?|redis|postgres)(:|@|$)"
)
_SCHEDULING_TEST = regex.compile(
    r"gpu[-_ ]?(?:scheduling|check|test|smoke|quota)|(?:check|test|smoke|verify)[-_ ]?gpu|fake[-_ ]gpu", re.IGNORECASE
)
"""Says that handing out a GPU is what the job is for."""
_BUILDS = frozenset(
    {"make", "cmake", "ninja", "gcc", "g++", "nvcc", "ls", "scons", "bazel", "dpkg", "autoconf", "configure"}
)
_RUNS = frozenset({"test", "tests", "check", "run", "bench", "benchmark", "train"})
"""Words of builds that run what they have built."""
_MAKEFILES = frozenset({"makefile", "gnumakefile"})
_NAMES_TARGETS = frozenset({"make", "ninja"})
_BUILT = frozenset(
    {
        *("all", "build", "install", "clean", "distclean", "mrproper", "cleanall", "rebuild", "lib", "libs", "library"),
        *("compile", "release", "debug", "default", "shared", "static", "dist", "sdist", "wheel", "package", "depend"),
        *("deps", "configure", "config", "menuconfig", "modules", "headers", "docs", "doc"),
    }
)
"""Targets that build, in any project."""
_BUILT_FILES = frozenset({".o", ".so", ".a", ".exe", ".out", ".whl", ".pdf"})
_GETS_SOURCES = frozenset({"git", "wget", "curl", "tar", "unzip", "cmake", "configure", "autoconf", "cp", "rsync"})
_TAKES_VALUE = frozenset("-C --directory -f --file --makefile -o -I".split())
_DISPATCHES = regex.compile(r"CUGRAPH|CUDF|CUML|CUPY|RAPIDS|NETWORKX_BACKEND")
"""Variables by which a library for the CPU hands its work to one for GPUs."""
_COMPILERS = frozenset({"gcc", "g++", "nvcc"})
_LOOKS_FOR_GPU = regex.compile(r"\bcuda\.(is_available|device_count|get_device_(capability|properties|name))\(")

_ENVIRONMENT = regex.compile(
    r"activate\b|bashrc$|profile$|conda\.sh$|/init/|modules?\.sh$|(?:^|[/._-])env(?:\.sh)?$|setvars"
)
"""Files that set up a shell."""
_ENVIRONMENTS = frozenset("module ml activate deactivate mamba micromamba uv virtualenv rocm-smi".split())
_SHOWS_GPUS = frozenset({"nvidia-smi", "rocm-smi"})
_READS = frozenset({".", "source", "eval"})
"""Commands that run what a file or a variable holds."""
_SHOWS = regex.compile(
    r"import [\w, ]+(?:[;\n]\s*(?:import [\w, ]+|"
    r"print\([^\n;]*(?:is_available|device_count|__version__|cuda)[^\n;]*\)))*"
)

_SUBMITTERS = frozenset({"sbatch", "qsub", "bsub", "qstat", "bjobs"})
"""What gives work to other jobs, or shows how they do."""
_SLOW = frozenset("cp mv tar unzip gzip wget curl aws gsutil gcloud rsync sleep wait find du sort".split())
"""Plain commands that may take minutes."""
_IMAGES = frozenset({("apptainer", "pull"), ("singularity", "pull"), ("docker", "pull"), ("enroot", "import")})
_LONG = frozenset({"install", "create", "update", "clone", "pull", "download", "wheel", "lfs"})
"""What other plain commands take minutes for."""
_INSTALLERS = frozenset({"conda", "mamba", "micromamba", "uv", "pip", "pip3", "apt", "apt-get", "virtualenv"})
_SETUP = (60.0, 1800.0)
"""Seconds that it takes to make an environment (assumed)."""
_MANY = 4
"""GPUs that are worth another queue even for the minutes of one job (assumed)."""


def check(job: Job, project: Project) -> Iterator[Finding]:
    if job.task.role != "main" or job.gpus is None or not (job.gpus.value or _is_cluster(job.gpus)):
        return
    if job.document.matches(_SCHEDULING_TEST) or any(map(_DISPATCHES.search, job.settings)):
        return
    if any(session(item.command) or stays_open(item.command) for item in job.commands):
        return
    what, cost = _idle(job, project), _cost(job, project)
    if what is not None and cost is None and _sets_up(job, project):
        kind = "idle-setup" if 0 < (job.gpus.value or 0) < _MANY else "idle-gpus"
        cost = Cost(kind, seconds=_SETUP, basis="GPUs without work while an environment is set up, once")
    elif what is None or (cost is not None and any(item.command.name in _SHOWS_GPUS for item in job.commands)):
        return  # a short job that shows its GPUs tests the allocation
    count = (
        "1 GPU is" if job.gpus.value == 1 else f"{job.gpus.value} GPUs are" if job.gpus.value else "a GPU cluster is"
    )
    related = tuple(Place(start.place.path, start.place.span, "what it starts") for start in job.launches[:3])
    place = job.gpus.place
    yield RULE.finding(
        place.path,
        place.span,
        f"{count} requested, but {what}",
        help="run this job on a queue or node pool without GPUs, and remove the request",
        related=related,
        cost=cost,
    )


def _cost(job: Job, project: Project) -> Cost | None:
    """The length of a job that does nothing but sleep; None where it is unknown."""
    total = 0.0
    for item in job.commands:
        seconds = sleeps(item.command)
        if (
            item.command.in_loop
            or not _computes_nothing(item, project)
            or (seconds is None and _takes_time(item, project))
        ):
            return None
        total += seconds or 0.0
    if not 0 < total < math.inf:
        return None
    return Cost("idle-gpus", seconds=(total, total), basis=f"GPUs without work for {total:g} s")


def _sets_up(job: Job, project: Project) -> bool:
    """Return whether all that takes time in a job makes an environment or installs packages, which is done once: it
    starts no program of the tree."""
    lasting = [item for item in job.commands if _takes_time(item, project)]
    computes = any(path.name != "setup.py" for path in job.programs)
    return (
        bool(lasting)
        and not computes
        and all(
            not item.command.in_loop and (item.command.name in _INSTALLERS or _runs_installer(item)) for item in lasting
        )
    )


def _runs_installer(item: JobCommand) -> bool:
    """``python -m pip install -r requirements.txt``, ``python -m venv env``"""
    words = [word.text for word in item.command.argv]
    return words[1:2] == ["-m"] and words[2:3] in (["pip"], ["venv"])


def _is_cluster(gpus: DeclaredCount) -> bool:
    """Return whether only the cluster's name speaks of GPUs (``compute: azureml:gpu-cluster``), rather than a number
    left open."""
    return "compute:" in gpus.text


def _idle(job: Job, project: Project) -> str | None:
    """Return why nothing of the job can use a GPU; None if something may."""
    image = job.task.image or ""
    if _IDLE_IMAGES.search(image) and all(
        _computes_nothing(item, project) or _is_argument(item, image) for item in job.commands
    ):
        return f"image {image!r} computes nothing on one" if job.commands or image else None
    if not job.commands:
        return None
    cpu_programs = [item for item in job.commands if runs_known_program(project.models.rows("cpu-program"), item)]
    rest = [item for item in job.commands if item not in cpu_programs and not _computes_nothing(item, project)]
    if not rest:
        if cpu_programs:
            return f"{cpu_programs[0].command.name} computes on the CPU"
        if not any(_takes_time(item, project) for item in job.commands):
            return None
        builds = any(_is_build(item, project) for item in job.commands)
        if builds and (_builds_where_gpus_are(job, project) or _makes_more(job, project)):
            return None
        return "the job only builds software" if builds else "its commands compute nothing on one"
    if any((module := project.module_at(path)) is not None and is_stub(module) for path in job.programs):
        return None  # what it will do is not written yet
    if any(item.command.name in _READS and id(item.command) not in job.starters for item in rest):
        return None
    inline = [start for start in job.launches if start.module is not None]
    if (job.programs or inline) and project.fact(MultiGpuUse).uses(job) is Use.NO:
        names = ", ".join(path.name for path in job.programs[:3])
        names = names or "the Python in its commands"
        started = (project.fact(MultiGpuUse).started(start) for start in job.launches)
        moved = any(program is not None and program.stays_on_cpu for program in started)
        return f"{names} moves nothing to one" if moved else f"{names} uses no GPU library"
    return None


def _is_argument(item: JobCommand, image: str) -> bool:
    """``args`` of an image that runs its own entry point."""
    return "agnhost" in image or (
        "sleep" in image
        and re.fullmatch(r"\d+[smhd]?", item.command.argv[0].text if item.command.argv else "") is not None
    )


def _computes_nothing(item: JobCommand, project: Project) -> bool:
    if _fetches(item, project):
        return True
    name = item.command.name
    if any(word.text == "run" for word in item.command.argv[1:2]):  # of ``uv`` and ``conda``
        return False
    if name in (".", "source"):  # what a file of the tree does, the job's other commands are
        return any(_ENVIRONMENT.search(word.text) for word in item.command.argv[1:2])
    if name in _ENVIRONMENTS | _SUBMITTERS:
        return True
    return (name in PLAIN_COMMANDS and name != "eval") or _is_build(item, project) or _shows_gpus(item)


def _fetches(item: JobCommand, project: Project) -> bool:
    """Return whether a command downloads data, weights or an image, also in a container that is there."""
    words = words_of(item.command)
    return tuple(words[:2]) in _IMAGES or bool(download_tool(project.models, item.command))


def _shows_gpus(item: JobCommand) -> bool:
    """``python -c "import torch; print(torch.cuda.is_available())"``."""
    words = [word.text for word in item.command.argv]
    return words[1:2] == ["-c"] and len(words) == 3 and _SHOWS.fullmatch(words[2].strip()) is not None


def _takes_time(item: JobCommand, project: Project) -> bool:
    """Return whether the command holds the GPUs for longer than a moment (a job whose work is commented out ends at
    once)."""
    told = [word.text for word in item.command.argv[1:] if not word.text.startswith("-")]
    action = (told[1:2] or [""])[0] if told[:1] == ["env"] else (told or [""])[0]
    if item.command.name in _INSTALLERS | {"git"}:
        return action in _LONG
    return item.command.name in _SLOW or _is_build(item, project) or _fetches(item, project)


def _builds_where_gpus_are(job: Job, project: Project) -> bool:
    """Return whether a build may look for a GPU: the ``setup.py`` that it runs or, if that is unknown, one of the tree
    does, and the job does not force the extension."""
    builds = [item for item in job.commands if _is_build(item, project) and item.command.name not in _COMPILERS]
    starts = [start for item in builds for start in job.started_by.get(id(item.command), ())]
    known = {start.program for start in starts if start.program is not None}
    if not builds or any("FORCE_CUDA" in item.env for item in job.launches) or "FORCE_CUDA" in job.settings:
        return False
    return any(
        (path in known if known else path.name == "setup.py") and project.matches(path, _LOOKS_FOR_GPU)
        for path in project.files
        if path.suffix == ".py"
    )


def _makes_more(job: Job, project: Project) -> bool:
    """Return whether ``make`` may start programs: a recipe of the tree does, other than of a target that tests, or the
    default target is out of sight: the tree has no makefile, and the job gets no sources from elsewhere."""
    makes = [item for item in job.commands if item.command.name == "make"]
    if not makes:
        return False
    index = project.fact(JobIndex)
    makefiles = [path for path in project.files if path.name.lower() in _MAKEFILES]
    if not makefiles and not any(item.command.name in _GETS_SOURCES for item in job.commands):
        return all(set(_targets([word.text for word in item.command.argv])) <= {"all"} for item in makes)
    made = (one for path in makefiles for one in index.jobs_in(path))
    return any(
        id(item.command) in one.starters and not _is_build(item, project)
        for one in made
        if one.task.name not in _RUNS
        for item in one.commands
    )


def _is_build(item: JobCommand, project: Project) -> bool:
    words = [word.text for word in item.command.argv]
    if item.command.name in _BUILDS - {"ls"}:
        return _RUNS.isdisjoint(words[1:]) and (
            item.command.name not in _NAMES_TARGETS or all(_builds(target, project) for target in _targets(words))
        )
    if item.command.name not in ("python", "python3"):
        return False
    setup = words[1:2] == ["setup.py"] and any(
        word.startswith(("bdist", "build", "install", "develop", "sdist")) for word in words
    )
    return setup or words[1:3] in (["-m", "build"], ["-m", "pip"], ["-m", "venv"])


def _targets(words: list[str]) -> list[str]:
    """Return the targets that a command makes: ``train`` of ``make -j 8 CUDA=1 train``."""
    return [
        word
        for before, word in pairwise(words)
        if not word.startswith("-")
        and "=" not in word
        and not word.isdigit()
        and before not in _TAKES_VALUE
        and not (before in ("-j", "--jobs") and word.startswith(("$", "`")))
    ]


def _builds(target: str, project: Project) -> bool:
    """Return whether a target only builds: by its name, or as a file of the tree tells what is done for it. What others
    are for (``make eval``) is written elsewhere."""
    if target in _BUILT or PurePosixPath(target).suffix in _BUILT_FILES:
        return True
    makefiles = (project.document(path) for path in project.files if path.name.lower() in _MAKEFILES)
    return any(target in task.name.split() for document in makefiles if document is not None for task in document.tasks)


RULE = Rule(
    code="GPU106",
    name="non-dl-job",
    category=Category.NON_DL_JOB,
    dimension=Dimension.JOB,
    severity=Severity.ERROR,
    kinds=frozenset({Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    scope=Scope.JOB,
    summary="GPUs are requested for a job that cannot use any",
    why="the GPUs are allocated but idle for the whole job",
    evidence=(Evidence("Non-DL Job is one of the study's fifteen categories of low GPU utilization"),),
    check=check,
    cost=Cost("idle-gpus"),
    fix=Safety.UNSAFE,
    bad="""\
#SBATCH --gres=gpu:1
python merge_csv.py  # imports pandas only
""",
    good="""\
#SBATCH --cpus-per-task=8
python merge_csv.py
""",
    references=("https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",),
)
