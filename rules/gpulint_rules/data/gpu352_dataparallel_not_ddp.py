"""What it detects
``torch.nn.DataParallel`` (or the functional ``data_parallel``) around a model.

Recognizes PyTorch's and PyG's ``DataParallel``.

Why it costs GPU time
One Python process drives all GPUs: every step it copies the model to each of them, scatters the batch, gathers the
outputs on the first GPU and computes the loss there, while the others wait. ``DistributedDataParallel`` keeps one
process and one replica per GPU and overlaps the gradient exchange with the backward pass. Data exchange accounts for
7.1% of the study's 706 issues.

When to ignore this rule
A single GPU (``device_ids=[0]``), a model that only infers or only writes its weights, or a quick experiment on two
GPUs where the few lines of DDP set-up are not worth it.

Fix safety
Advice only: DDP needs a launcher, a sampler and one process per GPU.

References
https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
https://pytorch.org/tutorials/intermediate/ddp_tutorial.html
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Severity
from gpulint.impact import Cost
from gpulint.launch.gpu_counts import devices as visible_devices
from gpulint.programs.environment_variables import settings
from gpulint.programs.evaluation_programs import only_runs_trained_models
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.single_gpu import only_on_one_gpu
from gpulint.programs.untrained_models import is_never_trained
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.unused_values import is_dropped
from gpulint.training.device_ids import all_name_one, are_of_unknown_number
from gpulint.training.guards import Guards
from gpulint.training.parallel_wrappers import only_infers
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex

_NAMES = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
        "torch.nn.parallel.data_parallel",
        "torch.nn.parallel.data_parallel.data_parallel",
        "torch_geometric.nn.DataParallel",
        "torch_geometric.nn.data_parallel.DataParallel",
    }
)

_TRAINER = regex.compile(r"lightning\b.*\bTrainer(\.from_argparse_args)?$")
_OF_MODULES = ("parameters", "named_parameters", "cuda", "to")
"""Methods of models."""
_COUNTS_GPUS = regex.compile(r"gpu|device", re.IGNORECASE)

_OF_PROCESS = regex.compile(r"rank|local_id|localid|worker_id|process_id", re.IGNORECASE)

_OF_UNKNOWN_NUMBER = Cost("data-parallel", assumed="assuming that it is given several GPUs")


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    for call in project.fact(Resolver).calls_to(module, _NAMES):
        functional = any(name.endswith(".data_parallel") for name in project.fact(Resolver).call_names(module, call))
        devices = project.fact(Arguments).value(module, call, "device_ids", 2 if functional else 1)
        if devices.every(lambda value: isinstance(value, tuple) and len(value) <= 1) or all_name_one(
            project, module, call, 2 if functional else 1
        ):
            continue
        if (
            project.fact(Guards).is_without_gpu(module, call)
            or _on_one_gpu(module, call)
            or _is_unwrapped(module, call)
            or _is_for_names(module, call)
            or _is_unwrapped_by_callers(module, call)
            or is_dropped(module, call)
            or only_infers(project, module, call)
            or is_never_trained(project, module, call)
            or only_runs_trained_models(project, module)
            or only_on_one_gpu(project, document.path)
            or _sees_one_gpu(project, module)
            or _is_given_one(project, module, call)
        ):
            continue
        if functional and project.fact(Guards).is_without_gradients(module, call):
            continue  # the same, in one call
        counts = {len(value) for value in devices.constants if isinstance(value, tuple)}
        driven = f"{counts.pop()} GPUs" if devices.complete and len(counts) == 1 else "all GPUs"
        model = _model(module, call)
        wrapped = f"`{model}`" if 0 < len(model) < 40 else "the model"
        unknown = are_of_unknown_number(project, module, call, 2 if functional else 1)
        yield RULE.finding(
            document.path,
            module.syntax.span(call),
            f"{'data_parallel' if functional else 'DataParallel'} drives {driven} for {wrapped} from one process",
            help=_advice(project, module, call, wrapped),
            cost=_OF_UNKNOWN_NUMBER if unknown else None,
        )


def _advice(project: Project, module: ModuleIndex, call: ast.Call, wrapped: str) -> str:
    if _is_for_lightning(project, module, call):
        return f'pass {wrapped} to the Trainer unwrapped, with `strategy="ddp"`'
    whole = _whole(project, module, call)
    wrapped = f"all that is trained ({whole}, of which {wrapped} is a part)" if whole else wrapped
    return f"wrap {wrapped} in DistributedDataParallel and start `torchrun --nproc_per_node=gpu`"


def _whole(project: Project, module: ModuleIndex, call: ast.Call) -> str:
    """Return the model that a wrapped part of it is put back into (``model.encoder = DataParallel(model.encoder)``)."""
    statement = module.syntax.parents.get(call)
    if not (isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Attribute)):
        return ""
    whole = ast.unparse(target.value)
    if whole == "self":
        owner = module.class_of(call)
        bases = project.fact(Resolver).base_names(module, owner) if owner is not None else ()
        return "the whole module" if any(base.endswith("nn.Module") for base in bases) else ""
    moved = (other for name in _OF_MODULES for other in module.calls_by_name.get(name, ()))
    is_model = any(isinstance(one.func, ast.Attribute) and ast.unparse(one.func.value) == whole for one in moved)
    return f"`{whole}`" if is_model and call.args and ast.unparse(call.args[0]) == ast.unparse(target) else ""


def _sees_one_gpu(project: Project, module: ModuleIndex) -> bool:
    """Return whether the programs that run a module hide all GPUs but one from themselves, by an option that nothing
    passes more for, too (``os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu``)."""
    homes = [module, *filter(None, map(project.module_at, project.fact(GpuPrograms).users(module.path)))]
    programs = [home for home in homes if "__main__" in home.syntax.source.text] or [module]
    return all(_shows_itself_one(project, program) for program in programs)


def _shows_itself_one(project: Project, program: ModuleIndex) -> bool:
    document = project.document(program.path)
    found = settings(document, project, frozenset({"CUDA_VISIBLE_DEVICES"})) if document is not None else ()
    own = [one for one in found if one.node is not None]
    return bool(own) and all(
        len(visible_devices(one.value)) == 1 if one.value is not None else _names_process(program, one.node)
        for one in own
    )


def _names_process(module: ModuleIndex, node: ast.AST | None) -> bool:
    """``os.environ["CUDA_VISIBLE_DEVICES"] = str(comm.Get_rank() % 4)``"""
    statement = module.syntax.parents.get(node) if node is not None else None
    return isinstance(statement, ast.Assign) and bool(_OF_PROCESS.search(ast.unparse(statement.value)))


def _is_given_one(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether Ray runs the code with one GPU at most (``@ray.remote(num_gpus=1)``)."""
    return any(
        isinstance(decorator, ast.Call)
        and "ray.remote" in project.fact(Resolver).call_names(module, decorator)
        and project.fact(Arguments)
        .value(module, decorator, "num_gpus")
        .every(lambda value: isinstance(value, int | float) and value <= 1)
        for up in module.syntax.ancestors(call)
        if isinstance(up, (*FUNCTIONS, ast.ClassDef))
        for decorator in up.decorator_list
    )


def _model(module: ModuleIndex, call: ast.Call) -> str:
    """Return what is wrapped, as it is written: ``model`` of ``model = DataParallel(restore(model, path))``."""
    if not call.args:
        return ""
    statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), None)
    target = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    made = call.args[0]
    again = isinstance(made, ast.Call) and target in map(ast.unparse, made.args)
    return target if again else module.syntax.text(made)


def _is_for_lightning(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether Lightning's ``Trainer`` trains what is wrapped: it starts a process per GPU itself."""
    statement = module.syntax.parents.get(call)
    names = {ast.unparse(target) for target in statement.targets} if isinstance(statement, ast.Assign) else set()
    resolver = project.fact(Resolver)
    return any(
        _TRAINER.search(name)
        for fit in module.calls_by_name.get("fit", ())
        if isinstance(fit.func, ast.Attribute) and fit.args and ast.unparse(fit.args[0]) in names
        for made in resolver.points_to(module, fit.func.value)
        if isinstance(made.node, ast.Call)
        for name in resolver.call_names(made.module, made.node)
    )


def _is_unwrapped(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the same block takes the model out again (``model = model.module``), as to load its weights."""
    statement = module.syntax.parents.get(call)
    place = module.syntax.place(statement) if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or place is None:
        return False
    names = {ast.unparse(target) for target in statement.targets}
    block = getattr(module.syntax.parents[statement], place[0])
    return any(
        isinstance(later, ast.Assign)
        and isinstance(later.value, ast.Attribute)
        and later.value.attr == "module"
        and ast.unparse(later.value.value) in names
        for later in block[place[1] + 1 :]
    )


def _is_for_names(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a model is wrapped to load weights under the names that the wrapper gives them: the function
    wraps it again further down, where there are several GPUs."""
    statement = module.syntax.parents.get(call)
    place = module.syntax.place(statement) if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or place is None:
        return False
    names, function = {ast.unparse(target) for target in statement.targets}, module.function(call)
    block = getattr(module.syntax.parents[statement], place[0])
    loads = any(
        isinstance(part, ast.Attribute) and part.attr == "load_state_dict" and ast.unparse(part.value) in names
        for later in block[place[1] + 1 :]
        for part in walk(later)
    )
    return loads and any(
        other.lineno > call.lineno
        and module.function(other) is function
        and other.args
        and ast.unparse(other.args[0]) in names
        and any(holds and _is_of_several(test) for test, holds in conditions(module, other))
        for other in module.calls_by_name.get("DataParallel", ())
    )


def _is_of_several(test: ast.expr) -> bool:
    """``torch.cuda.device_count() > 1``"""
    match test:
        case ast.Compare(left=count, ops=[ast.Gt()], comparators=[ast.Constant(value=1)]):
            return bool(_COUNTS_GPUS.search(ast.unparse(count)))
    return False


def _is_unwrapped_by_callers(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether every method that runs ``self.model`` takes the model out first (``self.model =
    self.model.module``), so that the wrapper's own forward pass never runs."""
    owner, statement = module.class_of(call), module.syntax.parents.get(call)
    if owner is None or not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Attribute):
        return False
    name = ast.unparse(statement.targets[0])
    methods = [item for item in owner.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
    taken_out = {method: line for method in methods if (line := _unwrapping_line(method, name)) is not None}
    return bool(taken_out) and not any(
        line < taken_out.get(method, line + 1) for method in methods for line in _lines_of_use(method, name, call)
    )


def _unwrapping_line(method: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> int | None:
    """The line of ``name = name.module`` that a method always runs."""
    for item in method.body:
        match item:
            case ast.Assign(targets=targets, value=value) if ast.unparse(value) == f"{name}.module":
                if name in map(ast.unparse, targets):
                    return item.lineno
    return None


def _lines_of_use(method: ast.AST, name: str, wrapping: ast.Call) -> Iterator[int]:
    """Yield the lines where a method calls the model or passes it to a call other than the wrapper."""
    for used in walk(method):
        match used:
            case ast.Call(func=func, args=args) if used is not wrapping and name in map(ast.unparse, (func, *args)):
                yield used.lineno


def _on_one_gpu(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the call is in the branch for a single GPU (``else`` of ``if len(gpu_ids) > 1``)."""
    return any(not holds and _is_of_several(test) for test, holds in conditions(module, call))


RULE = Rule(
    code="GPU352",
    name="dataparallel-not-ddp",
    category=Category.DATA_EXCHANGE,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("DataParallel", "data_parallel"),),
    summary="nn.DataParallel where DistributedDataParallel fits",
    why="DataParallel copies the model, scatters inputs and gathers outputs on one GPU in every step",
    evidence=(Evidence("data exchange: 7.1% of 706 issues"),),
    check=check,
    cost=Cost("data-parallel"),
    bad="model = torch.nn.DataParallel(model).cuda()\n",
    good="model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])\n",
    references=("https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",),
)
