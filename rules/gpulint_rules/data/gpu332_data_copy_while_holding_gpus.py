"""What it detects
Copies of data at the start of a job that holds GPUs: ``aws s3``, ``gsutil``, ``gcloud storage``, ``azcopy``,
``rclone``, ``rsync`` from another host in its script or command, and a preparation program
(``prepare_data.py``) that the job runs before the training. Archives and folders that the job
stages on its node's own disk are reported as info, if there are several or if they are a large public data set.

Also recognizes ``s5cmd``, ``scp``, ``hdfs dfs -get``, and as jobs Slurm, PBS, LSF and SGE directives; job specs of
Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined, Lightning
workflows, docker-compose and what Python submits.

Why it costs GPU time
All GPUs of the job are idle until the copy is done. Remote Data Read is one of the study's fifteen
categories.

When to ignore this rule
A bundle of code or a single archive that takes seconds; a copy in the background while the program already
trains.

Fix safety
Unsafe: what runs before the program in a Slurm job moves to a new script beside it, which requests no GPUs, and a
second new script submits both in order. In jobs of Kubernetes and SkyPilot it moves to a job file of its own if it
writes to a volume or bucket that both mount. In Argo's workflows, JobSets and Tekton's pipelines it becomes a part of
the same file that requests no GPUs and runs first. In Azure ML it becomes a step on a compute target without GPUs (one
that the tree names, or ``azureml:cpu-cluster``, to be replaced), whose output the job can read but not write; a command
job becomes a pipeline. Both parts have to see the folders that are written. Archives and folders for the node's
own disk stay in the job: those that are independent of each other are unpacked and copied at the same time, and a
``wait`` follows. Steps in functions, or that may need the results of other commands, are left in place, with the
reason.

References
https://slurm.schedmd.com/sbatch.html#OPT_dependency
"""

from __future__ import annotations

from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.local_copies import stages
from gpulint.launch.transfer_commands import copy_tool
from gpulint.programs import preparation
from gpulint.programs.gpu_jobs import GpuJobCommand, GpuJobs, tests_existence
from gpulint.programs.multi_gpu_use import MultiGpuUse, Use
from gpulint.programs.requested_steps import runs_on_request
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule

_DEPENDS = {
    "slurm": " (`sbatch --dependency=afterok:...`)",
    "pbs": " (`qsub -W depend=afterok:...`)",
    "lsf": " (`bsub -w 'done(...)'`)",
}
"""How a job of a batch system waits for another."""
_INSTEAD = {
    "mosaicml": "read the files from the bucket as the program needs them (`streaming` for data sets), or build them "
    "into the job's image",
}
"""What to do on platforms whose jobs wait for no other and mount no storage."""
_TABLE = regex.compile(r"/[^/*{$]+\.(csv|tsv|ini)$")
_FILE = Cost("data-copy", seconds=(1, 10), basis="one file")
"""Most such files are small (assumed)."""
_CODE = regex.compile(r"\.(py|sh|ya?ml|json|txt|toml|cfg|whl|deb)\b|/(code|src|scripts?|configs?)/?$")

_FEW = regex.compile(r"--(?:assets|only|what)[= ]+(?:tokenizer|vocab|config)(?= --|$)")
"""What a program that brings data is told where it brings only the tokenizer of a model."""
_TOKENIZER = Cost("download", seconds=(0.2, 3), basis="a tokenizer")


def check(document: Document, project: Project) -> Iterator[Finding]:
    for held in project.fact(GpuJobs).commands_of(document):
        tool = copy_tool(project.models, held.command)
        if not tool or held.command.background or preparation.keeps_results(project, document, held.job):
            continue
        if not _is_code(held) and _trains_later(held) and not runs_on_request(held.command):
            yield RULE.finding(
                document.path,
                held.command.span,
                f"{tool} copies data while the job holds its GPUs",
                help=_advice(held.job.task.system, tool),
                related=(held.evidence,),
                cost=_FILE if _is_one_file(held) else None,
            )
    yield from _on_own_disk(document, project)
    yield from _fetchers(document, project)


def _advice(system: str, tool: str) -> str:
    if (instead := _INSTEAD.get(system)) is not None:
        return f"{instead}; the GPUs then wait for no copy"
    depends = _DEPENDS.get(system, "")
    return (
        f"copy in a job without GPUs that this one depends on{depends}, or mount the data; {tool} then runs before the "
        "GPUs are allocated"
    )


def _on_own_disk(document: Document, project: Project) -> Iterator[Finding]:
    """Archives and folders that the job lays out on its own disk before it trains."""
    commands = project.fact(GpuJobs).commands_of(document)
    uses = project.fact(MultiGpuUse).uses
    jobs = {id(held.job): held.job for held in commands}
    # GPU106 reports jobs that need no GPU at all.
    jobs = {key: job for key, job in jobs.items() if not job.launches or uses(job) is not Use.NO}
    staged = {id(command): text for job in jobs.values() for command, text in stages(project.models, job)}
    for held in commands:
        text = staged.get(id(held.command))
        if text is not None and _trains_later(held) and not tests_existence(held.command):
            yield RULE.finding(
                document.path,
                held.command.span,
                f"`{held.command.name}` {text} on the node while the job holds its GPUs",
                help=(
                    "train from storage that needs no unpacking (WebDataset shards, SquashFS, a data volume), or lay "
                    "the data out in a job without GPUs on the same node or storage"
                ),
                related=(held.evidence,),
                severity=Severity.INFO,
            )


def _is_one_file(held: GpuJobCommand) -> bool:
    """Return whether a command copies a single table, list or configuration by its name."""
    given = [word.text for word in held.command.argv[1:] if "://" in word.text]
    return len(given) == 1 and _TABLE.search(given[0]) is not None


def _is_code(held: GpuJobCommand) -> bool:
    return any(_CODE.search(word.text) for word in held.command.argv[1:] if "://" in word.text or ":" in word.text)


def _trains_later(held: GpuJobCommand) -> bool:
    """Return whether the job starts anything after the copy. (An upload of results at the end is no start.)"""
    job, here = held.job, held.command.span
    return not job.launches or job.starts_elsewhere or (job.last_start is not None and job.last_start > here)


def _fetchers(document: Document, project: Project) -> Iterator[Finding]:
    """A program that only brings data onto the machine, started by the job before the one that uses the GPUs."""
    for step in preparation.steps(project, document, preparation.BRINGS):
        yield RULE.finding(
            document.path,
            step.span,
            f"{step.name} brings data while the job holds its GPUs",
            help=f"run {step.name} in a job without GPUs and make this one depend on it",
            related=(step.evidence,),
            cost=_TOKENIZER if step.told is not None and _FEW.search(step.told) else None,
        )


RULE = Rule(
    code="GPU332",
    name="data-copy-while-holding-gpus",
    category=Category.REMOTE_DATA_READ,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    summary="GPU job copies its data before it starts to train",
    why="every GPU of the job is idle until the data is copied",
    evidence=(Evidence("Remote Data Read is one of 15 categories in 706 issues of 400 jobs"),),
    check=check,
    cost=Cost("data-copy"),
    fix=Safety.UNSAFE,
    bad="""\
#!/bin/bash
#SBATCH --gres=gpu:8
aws s3 sync s3://bucket/imagenet /scratch/imagenet
torchrun --nproc_per_node=8 train.py --data /scratch/imagenet
""",
    good="""\
#!/bin/bash
#SBATCH --gres=gpu:8
# submitted with --dependency=afterok:<id of the copy job>
torchrun --nproc_per_node=8 train.py --data /scratch/imagenet
""",
    references=("https://slurm.schedmd.com/sbatch.html#OPT_dependency",),
)
