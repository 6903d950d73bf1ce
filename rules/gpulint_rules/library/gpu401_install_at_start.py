"""What it detects
Installs in the start-up of a job that holds GPUs: ``pip``, ``uv``, ``conda``, ``apt``, ``poetry`` or
``setup.py`` in its script or command, in what an image starts (``CMD``, ``ENTRYPOINT``), in an init container or set-up
section, ``pip install`` run from the
Python program, and lists that install at start (``runtime_env`` of Ray with ``pip`` or ``conda``,
``packages`` of a job spec, ``packages_to_install`` of Kubeflow's trainers and pipelines, the
``requirements.txt`` in the ``source_dir`` of a SageMaker estimator).

Also recognizes ``mamba``, ``pipenv``, ``pdm``, ``yum``, ``dnf``, ``npm``, ``spack``, ``pixi`` and ``mim`` as
installers, and as jobs Slurm, PBS, LSF and SGE directives; job specs of Kubernetes (with Kubeflow's and Volcano's
jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined (with `startup-hook.sh`), MosaicML, VESSL, Tekton,
Lightning workflows, docker-compose and what Python submits; Snakemake, Nextflow, HTCondor, Terraform and Makefiles; and
what scripts submit as text.

Why it costs GPU time
The GPUs are held while packages are resolved, downloaded and built; on new machines and in containers, at every start
and every restart. Long
Library Installation is one of the study's fifteen categories.

When to ignore this rule
A script that sets an environment up once, by hand; a one-off session; a small package that changes at every
run. An image file that a batch job fetches into a folder that outlives it (``apptainer pull x.sif``) is not reported:
the command does nothing where the file is.

Fix safety
Unsafe: installs of a Slurm job move to a new script that runs before it without GPUs, which is paid for as the job is
and runs in the site's default partition where that of the job may be for GPUs only; an install that the README has as
a step of the set-up stays. Installs in what an image starts move to a ``RUN`` line above. Elsewhere, plain installs of
pip, conda and system packages move to the Dockerfile from which the tree builds the job's image, or to a new
``Dockerfile.gpulint`` beside a launcher that names its image; the job does not find the packages before you have built
the image. Left in place, with advice, are installs under a condition, of the job's own code, into an environment that
the script activates, with values that only the job knows, or within a Python program, and lists of packages of jobs
whose image the tree does not build. If one of them stays, or a command that sets a mirror or clones code to install, so
do the others.

References
https://docs.docker.com/build/cache/optimize/
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.transfer_commands import install_tool, words_of
from gpulint.programs.gpu_jobs import GpuJobCommand, GpuJobs, runs_file_of_tree
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.kept_environments import is_only_if_missing
from gpulint.programs.kept_images import keeps_image
from gpulint.programs.remote_functions import packages
from gpulint.programs.requested_steps import runs_on_request
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import ModuleIndex, source_text
from gpulint_rules.library import install_costs
from gpulint_rules.library.failed_imports import follows_failed_import
from gpulint_rules.library.install_advice import OF_NEWER_CODE, advice, advice_on_list
from gpulint_rules.library.install_words import is_build, listed, pip, quoted, short

_RUNNERS = frozenset(
    (
        "os.system os.popen subprocess.run subprocess.call subprocess.check_call "
        "subprocess.check_output subprocess.Popen"
    ).split()
)
_SET_UP = frozenset({"pip", "venv", "virtualenv", "ensurepip"})
"""Modules that programs are not started with."""
_NOTHING = frozenset({("pip", "install"), ("pip3", "install")})
"""Installers without a package; others read the project's file."""
_TOOLS_ONLY = regex.compile(r"install (--?[\w-]+ )*(pip|setuptools|wheel)$")
_ELSEWHERE = regex.compile(r"find_spec|installed|colab|kaggle|\bwhich\(|missing", re.IGNORECASE)
"""Tests for packages that are missing, or for services of notebooks."""
_SHELL_INSTALL = ("pip install", "pip3 install", "conda install", "apt-get install", "apt install", "mamba install")


@dataclass(frozen=True, slots=True)
class Installed:
    """The installer and the lines of a Dockerfile that do its work when the image is built."""

    tool: str
    lines: tuple[str, ...]
    held: GpuJobCommand | None = None
    """The command, None where packages are listed as data or installed by a program."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    if document.kind is not Kind.NOTEBOOK:
        yield from _commands(document, project)
        yield from _declared(document, project)
    module = project.module(document)
    if module is not None:
        yield from _runtime_environments(document, module, project)
        yield from _shipped(document, module, project)
        if document.kind is not Kind.NOTEBOOK:
            yield from _from_python(document, module, project)


def installs(document: Document, project: Project) -> Iterator[tuple[GpuJobCommand, str]]:
    """Commands of a document that install packages in a GPU job, with the name of the installer."""
    for held in project.fact(GpuJobs).commands_of(document):
        tool = install_tool(project.models, held.command)
        if (
            tool
            and not is_only_if_missing(held.command)
            and not keeps_image(project.models, held.job, held.command)
            and not runs_on_request(held.command)
            and not runs_file_of_tree(held)
            and not project.fact(GpuJobs).only_sets_up(held.job)
            and not _is_other_target(held)
            and not _is_under_test(held)
            and words_of(held.command) not in _NOTHING
        ):
            yield held, tool


def _is_under_test(held: GpuJobCommand) -> bool:
    """Return whether a workflow installs what it is there to test: what was built from the tree, or the tree in an
    environment that it makes."""
    job = held.job
    if not job.task.only_if_training:
        return False
    makes = any({"venv", "virtualenv"} & set(words_of(item.command)[:3]) for item in job.commands)
    return is_build(_line(held), makes)


def _line(held: GpuJobCommand) -> str:
    """The words of a command."""
    return " ".join(word.text for word in held.command.argv)


def _with_pipe(held: GpuJobCommand) -> str:
    """Return the words of a command, and those of the shell that runs what it prints (``curl ... | sh``)."""
    line, piped = quoted(word.text for word in held.command.argv), held.command.piped_to
    if held.command.name not in ("curl", "wget") or piped is None:
        return line
    return f"{line} | {quoted(word.text for word in piped.argv)}"


def _is_other_target(held: GpuJobCommand) -> bool:
    """Return whether a target of a Makefile starts no Python program and asks for no GPUs: another target does."""
    job = held.job
    if job.document.kind is not Kind.WORKFLOW or job.gpus is not None:
        return False
    launches = (start.launch for start in job.launches)
    return not any((one.program or "").endswith(".py") or (one.module or "pip") not in _SET_UP for one in launches)


def _commands(document: Document, project: Project) -> Iterator[Finding]:
    for held, tool in installs(document, project):
        line = _line(held)
        yield _finding(
            project,
            document,
            held.command.span,
            f"`{short(line)}` runs while the job holds its GPUs",
            Installed(tool, (f"RUN {_with_pipe(held)}",), held),
            held,
        )


def _declared(document: Document, project: Project) -> Iterator[Finding]:
    """Packages that a job spec lists as data."""
    seen: set[Span] = set()
    for job, evidence in project.fact(GpuJobs).held_in(document.path):
        if not job.task.packages:
            continue
        span = job.task.packages[0][1]
        if span in seen:
            continue
        seen.add(span)
        names = [name for name, _ in job.task.packages]
        cost = install_costs.of_packages(tuple(names), job.task, project)
        yield RULE.finding(
            document.path,
            span,
            f"`{listed(names)}` installed at start while the job holds its GPUs",
            help=OF_NEWER_CODE if cost is install_costs.KEPT else advice_on_list(job, project),
            payload=Installed("pip", (pip(names),)),
            cost=cost,
            related=(evidence,),
        )


def _runtime_environments(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``runtime_env={"pip": [...]}`` of Ray in a program that requests GPUs."""
    if "runtime_env" not in module.syntax.source.text or not project.fact(GpuPrograms).runs_on_gpu(module):
        return
    held = project.fact(GpuJobs).held_in(document.path)
    declared = [span for job, _ in held for _, span in job.task.packages[:1]]
    for node in module.syntax.of(ast.Dict):
        span = module.syntax.span(node)
        if not _is_runtime_env(module, node) or any(_lies_in(other, span) for other in declared):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if (
                isinstance(key, ast.Constant)
                and key.value in ("pip", "conda", "uv")
                and not isinstance(value, ast.Constant)
            ):
                names = _strings(value) or [
                    name for ref in project.fact(Resolver).points_to(module, value) for name in _strings(ref.node)
                ]
                if names and not any("tpu" in name for name in names):
                    yield _finding(
                        project,
                        document,
                        module.syntax.span(key),
                        f"runtime_env installs {listed(names)} on the GPU workers at start",
                        Installed(str(key.value), (pip(names),)),
                    )


def _lies_in(inner: Span, outer: Span) -> bool:
    start, end = (outer.line, outer.column), (outer.end_line, outer.end_column)
    return inner.cell == outer.cell and start <= (inner.line, inner.column) <= end


def _shipped(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``CustomTrainer(func=train, packages_to_install=[...], resources_per_node={"gpu": 1})`` of Kubeflow."""
    for shipped in packages(project, module):
        names = list(shipped.packages)
        yield RULE.finding(
            document.path,
            module.syntax.span(shipped.argument),
            f"packages_to_install installs {listed(names)} on the GPU workers at start",
            help=advice((pip(names),), None, project),
            payload=Installed("pip", (pip(names),)),
            cost=Cost("install", items=tuple(names)),
            related=(shipped.evidence,),
        )


def _is_runtime_env(module: ModuleIndex, node: ast.Dict) -> bool:
    up = module.syntax.parents.get(node)
    if isinstance(up, ast.keyword):
        return up.arg == "runtime_env"
    if isinstance(up, ast.Dict):
        return any(
            value is node and isinstance(key, ast.Constant) and key.value == "runtime_env"
            for key, value in zip(up.keys, up.values, strict=True)
        )
    if isinstance(up, ast.Assign):
        return any(isinstance(target, ast.Name) and "runtime_env" in target.id for target in up.targets)
    return False


def _from_python(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``os.system("pip install ...")`` in a program that trains on a GPU."""
    reported = [held.command.span.line for held, _ in installs(document, project)]
    for call in project.fact(Resolver).calls_to(module, _RUNNERS):
        if not call.args:
            continue
        text = " ".join(_strings(call.args[0]))
        if (
            not any(install in text for install in _SHELL_INSTALL)
            or _TOOLS_ONLY.search(text)
            or follows_failed_import(project, module, call)
            or any(_ELSEWHERE.search(source_text(module, test)) for test, _ in conditions(module, call))
            or any(span.line <= line <= span.end_line for line in reported if (span := module.syntax.span(call)))
        ):
            continue
        if project.fact(LoopContexts).has_training_step(module) and project.fact(GpuPrograms).runs_on_gpu(module):
            line = text.removeprefix("-m ")
            of_words = isinstance(call.args[0], ast.List | ast.Tuple)
            run = quoted(_strings(call.args[0])).removeprefix("-m ") if of_words else line
            yield _finding(
                project,
                document,
                module.syntax.span(call),
                f"the GPU program runs `{short(line)}` at start",
                Installed("pip", (f"RUN {run}",)),
            )


def _strings(node: ast.AST) -> list[str]:
    return [part.value for part in walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _finding(
    project: Project,
    document: Document,
    span: Span,
    message: str,
    payload: Installed,
    held: GpuJobCommand | None = None,
) -> Finding:
    cost = install_costs.cost(payload.lines, held, project)
    return RULE.finding(
        document.path,
        span,
        message,
        help=OF_NEWER_CODE if cost is install_costs.KEPT else advice(payload.lines, held, project),
        payload=payload,
        cost=cost,
        related=(held.evidence,) if held is not None else (),
        cause=held.job.place if held is not None else None,
    )


RULE = Rule(
    code="GPU401",
    name="install-at-start",
    category=Category.LONG_LIBRARY_INSTALLATION,
    dimension=Dimension.LIBRARY,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW, Kind.DOCKERFILE}),
    reads=("installer",),
    code_tokens=(
        ("install", "runtime_env"),
        ("subprocess", "system", "popen", "runtime_env", "SBATCH", "pip", "packages_to_install"),
    ),
    summary="GPU job installs packages when it starts",
    why="the GPUs are idle while the packages or images that are missing are downloaded and built",
    evidence=(Evidence("Long Library Installation is one of 15 categories in 706 issues of 400 jobs"),),
    check=check,
    cost=Cost("install"),
    fix=Safety.UNSAFE,
    bad="""\
#!/bin/bash
#SBATCH --gres=gpu:8
pip install -r requirements.txt
torchrun --nproc_per_node=8 train.py
""",
    good="""\
#!/bin/bash
#SBATCH --gres=gpu:8
srun --container-image=registry.example.com/train:1 torchrun --nproc_per_node=8 train.py
""",
    references=("https://docs.docker.com/build/cache/optimize/",),
)
