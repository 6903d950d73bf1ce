"""What it detects
A job that holds several GPUs on a node and starts one process whose program, with everything that it imports,
trains without any way to use more than one: no DataParallel, DDP, FSDP, Accelerate, DeepSpeed, Horovod, Lightning,
Trainer, device map, second device.

Recognizes PyTorch, TensorFlow and Keras as what trains on one GPU; also ``pmap``, ``MirroredStrategy``, ``spawn``, Ray
Train and tensor or pipeline parallelism as ways to use more; Slurm, PBS, LSF and SGE directives; job specs of
Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined, Lightning
workflows, docker-compose and what Python submits.

Why it costs GPU time
All GPUs but the first do nothing for the whole job. The study counts missing data parallelism among the API misuses
(Figure 6).

When to ignore this rule
Pipeline or tensor parallelism by hand, independent runs per GPU, a model too small to gain from more GPUs: then
request one.

Fix safety
Unsafe, for PyTorch: the model is wrapped in ``torch.nn.DataParallel`` where it has been moved to the GPU, and accesses
to the model itself in the same scope (its state, its own attributes) use ``model.module``, so that these checkpoints
keep their keys. Each batch is split along its first dimension, so a larger one is needed to fill the GPUs. Left alone
where the model returns its loss or functions use attributes that the wrapper lacks: then the fix requests one GPU, as
it does for other libraries. DistributedDataParallel is faster
(one process per GPU) but changes launcher, sampler and global batch: the finding shows the lines that it needs.

References
https://pytorch.org/tutorials/intermediate/ddp_tutorial.html
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.gpu_counts import alone, processes, visible
from gpulint.launch.job import Job, JobLaunch
from gpulint.libraries.gpu_libraries import SECOND_DEVICE
from gpulint.placement.default_devices import is_on_cpu
from gpulint.programs.command_files import says
from gpulint.programs.cpu_starts import computes_on_cpu, keeps_on_cpu
from gpulint.programs.multi_gpu_use import MultiGpuUse, Program, Use
from gpulint.programs.unproven_use import assumption
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import may_train
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_rules.job.idle import idle
from gpulint_rules.job.surplus import Surplus, surplus
from gpulint_rules.library import launched_modes
from gpulint_rules.library.chosen_devices import is_for_another_process

_WRAPPED = """\
wrap the model in torch.nn.DataParallel (Figure 6 of the study), or request one GPU; one process per GPU is faster: \
start `torchrun --nproc_per_node=gpu {program}` and in it
torch.distributed.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
{model} = torch.nn.parallel.DistributedDataParallel({model}.to(device), device_ids=[device.index])
loader = DataLoader(data, sampler=DistributedSampler(data), ...)  # no shuffle; sampler.set_epoch(epoch)
if torch.distributed.get_rank() == 0:
    torch.save({model}.module.state_dict(), path)"""
_LIBRARIES = frozenset({"torch", "tensorflow", "keras"})
"""Only of these is it known that nothing spreads over GPUs by itself."""

_STARTS = regex.compile(
    r"""["'](?:torchrun|torch\.distributed\.(?:run|launch)|accelerate|deepspeed|horovodrun|mpirun)["']"""
    r"|\bos\.fork\(|\b(?:subprocess|os)\.\w+\([^\n]*(?:__file__|sys\.argv|CUDA_VISIBLE_DEVICES)"
)
"""How a program starts a launcher, or itself once more."""
_NUMBERED = regex.compile(r"(?<![\w-])--?[\w-]{0,40}(?:gpu|device|dev)(?:[_-]?ids?)?[ =](\d+)(?!\S)", re.IGNORECASE)
_EVALUATES = regex.compile(
    r"(?<!\S)--?(?:do[-_])?(?:eval(?:uate|uation)?|test|infer(?:ence)?|predict|generate|sample|demo|export)(?:[-_]only|[-_]mode)?(?:$|\s|=(?:1|true)\b)",
    re.IGNORECASE,
)
"""Options of programs that train otherwise."""
_BY_NAME = regex.compile(
    r"\bgetattr\(\s*(?:tf\.distribute|tensorflow\.distribute|(?:torch\.)?nn(?:\.parallel)?)\s*,"
    r"|\bwith [^\n]{1,80}\.scope\(\)"
)
"""A strategy or wrapper by the name that a setting has, or an unknown one."""


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The call that moves the model to its one GPU, if it is known, the GPUs that the job holds, and which of them it
    can do without."""

    module: ModuleIndex
    call: ast.Call | None
    gpus: int
    surplus: Surplus | None


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
        if start.launch.distributed or processes(project, job, start) != (1, None) or start.program is None:
            continue
        program = project.fact(MultiGpuUse).of(start.program)
        if program.use is not Use.YES or not program.libraries & _LIBRARIES or program.parallel or program.pinned:
            continue
        module = project.module_at(start.program)
        if program.mentions(_STARTS) or program.mentions(_BY_NAME):
            continue
        if module is None or program.loads_by_name or not _trains(program, project):
            continue
        if keeps_on_cpu(project, start) or computes_on_cpu(project, module) or is_on_cpu(project, module):
            continue
        if not launched_modes.may_train(module, project):
            continue
        if says(project, start, SECOND_DEVICE) or len(_numbers(start)) > 1:
            continue  # a part of the model goes there
        moved = _moved(module)
        if _names_several(project, program) or (moved is not None and _is_for_each(module, moved)):
            continue
        place = Place(module.path, module.syntax.span(moved)) if moved is not None else start.place
        path = start.program.name
        unproven = _unproven(project, job, start, gpus.value, program)
        yield RULE.finding(
            place.path,
            place.span,
            f"{gpus.value} GPUs are held, but {path} trains on one: its model is never wrapped for several",
            help=_WRAPPED.format(program=path, model=_name(module, moved))
            if "torch" in program.libraries
            else "build and compile the model under `tf.distribute.MirroredStrategy().scope()`, or request one GPU",
            payload=Unwrapped(module, moved, gpus.value, None if unproven else surplus(start, gpus, 1, program)),
            related=(
                Place(gpus.place.path, gpus.place.span, f"{gpus.value} GPUs are requested here"),
                Place(start.place.path, start.place.span, "the launcher starts one process"),
            ),
            cost=idle(1, gpus.value, unproven),
        )


def _unproven(project: Project, job: Job, start: JobLaunch, gpus: int, program: Program) -> str:
    words = " ".join(word.text for word in start.launch.args)
    return "assuming that it trains" if _EVALUATES.search(words) else assumption(project, job, start, gpus, program)


def _numbers(start: JobLaunch) -> set[str]:
    """The numbers of GPUs that the arguments of a launch name: ``--sim_device 1 --rl_device 0``."""
    return set(_NUMBERED.findall(" ".join(word.text for word in start.launch.args)))


def _is_for_each(module: ModuleIndex, moved: ast.Call) -> bool:
    """Return whether a function is handed to what may start it for each GPU: ``launch(train, gpus=4)`` of a
    ``train(rank)`` whose model goes to the GPU of that number."""
    if is_for_another_process(module, moved):
        return True
    function = module.function(moved)
    if function is None:
        return False
    given = {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)}
    read = {part.id for arg in moved.args for part in walk(arg) if isinstance(part, ast.Name)}
    return not given.isdisjoint(read) and any(
        isinstance(call := module.syntax.parents.get(use), ast.Call) and call.func is not use
        for use in module.uses.get(function.name, ())
    )


def _names_several(project: Project, program: Program) -> bool:
    """Return whether parts of a program go to GPUs of different numbers: ``generator.cuda(FIRST)``."""
    constants = project.fact(Constants)
    found = set[object]()
    for module in program.modules_where(lambda project, path: project.word_index.holds(path, b"cuda")):
        numbers = [call.args[0] for call in module.calls_by_name.get("cuda", ()) if len(call.args) == 1]
        numbers += [call.args[1] for call in module.calls_by_name.get("device", ()) if len(call.args) > 1]
        for number in numbers:
            found.update(value for value in constants.of(module, number).constants if type(value) is int)
    return len(found) > 1


def _trains(program: Program, project: Project) -> bool:
    """Return whether some module of the program runs training steps; a word is not enough here."""
    for module in program.modules_where(
        lambda project, path: may_train(project, path) or project.word_index.holds(path, b"fit")
    ):
        if project.fact(LoopContexts).has_training_step(module) or any(
            _is_fit(call) for call in module.calls_by_name.get("fit", [])
        ):
            return True
    return False


def _is_fit(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and last_name(call.func.value).lower().endswith(
        ("model", "net", "network")
    )


def _moved(module: ModuleIndex) -> ast.Call | None:
    """The call that takes the model to its one GPU."""
    for name in ("cuda", "to"):
        for call in module.calls_by_name.get(name, []):
            if (
                isinstance(call.func, ast.Attribute)
                and last_name(call.func.value).lower().endswith(("model", "net", "network"))
                and not _is_output(module, call.func.value)
            ):
                return call
    return None


def _is_output(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a call, such as ``model(images)``, calls what the module keeps in a variable or an attribute."""
    if not isinstance(node, ast.Call):
        return False
    called = last_name(node.func)
    return any(name.id == called and isinstance(name.ctx, ast.Store) for name in module.syntax.of(ast.Name)) or any(
        kept.attr == called and isinstance(kept.ctx, ast.Store) for kept in module.syntax.of(ast.Attribute)
    )


def _name(module: ModuleIndex, moved: ast.Call | None) -> str:
    """Return what the program calls the model that is moved."""
    if moved is None:
        return "model"
    parent = module.syntax.parents.get(moved)
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name | ast.Attribute):
        return ast.unparse(parent.targets[0])
    owner = moved.func.value if isinstance(moved.func, ast.Attribute) else moved
    return ast.unparse(owner) if isinstance(owner, ast.Name | ast.Attribute) else "model"


RULE = Rule(
    code="GPU413",
    name="missing-data-parallel",
    category=Category.API_MISUSE,
    dimension=Dimension.LIBRARY,
    severity=Severity.ERROR,
    kinds=frozenset({Kind.PYTHON, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    scope=Scope.JOB,
    summary="several GPUs, but the model is never wrapped for more than one",
    why="all GPUs but the first do nothing for the whole job",
    evidence=(
        Evidence("API Misuse is one of the study's fifteen categories of low GPU utilization; Figure 6 shows this one"),
    ),
    check=check,
    cost=Cost("idle-gpus"),
    fix=Safety.UNSAFE,
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
