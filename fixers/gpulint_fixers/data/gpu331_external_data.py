"""Move downloads into a stage before the job."""

from __future__ import annotations

from gpulint import regex
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer
from gpulint.launch.job import Job
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.downloads import HUB
from gpulint.libraries.schedulers import batch_systems as schedulers
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint.transfers.downloads import Download, Downloads
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.stages.plan import Plan
from gpulint_fixers.stages.prefetch import Prefetch, are_small, is_folder, line, names_several, of_module
from gpulint_fixers.stages.split import planned, split, split_for

_UNWIRED = Declined("nothing in the tree starts a step before the program: fetch it where no GPU is held")
_ARRAY = regex.compile(r"--array|SLURM_ARRAY")
"""Many jobs, each of which would fetch the model."""
_SUBMITS = "submitit"
"""What starts its jobs with Slurm."""


def fix(finding: Finding, project: Project) -> Fix | Declined:
    document = project.document(finding.path)
    if document is not None and document.kind in (Kind.SHELL, Kind.JOBSPEC):
        return split(finding, project)
    module = project.module(document) if document is not None and document.kind is Kind.PYTHON else None
    if module is None:
        return Declined("only downloads of scripts and programs are moved so far")
    item = _by_span(project, module).get(finding.span)
    if item is not None and HUB in item.origin and is_folder(project, module, item.what):
        return Declined(f"`{item.what}` may be a folder, which a program of the tree writes")
    own = line(project, module, item) if item is not None else None
    if own is None:
        named = item is not None and HUB in item.origin
        return Declined(
            "what is loaded could not be determined, or goes to a folder that only the node of the job sees"
            if named
            else "where the program looks for the file could not be determined"
        )
    # What comes with a model is fetched by the step of that.
    fetched = of_module(project, module).lines
    whole = [text for text in fetched if item is not None and HUB in item.origin and repr(item.what) in text]
    return _before(project, module, own if own in fetched or not whole else whole[0])


@query
def _by_span(project: Project, module: ModuleIndex) -> dict[Span, Download]:
    """The downloads of a module by their places; of several at one place the first."""
    found: dict[Span, Download] = {}
    for item in project.fact(Downloads).in_module(module):
        found.setdefault(module.syntax.span(item.node), item)
    return found


def _before(project: Project, module: ModuleIndex, own: str) -> Fix | Declined:
    """The downloads of a module that are known, ``own`` among them, in a step before the jobs that start it."""
    jobs = _jobs(project, module)
    found = of_module(project, module)
    if "ray" in module.packages or (container := _container(project, module)) is not None:
        return Declined(
            "Ray starts it on other machines: name a volume or bucket with HF_HOME, and fill it before the job"
            if "ray" in module.packages
            else f"{container} puts it into an image, which has no cache: name a volume with HF_HOME, and fill that"
        )
    batch_systems = {*schedulers(project.models), _SUBMITS}  # their jobs see the files of the login node
    if other := next((job for job in jobs if job.task.system not in {"", *batch_systems}), None):
        return Declined(
            f"{other.document.path.name} starts it on machines that keep no files: name a volume or bucket with HF_HOME"
        )
    if not found.is_large:
        what = "tokenizers and settings are" if found.uses_hub else "what a library downloads once and keeps is"
        return Declined(f"{what} no delay that needs a step of its own")
    if not any(job.task.system in batch_systems or _starts_several(job) for job in jobs):
        return Declined("the machine that runs the program downloads it once and keeps it, whoever starts the download")
    if names_several(project, module):
        return Declined("its launchers name different models: fetch each in a step before its own job")
    batch = [job for job in jobs if job.task.system == "slurm" and job.task.scripts == job.document.scripts]
    return _in_batch(project, batch, found, own)


def _starts_several(job: Job) -> bool:
    """Return whether a job starts several processes or holds several GPUs, all of which wait for a download."""
    gpus = job.task.resources.gpus
    return (gpus is not None and (gpus.value or 2) > 1) or any(start.launch.distributed for start in job.launches)


def _container(project: Project, module: ModuleIndex) -> str | None:
    """The Dockerfile beside a program, or beside its folder, from which an image with it is built."""
    for folder in (module.path.parent, module.path.parent.parent):
        if folder.is_relative_to(project.root) and folder != project.root and project.is_file(folder / "Dockerfile"):
            return (folder / "Dockerfile").relative_to(project.root).as_posix()
    return None


def _jobs(project: Project, module: ModuleIndex) -> list[Job]:
    index, users = project.fact(JobIndex), project.fact(GpuPrograms).users(module.path)
    starts = [start for path in (module.path, *users) for start in index.launches_of(path)]
    return list({id(start.job): start.job for start in starts}.values())


def _in_batch(project: Project, batch: list[Job], found: Prefetch, own: str) -> Fix | Declined:
    """The downloads in a stage before the job of Slurm that starts a program; nothing starts a script of its own."""
    if len(batch) != 1:
        return _UNWIRED
    script = batch[0].document
    made = planned(project, script, batch[0])
    if isinstance(made, Plan) and not made.moved and are_small(found) and not _ARRAY.search(script.source.text):
        return Declined("a small model is fetched once and kept, which is not worth two job files")
    if own not in found.lines:
        return Declined("no step before the job would fetch it")
    staged = split_for(project, batch[0], {own})
    if isinstance(staged, Fix):
        return staged
    return Declined(f"{script.path.name} cannot be split ({staged.reason}); fetch it in a step before")


FIXER = Fixer("GPU331", fix)
