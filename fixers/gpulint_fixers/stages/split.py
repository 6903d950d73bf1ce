"""The fix that moves the steps of a batch script which need no GPU into a stage before it."""

from __future__ import annotations

from functools import lru_cache

from gpulint_rules.data.gpu332_data_copy_while_holding_gpus import preparations

from gpulint.documents import Document
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, NewFile, Safety
from gpulint.launch.job import Job
from gpulint.launch.local_copies import stages
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint_fixers.stages import slurm
from gpulint_fixers.stages.kinds import repeats
from gpulint_fixers.stages.pieces import Piece
from gpulint_fixers.stages.plan import Plan, plan

_OTHERS = "only Slurm's jobs and plain scripts are split so far"


def split(finding: Finding, project: Project) -> Fix | Declined:
    """The stage with the command that a finding is about, and with all else of its script that can move."""
    document = project.document(finding.path)
    if document is None or document.kind is not Kind.SHELL:
        return Declined(_OTHERS)
    job = holder(project, document)
    if job is None:
        return Declined("the command is in a script that other jobs call")
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


@lru_cache(maxsize=1)
def planned(project: Project, document: Document, job: Job) -> Plan | str:
    """What of a script can move, or why nothing can."""
    if job.task.system not in ("slurm", ""):
        return _OTHERS
    if reason := slurm.refusal(document):
        return reason
    if document.path.stem.endswith("_prepare"):
        return "it is a stage before another job already"
    steps: set[Span] = {start.launch.command.span for start, _ in preparations(document, project)}
    steps.update(command.span for command, _ in stages(job))
    made = plan(document, job, project.models, frozenset(steps))
    return made if isinstance(made, str) or made.moved else _nothing(made)


def _nothing(made: Plan) -> Plan | str:
    return made if made.reasons else "there is nothing that could move"


@lru_cache(maxsize=1)
def _fix(project: Project, document: Document, job: Job) -> Fix | Declined:
    """The fix that all steps of a script share."""
    made = planned(project, document, job)
    assert isinstance(made, Plan)
    stage, submit = names(document)
    is_job = job.task.system == "slurm"
    texts = {stage: stage_text(document, made, is_job=is_job)}
    if is_job:
        texts[submit] = slurm.submission(document, stage)
    else:
        submit = ""
    if taken := next((name for name in texts if project.exists(document.path.with_name(name))), None):
        return Declined(f"{taken} exists already")
    return Fix(
        _description(made, stage, submit),
        Safety.UNSAFE,
        tuple(_edits(document, made, stage, submit)),
        tuple(NewFile(document.path.with_name(name), text) for name, text in texts.items()),
    )


def names(document: Document) -> tuple[str, str]:
    """Names of the stage and of the script that submits both."""
    stem, suffix = document.path.stem, document.path.suffix or ".sh"
    return f"{stem}_prepare{suffix}", f"{stem}_submit.sh"


def _description(made: Plan, stage: str, submit: str) -> str:
    count = len(made.moved)
    what = "the step" if count == 1 else f"{count} steps"
    how = f"a job without GPUs; submit both with {submit}" if submit else "which needs no GPU; run it first"
    return f"move {what} before the program to {stage}, {how}; both must see the folders that are written"


def stage_text(document: Document, made: Plan, *, is_job: bool) -> str:
    """The script of the stage."""
    first = document.source.line(1)
    shebang = first if first.startswith("#!") else "#!/bin/bash"
    computes = any("python" in piece.text or "SLURM_CPUS_PER_TASK" in piece.text for piece in made.moved)
    where = "in a job that holds none" if is_job else "to run where none is held"
    lines = [
        shebang,
        f"# What {document.path.name} does before its program uses a GPU, {where}.",
        "# It assumes that the folders and environments that it writes are on storage that both see.",
        *(slurm.header(document, cpus=computes) if is_job else ()),
        "",
    ]
    body = sorted([*made.context, *made.moved], key=lambda piece: piece.first)
    stops = not any(repeats(piece.text) for piece in made.moved) and not any(
        command.name == "set" for piece in made.context for command in piece.commands
    )
    text = "\n".join(lines)
    started = False
    for piece in body:
        if piece in made.moved and stops and not started:
            text += "\nset -e  # the job starts only if all of this succeeds\n"
            started = True
        text += f"\n{_shown(piece)}" if _gap(piece) else _shown(piece)
    return text.rstrip("\n") + "\n"


def _shown(piece: Piece) -> str:
    return piece.comments + piece.text


def _gap(piece: Piece) -> bool:
    """Whether an empty line stands above."""
    return not piece.source.line(piece.start - 1).strip()


def _edits(document: Document, made: Plan, stage: str, submit: str) -> list[Edit]:
    """Edits that take the pieces out, and put a note in the place of the first one."""
    note = f"# {stage} has prepared {'this job' if submit else 'the data'}" + (
        f"; {submit} submits both.\n" if submit else "; run it first, where no GPU is held.\n"
    )
    edits, source = list[Edit](), document.source
    for piece in made.moved:
        last = piece.last
        if not source.line(last + 1).strip() and (edits and not source.line(piece.start - 1).strip()):
            last += 1
        edits.append(Edit(document.path, Span(piece.start, 1, last + 1, 1), note if not edits else ""))
    return edits
