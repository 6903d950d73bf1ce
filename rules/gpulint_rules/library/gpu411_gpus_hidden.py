"""What it detects
``CUDA_VISIBLE_DEVICES`` (``HIP_``, ``ROCR_``, ``NVIDIA_VISIBLE_DEVICES``) set so that no GPU is left, or fewer than
are listed: empty, ``-1``, ``none``, a repeated index, an invalid index. In Python that trains, in scripts
and specs that hold GPUs, in images.

Recognizes the variables of CUDA, ROCm and NVIDIA's container runtime; Slurm, PBS, LSF and SGE directives; job specs of
Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined, Lightning
workflows and docker-compose; Dockerfiles.

Why it costs GPU time
The library silently falls back to the CPU, and the GPUs that the job holds stay idle to its end.

When to ignore this rule
A stage that runs on the CPU on purpose: tests, building documentation, preprocessing, a server beside the training.

Fix safety
Unsafe: a list that is written wrong (a device twice, an index that no device has) is removed, and the program runs on
the job's GPUs. A value that hides all of them is left to you, because the CPU may be meant.

References
https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.job import Job, JobLaunch
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.gpu_libraries import PLAIN_COMMANDS
from gpulint.programs.environment_variables import EnvironmentSetting, is_taken_away, settings
from gpulint.programs.evaluation_programs import only_runs_trained_models
from gpulint.programs.multi_gpu_use import MultiGpuUse, Use
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import ModuleIndex, last_name

NAMES = frozenset({"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})
_NONE = frozenset({"", "-1", "none", "void", "nodevfiles", "no", "false", "null", "cpu"})
_VALID = regex.compile(r"\d+|GPU-[\w-]+|MIG-[\w/-]+|all", re.IGNORECASE)
_ON_PURPOSE = regex.compile(
    r"\bcpu\b|cpu[-_ ]only|no[-_ ]gpu|without (?:a )?gpu|force"
    r"|(?:disable[sd]?|ignor(?:e[sd]?|ing)|hid(?:e[sd]?|ing)) (?:all )?(?:the )?gpu",
    re.IGNORECASE,
)
_GPU_IMAGE = regex.compile(r"cuda|nvidia|gpu|pytorch|rocm|nemo|tensorrt", re.IGNORECASE)
_APPLE = regex.compile(r"""["']mps["']|backends\.mps\b""")
_CUDA = regex.compile(r"""["']cuda|\.cuda\(""")
_GPU_WORDS = regex.compile(r"cuda|gpu", re.IGNORECASE)
_SERVES = regex.compile(
    r"(^|[_/-])(serv(e|er|ing)|dispatcher|worker|compute_service|actor|export|convert|preprocess\w*|prepare\w*|plot\w*|viz)([_.-]|$)"
)


_OF_WORKERS = frozenset({"worker_init_fn", "initializer", "target"})
"""Arguments that name a function for other processes."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """The setting; ``node`` is the Python target."""

    setting: EnvironmentSetting
    language: str


def problem(value: str) -> str | None:
    """Return what is wrong with a value of the variable; None if it is fine or unknown to us."""
    text = value.strip().strip("\"'")
    if text.lower() in _NONE:
        return "hides every GPU"
    parts = [part.strip() for part in text.split(",")]
    if any(char in text for char in "$<{}()* "):
        return None
    repeated = sorted({part for part in parts if parts.count(part) > 1 and part})
    if repeated:
        return f"names device {repeated[0]} twice, which hides every GPU"
    bad = next((at for at, part in enumerate(parts) if not _VALID.fullmatch(part)), None)
    if bad is None or (bad == len(parts) - 1 and not parts[bad]):
        return None
    if parts[bad] == "-1":
        return "hides every GPU after the first entries" if bad else "hides every GPU"
    return None if re.fullmatch(r"[A-Za-z_]\w*", parts[bad]) else f"is invalid from {parts[bad]!r} on"


def check(document: Document, project: Project) -> Iterator[Finding]:
    for setting in settings(document, project, NAMES):
        trouble = problem(setting.value) if setting.value is not None else None
        if trouble is None:
            continue
        if setting.node is not None:
            yield from _in_python(document, project, setting, trouble)
        else:
            yield from _in_launcher(document, project, setting, trouble)


def _in_python(document: Document, project: Project, setting: EnvironmentSetting, trouble: str) -> Iterator[Finding]:
    module = project.module(document)
    node = setting.node
    if module is None or node is None or setting.conditional or project.fact(Guards).is_conditional(module, node):
        return
    if trouble.startswith("hides every GPU") and "twice" not in trouble:
        if (
            _explained(module, node)
            or project.fact(Guards).is_without_gpu(module, node)
            or _is_for_another_device(module)
            or _SERVES.search(document.path.stem)
            or _in_helper(module, node)
            or _is_choice_of_the_cpu(module, setting)
            or _is_demo(project, module)
        ):
            return
        if document.kind is Kind.NOTEBOOK and len(_GPU_WORDS.findall(document.source.text)) < 2:
            return  # a notebook that calls a library of the tree, on the CPU as it says
        program = project.fact(MultiGpuUse).of(document.path)
        if program.use is not Use.YES or not program.trains:
            return
    if not _is_replaced(project, document, setting) and not is_taken_away(module, setting):
        yield _finding(document, setting, trouble, "python", ())


def _explained(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a comment on the line, or in the lines above it without a blank one between, says that the CPU is
    meant."""
    line = getattr(node, "lineno", 1)
    source = module.syntax.source
    notes = [source.line(line).partition("#")[2]]
    for number in range(line - 1, max(line - 8, 0), -1):
        text = source.line(number).strip()
        notes.append(text.partition("#")[2])
        if not text:
            break
    return any(_ON_PURPOSE.search(note) for note in notes)


def _is_demo(project: Project, module: ModuleIndex) -> bool:
    """Return whether the program only runs a trained model, and no job starts it."""
    return only_runs_trained_models(project, module) and not any(project.fact(JobIndex).launches_of(module.path))


def _is_for_another_device(module: ModuleIndex) -> bool:
    """Return whether the program runs on Apple's GPUs and names CUDA nowhere as a device of its own."""
    text = module.syntax.source.text
    return bool(_APPLE.search(text)) and not _CUDA.search(text)


def _is_choice_of_the_cpu(module: ModuleIndex, setting: EnvironmentSetting) -> bool:
    """Return whether the function takes the CPU or a GPU by the option that it also puts into the variable (``"cuda" if
    args.gpu >= 0 else "cpu"``): whoever starts the program chooses."""
    if setting.node is None:
        return False
    function = module.function(setting.node)
    options = _values_in(module, _statement(module, setting.node))
    return any(
        isinstance(choice, ast.IfExp | ast.If)
        and module.function(choice) is function
        and any(isinstance(part, ast.Constant) and part.value == "cpu" for part in walk(choice))
        and not options.isdisjoint(_values_in(module, choice.test))
        for choice in module.syntax.nodes
    )


def _is_replaced(project: Project, document: Document, setting: EnvironmentSetting) -> bool:
    """Return whether the program sets the variable again, to what may leave GPUs: further down, or in a function."""
    name = setting.name.encode()
    program = project.fact(MultiGpuUse).of(document.path)
    for module in program.modules_where(lambda project, path: project.word_index.holds(path, name)):
        where = project.document(module.path)
        for other in settings(where, project, frozenset({setting.name})) if where is not None else ():
            if (
                other.node is None
                or (isinstance(other.node, ast.Call) and last_name(other.node.func) == "setdefault")
                or (other.value is not None and problem(other.value) is not None)
            ):
                continue
            is_below = module.path == document.path and other.span.line > setting.span.line
            if is_below or module.function(other.node) is not None:
                return True
    return False


def _values_in(module: ModuleIndex, node: ast.AST) -> frozenset[str]:
    """Return the names, attributes and entries that are read in a node, each as a whole (``args.gpu`` and not
    ``args``)."""
    parents = module.syntax.parents
    return frozenset(
        ast.unparse(part)
        for part in walk(node)
        if isinstance(part, ast.Attribute | ast.Subscript | ast.Name)
        and isinstance(part.ctx, ast.Load)
        and not isinstance(parents.get(part), ast.Attribute | ast.Subscript)
    )


def _statement(module: ModuleIndex, node: ast.AST) -> ast.AST:
    return next((up for up in (node, *module.syntax.ancestors(node)) if isinstance(up, ast.stmt)), node)


def _in_helper(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether the setting is in a function other than the program's main one (a worker's process, a plot)."""
    function = module.function(node)
    if function is None:
        return False
    return function.name not in ("main", "train", "run", "setup", "init", "__init__") or any(
        keyword.arg in _OF_WORKERS and last_name(keyword.value) == function.name
        for keyword in module.syntax.of(ast.keyword)
    )


def _in_launcher(document: Document, project: Project, setting: EnvironmentSetting, trouble: str) -> Iterator[Finding]:
    assignment = next(
        (item for script in document.scripts for item in script.assignments if item.span == setting.span), None
    )
    if assignment is not None and (assignment.unset or setting.conditional):
        return
    if _explained_line(document, setting.span.line):
        return
    prefixes = (item for script in document.scripts for command in script.walk() for item in command.assignments)
    if any(item.span == setting.span for item in prefixes):
        yield from _for_one_command(document, project, setting, trouble)
        return
    if document.kind is Kind.DOCKERFILE:
        image = next((task.image for task in document.tasks if task.role == "main"), None) or ""
        if _GPU_IMAGE.search(image) and not re.search(r"cpu", image, re.IGNORECASE):
            yield _finding(document, setting, trouble, "dockerfile", ())
        return
    for job in project.fact(JobIndex).jobs_setting(document.path, setting.span):
        if related := _needs_gpus(job, setting, project):
            yield _finding(document, setting, trouble, "shell" if assignment is not None else "spec", related)
            return


def _for_one_command(
    document: Document, project: Project, setting: EnvironmentSetting, trouble: str
) -> Iterator[Finding]:
    """``CUDA_VISIBLE_DEVICES= python x.py`` where a job that requests GPUs starts nothing else."""
    for job in project.fact(JobIndex).jobs():
        starts = [start for start in job.launches if start.script is None and not start.launch.uncalled]
        if job.gpus is None or job.gpus.value == 0 or len(starts) != 1 or starts[0].document is not document:
            continue
        given = starts[0].env.get(setting.name)
        known = PLAIN_COMMANDS | {starts[0].launch.command.name}
        if (
            given is not None
            and given.place.span.line == setting.span.line
            and all(item.command.name in known for item in job.commands)
        ):
            related = (Place(job.gpus.place.path, job.gpus.place.span, "the GPUs are requested here"),)
            yield _finding(document, setting, trouble, "shell", related)
            return


def _explained_line(document: Document, line: int) -> bool:
    notes = [document.source.line(number).partition("#")[2] for number in (line, line - 1)]
    return any(_ON_PURPOSE.search(note) for note in notes)


def _needs_gpus(job: Job, setting: EnvironmentSetting, project: Project) -> tuple[Place, ...]:
    """Return what says that the job has GPUs and a program for them."""
    reached = [
        start
        for start in job.launches
        if start.env.get(setting.name) and start.env[setting.name].value == setting.value
    ]
    if job.task.role != "main":
        return ()
    if job.gpus is not None and job.gpus.value != 0:
        if (reached and not _is_one_stage(job, reached, project)) or not job.launches:
            return (Place(job.gpus.place.path, job.gpus.place.span, "the GPUs are requested here"),)
        return ()
    if job.task.system:
        return ()
    for start in reached:
        program = project.fact(MultiGpuUse).started(start)
        if program is not None and program.use is Use.YES and program.trains and len(job.launches) == len(reached):
            return (Place(start.place.path, start.place.span, "the program that could use them"),)
    return ()


def _is_one_stage(job: Job, reached: list[JobLaunch], project: Project) -> bool:
    """Return whether only some of what a job starts is without GPUs, and trains nothing or runs once more with them."""
    others = [
        start
        for start in job.launches
        if start not in reached and start.script is None and start.launch.launcher != "shell"
    ]
    programs = [project.fact(MultiGpuUse).started(start) for start in reached if start.script is None]
    return bool(others) and (
        not any(program is not None and program.use is Use.YES and program.trains for program in programs)
        or not {start.program for start in others if start.program is not None}.isdisjoint(
            start.program for start in reached
        )
    )


def _finding(
    document: Document, setting: EnvironmentSetting, trouble: str, language: str, related: tuple[Place, ...]
) -> Finding:
    return RULE.finding(
        document.path,
        setting.span,
        f"{setting.name}={setting.value!r} {trouble}",
        help=f"remove the setting, or list the GPUs that the job has ({setting.name}=0,1)",
        payload=Hidden(setting, language),
        related=related,
        severity=Severity.ERROR if related else Severity.WARNING,
    )


RULE = Rule(
    code="GPU411",
    name="gpus-hidden",
    category=Category.API_MISUSE,
    dimension=Dimension.LIBRARY,
    severity=Severity.ERROR,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW, Kind.DOCKERFILE}),
    tokens=(("VISIBLE_DEVICES",),),
    summary="GPUs are hidden from the program",
    why="the library silently falls back to the CPU while the job's GPUs stay idle",
    evidence=(Evidence("API Misuse is one of the study's fifteen categories of low GPU utilization"),),
    check=check,
    cost=Cost("hidden-gpus"),
    fix=Safety.UNSAFE,
    bad="""\
import os
import torch

os.environ["CUDA_VISIBLE_DEVICES"] = ""
train(torch.nn.Linear(2, 2))
""",
    good="""\
import torch

train(torch.nn.Linear(2, 2).cuda())
""",
    references=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables",),
)
