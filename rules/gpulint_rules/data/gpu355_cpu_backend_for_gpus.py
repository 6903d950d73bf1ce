"""What it detects
``init_process_group`` with the ``gloo`` or ``mpi`` backend, written or by default, in a program that trains one model
on several GPUs, and NCCL transports switched off in launchers or code (``NCCL_P2P_DISABLE=1``,
``NCCL_IB_DISABLE=1``, ``NCCL_SHM_DISABLE=1``).

Recognizes torch.distributed, and the variables in Python, shell scripts, Dockerfiles and job specs.

Why it costs GPU time
Gloo copies every gradient through host memory, and NCCL without peer-to-peer, InfiniBand or shared memory falls
back to slower paths, so the GPUs wait for each other. Data exchange accounts for 7.1% of the study's 706 issues.

When to ignore this rule
The backend is chosen by what is available, or for Windows; processes exchange only metrics; a machine
has no InfiniBand (silent where the file speaks of EFA or Ethernet, or where its job has one node) or a faulty
peer-to-peer path and the variable is the documented work-around.

Fix safety
Unsafe: results may differ in rounding, and a work-around may be there for a reason.

References
https://pytorch.org/docs/stable/distributed.html#which-backend-to-use
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.call_syntax import passed_as
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.job import DeclaredCount, Job
from gpulint.launch.job_index import JobIndex
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.programs.environment_variables import EnvironmentSetting, is_explained, settings
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.single_gpu import only_as_one_process
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training.collectives import Collectives, wraps_in_ddp, wraps_itself
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Value
from gpulint.values.replaced_settings import may_be_replaced
from gpulint.workspace.module_index import ModuleIndex, source_text

_TRANSPORTS = {"NCCL_P2P_DISABLE": "peer-to-peer", "NCCL_IB_DISABLE": "InfiniBand", "NCCL_SHM_DISABLE": "shared memory"}
_CHOICES = regex.compile(r"platform|win32|available|\bnt\b|darwin|cuda|gpu|windows|device", re.IGNORECASE)
_GPU_COUNT = regex.compile(r"--(num|n)?[-_]?gpus?")
_NODES = regex.compile(
    r"--(nnodes|num[-_]machines|num[-_]nodes|hostfile)[= ]+[\"']?(?!1\b)[\w$./]"
    r"|\b(NNODES|NUM_NODES)[\"']?\s*[:=]\s*[\"']?(?!1\b)[\d$]"
)
"""Options and variables for several machines."""
_WORDS = 3
"""Least words of a comment that says something."""
_INIT = frozenset({"torch.distributed.init_process_group", "torch.distributed.distributed_c10d.init_process_group"})


@dataclass(frozen=True, slots=True)
class CpuBackend:
    """The backend argument, when there is one to edit."""

    backend: str
    node: ast.expr | None = None


_OTHER_NETWORK = regex.compile(
    r"\befa\b|FI_PROVIDER|[-_]efa\b|ethernet|NCCL_SOCKET_IFNAME\W{1,8}(value\W{1,8})?(eth|en[ops]|bond)", re.IGNORECASE
)
"""Signs of a network other than InfiniBand, for which NCCL brings a transport of its own."""


_MEASURES = regex.compile(
    r"[nr]ccl[-_]tests|\b(all_reduce|all_gather|alltoall|broadcast|reduce|reduce_scatter|sendrecv)_perf\b"
)
"""Programs that measure one transport, for which the others are switched off."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    yield from _transports(document, project)
    module = project.module(document)
    if module is None:
        return
    for call in module.calls_by_name.get("init_process_group", []):
        if not project.fact(Resolver).call_names(module, call) & _INIT:
            continue
        known = project.fact(Arguments).value(module, call, "backend", 0)
        if not known.every(lambda value: value in ("gloo", "mpi")):
            continue
        if (
            _chosen(module, call)
            or project.fact(Guards).is_error_path(module, call)
            or _others_use_nccl(project, module, call)
            or _has_no_gpus(module)
            or _has_group_of_its_own(project, module)
            or _moves_with_nccl(project, module, call)
            or not _moves_to_gpu(module, project)
            or project.fact(GpuPrograms).is_elsewhere(module)
        ):
            continue
        if not _exchanges_gradients(module, project):
            continue
        backend = str(known.values[0].value)
        default = next((value for value in known.values if _is_default(project, value)), None)
        yield RULE.finding(
            document.path,
            module.syntax.span(call),
            f"the {backend} backend exchanges GPU tensors through host memory" + (" by default" if default else ""),
            help="use the `nccl` backend (or `cpu:gloo,cuda:nccl` if CPU tensors are exchanged as well)",
            severity=Severity.INFO if default else None,
            related=(Place(default.place.path, default.place.span, "the default"),) if default else (),
            payload=CpuBackend(backend, passed_as(call, "backend", 0)),
        )


def _is_default(project: Project, value: Value) -> bool:
    return value.source == "default" or may_be_replaced(project, value.place)


def _transports(document: Document, project: Project) -> Iterator[Finding]:
    """Transports of NCCL that the environment switches off."""
    first: EnvironmentSetting | None = None
    for setting in settings(document, project, frozenset(_TRANSPORTS)):
        if (
            setting.value != "1"
            or setting.conditional
            or is_explained(document, setting.span)
            or _has_comment(document, setting.span)
        ):
            continue
        first = first or setting
        if not (
            _has_other_network(setting.name, document)
            or _MEASURES.search(document.source.text)
            or _is_unused(setting.name, document, setting.span, project)
        ):
            yield RULE.finding(
                document.path,
                setting.span,
                f"{setting.name}=1 switches off NCCL's {_TRANSPORTS[setting.name]} transport",
                help=f"remove `{setting.name}` unless this machine needs it",
                payload=CpuBackend(setting.name),
                cost=Cost("restricted-transport"),
                cause=Place(document.path, first.span),
            )


def _has_other_network(name: str, document: Document) -> bool:
    return name == "NCCL_IB_DISABLE" and bool(
        _OTHER_NETWORK.search(document.source.text) or _OTHER_NETWORK.search(document.path.stem)
    )


def _is_unused(name: str, document: Document, span: Span, project: Project) -> bool:
    """Return whether all jobs that get the variable do without the transport: one node for InfiniBand, one GPU for the
    others."""
    jobs = project.fact(JobIndex).jobs_setting(document.path, span)
    if name == "NCCL_IB_DISABLE":
        return not (any(map(_has_several_nodes, jobs)) or document.matches(_NODES))
    if jobs:
        return all(_is_one(job.gpus) for job in jobs)
    return only_as_one_process(project, document.path)


def _has_several_nodes(job: Job) -> bool:
    """Return whether a job names more than one node or pod, or leaves their number open."""
    counts = [count for count in (job.nodes, job.task.replicas) if count is not None]
    return any(count.value is None or count.value > 1 for count in counts)


def _has_comment(document: Document, span: Span) -> bool:
    """Return whether a comment on the line says what the setting is for."""
    return len(document.cell_source(span.cell).line(span.line).partition("#")[2].split()) >= _WORDS


def _is_one(count: DeclaredCount | None) -> bool:
    return count is not None and count.value == 1


def _chosen(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the call is one branch of a choice by platform or availability, or a comment in it names the
    choice."""
    comments = (line.partition("#")[2] for line in module.syntax.text(call).splitlines())
    if any("nccl" in comment.lower() for comment in comments):
        return True
    return any(_CHOICES.search(ast.unparse(test)) for test, _ in conditions(module, call))


def _others_use_nccl(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether another function of the module initialises NCCL, so that this one does without on purpose."""
    values = project.fact(Arguments)
    return any(
        module.function(other) is not module.function(call)
        and values.value(module, other, "backend", 0).any(lambda value: value == "nccl")
        for other in module.calls_by_name.get("init_process_group", [])
        if other is not call
    )


def _has_group_of_its_own(project: Project, module: ModuleIndex) -> bool:
    """Return whether the models exchange their gradients in another group, which uses NCCL."""
    wrappers = module.calls_by_name.get("DistributedDataParallel", []) + module.calls_by_name.get("DDP", [])
    values = project.fact(Arguments)
    return (
        bool(wrappers)
        and all(any(keyword.arg == "process_group" for keyword in call.keywords) for call in wrappers)
        and any(
            values.value(module, group, "backend", 2).any(lambda value: value == "nccl")
            for group in module.calls_by_name.get("new_group", [])
        )
    )


def _moves_with_nccl(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the program only takes a GPU where the same option says NCCL (``if args.backend == "nccl"``)."""
    options = {
        source_text(ref.module, ref.node)
        for ref in project.fact(Arguments).of(module, call, "backend", 0).refs
        if isinstance(ref.node, ast.Name | ast.Attribute) and ref.module is module
    }
    return any(
        holds and isinstance(part, ast.Compare) and _asks_for_nccl(part) and source_text(module, part.left) in options
        for moved in module.calls_where(lambda name: name in ("device", "set_device"))
        if "cuda" in module.syntax.text(moved)
        for test, holds in conditions(module, moved)
        for part in walk(test)
    )


def _asks_for_nccl(test: ast.Compare) -> bool:
    match test.ops, test.comparators:
        case [ast.Eq()], [ast.Constant(value="nccl")]:
            return True
    return False


def _has_no_gpus(module: ModuleIndex) -> bool:
    """Return whether the number of GPUs is an option of the program whose default is zero."""
    return any(
        any(isinstance(given, ast.Constant) and _GPU_COUNT.fullmatch(str(given.value)) for given in option.args[:2])
        and any(keyword.arg == "default" and ast.unparse(keyword.value) in ("0", "-1") for keyword in option.keywords)
        for option in module.calls_by_name.get("add_argument", [])
    )


def _exchanges_gradients(module: ModuleIndex, project: Project) -> bool:
    """Return whether the program wraps its model for several processes, or reduces gradients itself. Others exchange
    what they have measured or made, which is little or lies in host memory."""
    if project.fact(LoopContexts).has_training_step(module) and wraps_in_ddp(module, project):
        return True
    return wraps_itself(module, project) or any(
        isinstance(part, ast.Attribute) and part.attr == "grad"
        for name in project.models.derived(Collectives).reductions
        for call in module.calls_by_name.get(name, [])
        for argument in call.args[:1]
        for part in walk(argument)
    )


def _moves_to_gpu(module: ModuleIndex, project: Project) -> bool:
    return any(transfer.to_gpu for transfer in project.fact(DeviceTransfers).transfers(module))


RULE = Rule(
    code="GPU355",
    name="cpu-backend-for-gpus",
    category=Category.DATA_EXCHANGE,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset(Kind),
    tokens=(("init_process_group", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE"),),
    summary="GPU tensors are exchanged over a slow path",
    why="gloo and restricted NCCL transports move gradients through host memory while the GPUs wait",
    evidence=(Evidence("data exchange: 7.1% of 706 issues"),),
    check=check,
    cost=Cost("slow-exchange"),
    fix=Safety.UNSAFE,
    bad='dist.init_process_group("gloo")\nmodel = DDP(model.cuda())\n',
    good='dist.init_process_group("nccl")\nmodel = DDP(model.cuda())\n',
    references=("https://pytorch.org/docs/stable/distributed.html#which-backend-to-use",),
)
