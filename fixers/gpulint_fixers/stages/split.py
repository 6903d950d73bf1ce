"""The fix that moves the steps of a batch script which need no GPU into a stage before it."""

from __future__ import annotations

from collections.abc import Set

from gpulint import regex
from gpulint.documents import Document
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, NewFile, Safety
from gpulint.launch.job import Job
from gpulint.launch.local_copies import stages
from gpulint.programs import preparation
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.project import Project
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint_fixers.stages import slurm
from gpulint_fixers.stages.plan import Plan, plan
from gpulint_fixers.stages.prefetch import Prefetch, of_job
from gpulint_fixers.stages.specs import split_spec
from gpulint_fixers.stages.writing import Stage, can_fetch

_OTHERS = "only scripts, and jobs of Slurm, Kubernetes and SkyPilot are split"
_MAX_EDITS = 100
_ASKS_GPU = regex.compile(r"\b(nvidia-smi|rocm-smi|nvcc|deviceQuery)\b|cuda\.(is_available|get_device)")


def split(finding: Finding, project: Project) -> Fix | Declined:
    """The stage with the command that a finding is about, and with all else of its script that can move."""
    document = project.document(finding.path)
    if document is not None and document.kind is Kind.JOBSPEC:
        return split_spec(finding, project, document)
    if document is None or document.kind is not Kind.SHELL:
        return Declined(_OTHERS)
    job = holder(project, document)
    if job is None:
        return Declined("the command is in a script that other jobs call")
    if not _holds_gpus(project, job):
        return Declined("nothing says that GPUs are held while the script runs, which it now does alone")
    made = planned(project, document, job)
    if isinstance(made, str):
        return Declined(made)
    if not made.has(finding.span):
        return Declined(made.reasons.get(finding.span, "it runs in a function, or after the program"))
    return _fix(project, document, job)


def holder(project: Project, document: Document) -> Job | None:
    """The job that a script is itself, if it holds GPUs."""
    held = project.fact(GpuJobs).held_in(document.path)
    return next((job for job, _ in held if job.document is document and job.task.scripts == document.scripts), None)


def _holds_gpus(project: Project, job: Job) -> bool:
    """Return whether a script or what submits it asks for GPUs; a plain one may be for a machine that is always
    there."""
    return bool(job.task.system or job.gpus is not None or project.config.gpus_per_node)


@query
def planned(project: Project, document: Document, job: Job) -> Plan | str:
    """Return what of a script can move, or why nothing can."""
    if job.task.system not in ("slurm", ""):
        return _OTHERS
    if reason := slurm.refusal(job):
        return reason
    if document.path.stem.endswith("_prepare"):
        return "it is a stage before another job already"
    steps: set[Span] = {
        step.command
        for names, foreign in ((preparation.PREPARES, preparation.FOREIGN), (preparation.BRINGS, None))
        for step in preparation.steps(project, document, names, foreign)
    }
    steps.update(command.span for command, _ in stages(project.models, job))
    return plan(document, project.models, frozenset(steps))


def split_for(project: Project, job: Job, wanted: Set[str]) -> Fix | Declined:
    """The stage that fetches what a program of the job downloads."""
    made = planned(project, job.document, job)
    if isinstance(made, str):
        return Declined(made)
    fetched = _stage(project, job.document, job, made).fetch.lines
    if wanted <= {*fetched}:
        return _fix(project, job.document, job)
    return Declined(
        "the program that the job starts names no class or function that loads it"
        if fetched
        else "the job runs it in a container, with a separate cache or with packages that it installs itself"
    )


def _stage(project: Project, document: Document, job: Job, made: Plan) -> Stage:
    is_job = job.task.system == "slurm"
    fetch = of_job(project, job) if is_job and can_fetch(job, document, made, project.models) else Prefetch()
    return Stage(document, made, fetch, is_job=is_job)


@query
def _fix(project: Project, document: Document, job: Job) -> Fix | Declined:
    """The fix that all steps of a script share."""
    made = planned(project, document, job)
    assert isinstance(made, Plan)
    stage = _stage(project, document, job, made)
    texts = {stage.name: stage.text()}
    if _ASKS_GPU.search(texts[stage.name]):
        return Declined("a step asks which GPU the job has, and a stage without one would get another answer")
    if stage.submit:
        texts[stage.submit] = slurm.submission(document, stage.name, goes_on=stage.goes_on)
    if taken := next((name for name in texts if project.exists(document.path.with_name(name))), None):
        return Declined(f"{taken} exists already")
    edits = tuple(stage.edits())
    # Each finding of the script carries all edits, so their number would grow with the square of the commands.
    if len(edits) > _MAX_EDITS:
        return Declined(
            f"moving the commands takes {len(edits)} edits; more than {_MAX_EDITS} call for a stage of your own"
        )
    files = tuple(NewFile(document.path.with_name(name), text) for name, text in texts.items())
    return Fix(stage.description(), Safety.UNSAFE, edits, files)
