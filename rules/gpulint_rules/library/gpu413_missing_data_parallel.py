"""What it detects
A job that holds several GPUs on a node and starts one process whose program, with everything that it imports,
trains without any way to use more than one: no DataParallel, DDP, FSDP, Accelerate, DeepSpeed, Horovod, Lightning,
Trainer, device map, second device.

Knows PyTorch, TensorFlow and Keras as what trains on one GPU; also ``pmap``, ``MirroredStrategy``, ``spawn``, Ray
Train and tensor or pipeline parallelism as ways to use more; Slurm, PBS, LSF and SGE directives; job specs of
Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined, Lightning
workflows and docker-compose.

Why it costs GPU time
All GPUs but the first do nothing for the whole job. The study counts missing data parallelism among the API misuses
(Figure 6).

When it is right not to change
Pipeline or tensor parallelism by hand, independent runs per GPU, a model too small to gain from more GPUs: then
request one.

Fix safety
There is advice only: the global batch, the sampler and the learning rate change with the number of processes.

References
https://pytorch.org/tutorials/intermediate/ddp_tutorial.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.facts.gpus import alone, counts_processes, processes, visible
from gpulint.facts.gpuuse import Program, Use
from gpulint.facts.scopes import ModuleScopes, last_name
from gpulint.finding import Finding, Place, Severity
from gpulint.jobs import Job
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope

_LIBRARIES = frozenset({"torch", "tensorflow", "keras"})
"""Only of these is it known that nothing spreads over GPUs by itself."""


def check(job: Job, project: Project) -> Iterator[Finding]:
    if job.task.role != "main":
        return
    starts = [start for start in job.launches if start.program is not None]
    for start in starts:
        gpus = visible(job, start, project.config.gpus_per_node)
        if (
            gpus is None
            or gpus.value is None
            or gpus.value < 2
            or not alone(job, start)
            or start.launch.command.in_loop
        ):
            continue
        if counts_processes(start.launch) or processes(project, job, start) != (1, None) or start.program is None:
            continue
        program = project.gpu_use.of(start.program)
        if program.use is not Use.YES or not program.libraries & _LIBRARIES or program.parallel or program.pinned:
            continue
        scopes = project.scopes_at(start.program)
        if scopes is None or not _trains(program, project):
            continue
        place = _model(scopes) or start.place
        path = start.program.name
        yield RULE.finding(
            place.path,
            place.span,
            f"{gpus.value} GPUs are held, but {path} trains on one: its model is never wrapped for several",
            help=(
                "wrap the model in torch.nn.parallel.DistributedDataParallel and start it with"
                " `torchrun --nproc_per_node=gpu` (Figure 6 of the study), or request one GPU"
                if "torch" in program.libraries
                else "build and compile the model under `tf.distribute.MirroredStrategy().scope()`, or request one GPU"
            ),
            related=(
                Place(gpus.place.path, gpus.place.span, f"{gpus.value} GPUs are requested here"),
                Place(start.place.path, start.place.span, "the launcher starts one process"),
            ),
        )


def _trains(program: Program, project: Project) -> bool:
    """Whether some module of the program runs training steps; a word is not enough here."""
    for scopes in program.modules:
        if project.loops.trains(scopes) or any(_is_fit(call) for call in scopes.calls_by_name.get("fit", [])):
            return True
    return False


def _is_fit(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and last_name(call.func.value).lower().endswith(
        ("model", "net", "network")
    )


def _model(scopes: ModuleScopes) -> Place | None:
    """Where the model goes to its one GPU."""
    for name in ("cuda", "to"):
        for call in scopes.calls_by_name.get(name, []):
            if isinstance(call.func, ast.Attribute) and last_name(call.func.value).lower().endswith(
                ("model", "net", "network")
            ):
                return Place(scopes.path, scopes.module.span(call))
    return None


RULE = Rule(
    code="GPU413",
    name="missing-data-parallel",
    category=Category.API_MISUSE,
    dimension=Dimension.LIBRARY,
    severity=Severity.ERROR,
    kinds=frozenset({Kind.PYTHON, Kind.SHELL, Kind.JOBSPEC}),
    scope=Scope.JOB,
    summary="several GPUs, and a model that is never wrapped for more than one",
    why="all GPUs but the first do nothing for the whole job",
    evidence=(
        Evidence("API Misuse is one of the study's fifteen categories of low GPU utilization; Figure 6 shows this one"),
    ),
    check=check,
    bad="""\
# sbatch --gres=gpu:4, then: python train.py
model = Net().cuda()
for images, labels in loader:
    step(model, images, labels)
""",
    good="""\
# sbatch --gres=gpu:4, then: torchrun --nproc_per_node=gpu train.py
model = DistributedDataParallel(Net().cuda(local_rank), device_ids=[local_rank])
for images, labels in loader:
    step(model, images, labels)
""",
    references=("https://pytorch.org/tutorials/intermediate/ddp_tutorial.html",),
)
