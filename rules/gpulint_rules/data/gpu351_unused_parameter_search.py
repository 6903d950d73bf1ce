"""What it detects
``find_unused_parameters=True``: on ``DistributedDataParallel``, Lightning's ``DDPStrategy`` (or the strategy string
that ends in ``find_unused_parameters_true``), Accelerate's ``DistributedDataParallelKwargs`` and Hugging Face's
``ddp_find_unused_parameters``.

Recognizes PyTorch, Lightning, Accelerate, MMCV's ``MMDistributedDataParallel``, and the arguments of transformers and
TRL.

Why it costs GPU time
DDP then walks the whole autograd graph after every forward pass to find parameters that got no gradient, before it
may start to exchange gradients. Data exchange accounts for 7.1% of the study's 706 issues.

When to ignore this rule
Parts of the model really get no gradient in some steps: adversarial training, branches chosen per input, frozen or
optional heads. Not reported where the program steps several optimizers, where the wrapped model's ``forward`` branches,
where a model of the program calls single parts of a library's model (``self.base.layer1(x)``), or parts of its own by
what it is given (``if labels is not None``), by chance or from some epoch on, where nothing reads the output of the
pooler that a model of transformers has, and in programs that only test a model.

Fix safety
Unsafe: if a parameter is unused after all, DDP raises an error in the second iteration. The search is switched off in
the call and in those that wrap the same model in another branch, or in the default of the parameter that the call
passes on. Left alone where a comment may say why or callers ask for the search themselves, where the model has
auxiliary heads whose outputs the loss may leave out (GoogLeNet, Inception, deep supervision that a setting switches)
or a layer that its ``forward`` never reads, where its class is chosen at run time, and where another model is wrapped
beside it without the search.

References
https://pytorch.org/docs/stable/notes/ddp.html#internal-design
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.libraries.downloads import PRETRAINED
from gpulint.libraries.names import matches
from gpulint.libraries.operations import AuxiliaryHeads
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.programs.single_gpu import only_as_one_process
from gpulint.project import Project
from gpulint.query import query
from gpulint.reasons import is_explained
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.parallel_wrappers import only_infers
from gpulint.values.constants import Constants
from gpulint.workload.gpu_samples import kept_attributes
from gpulint.workspace.module_index import ModuleIndex, last_name

_OWNERS = frozenset(
    {
        "DistributedDataParallel",
        "DDP",
        "DDPStrategy",
        "DDPPlugin",
        "DistributedDataParallelKwargs",
        "MMDistributedDataParallel",
    }
)
_ARGUMENTS = frozenset({"TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig"})


_SWITCHES: dict[str, tuple[str, object, str]] = {
    **dict.fromkeys(_OWNERS, ("find_unused_parameters", True, "False")),
    **dict.fromkeys(_ARGUMENTS, ("ddp_find_unused_parameters", True, "False")),
    **dict.fromkeys(("Trainer", "Fabric"), ("strategy", "ddp_find_unused_parameters_true", '"ddp"')),
}
"""Callee -> (keyword, the value that switches the search on, the source text of one that does not)."""


_TRAINS = ("backward", "train", "fit", "step")
"""Methods that a program which trains calls some of."""
_ENTRIES = ("forward", "training_step")
_CHANGES = regex.compile(r"(^|_)(epoch|step|iter|iteration|phase|rand|random|uniform|bernoulli|binomial|drop)(_|$)")
"""Names of what is another value later in a training, or by chance."""
_STAGE = regex.compile(r"layer[1-4]|conv1|features|extract_features|forward_features|encoder|blocks|stem|stages")
"""Parts that many models have."""
_MANAGES = regex.compile(
    r"_$|^(_|to$|cuda$|cpu$|half$|float$|train$|eval$|forward$|apply$|modules|children|parameters|buffers|named_|state_dict"
    r"|load_|save_|add_|register_|requires_|zero_grad|generate|compile|print_|push_|set_|get_(in|out)put_emb|resize_|enable_"
    r"|disable_|gradient_|tie_|merge_|freeze|unfreeze|init_)"
)
"""Methods that a module has besides its parts, of PyTorch and transformers."""


@dataclass(frozen=True, slots=True)
class UnusedSearch:
    """The call and the keyword that switches the search on."""

    call: ast.Call
    keyword: ast.keyword
    off: str
    """What the keyword's value becomes when the search is switched off."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    for call in module.calls:
        name = last_name(call.func)
        wanted, on, off = _SWITCHES.get(name, ("", True, ""))
        keyword = next((keyword for keyword in call.keywords if keyword.arg == wanted), None)
        if keyword is None:
            continue
        known = project.fact(Constants).of(module, keyword.value)
        if not known.complete or any(value.value != on or value.source != "literal" for value in known.values):
            continue
        if _needs_search(module, call, project) or project.fact(Guards).is_without_gpu(module, call):
            continue
        if _runs_parts(project, document.path) or _branches(project, document.path):
            continue
        if _leaves_heads_out(project, document.path):
            continue
        if only_as_one_process(project, document.path):
            continue
        if name.endswith("Kwargs") and _only_evaluates(project, document.path, module):
            continue
        if only_infers(project, module, call) or is_explained(document, module.syntax.span(keyword.value)):
            continue
        yield RULE.finding(
            document.path,
            module.syntax.span(call),
            f"{name} searches the graph for unused parameters in every step",
            help=f"set `{wanted}={off}`; keep the search if DDP then reports unused parameters",
            payload=UnusedSearch(call, keyword, off),
        )


def _needs_search(module: ModuleIndex, call: ast.Call, project: Project) -> bool:
    """Several optimizers, or a model whose forward pass takes different ways."""
    stepped = {
        ast.unparse(step.func.value)
        for step in module.calls_by_name.get("step", [])
        if isinstance(step.func, ast.Attribute) and "opt" in last_name(step.func.value).lower()
    }
    if len(stepped) > 1:
        return True
    if not call.args or last_name(call.func).endswith("Kwargs"):
        return False
    for where, owner in project.fact(Resolver).classes_of(module, call.args[0]):
        forward = project.fact(Resolver).method(where, owner, "forward")
        if forward is not None and any(isinstance(node, ast.If | ast.IfExp) for node in walk(forward.node)):
            return True
    return False


def _only_evaluates(project: Project, path: Path, module: ModuleIndex) -> bool:
    """Return whether a program puts a model in evaluation mode, and nothing in it trains one."""
    modules = project.fact(MultiGpuUse).of(path).modules
    trains = any(name in one.calls_by_name for one in (module, *modules) for name in _TRAINS)
    return "eval" in module.calls_by_name and not trains


@query
def _runs_parts(project: Project, path: Path) -> bool:
    """Return whether a model of the program calls parts of a model that the tree does not define: the other parts may
    get no gradient."""
    return any(
        _runs_part(project, module, call)
        for module in project.fact(MultiGpuUse).of(path).modules
        for call in module.calls
    )


@query
def _leaves_heads_out(project: Project, path: Path) -> bool:
    """Return whether the program trains a library's model and never reads the output of a head that it has
    (``AutoModel.from_pretrained(name)`` without ``outputs.pooler_output``)."""
    modules = project.fact(MultiGpuUse).of(path).modules
    return any(
        row.read
        and not any(
            isinstance(part, ast.Attribute) and part.attr == row.read for m in modules for part in m.syntax.nodes
        )
        and any(_has_head(project, module, call, row) for module in modules for call in module.calls)
        for row in project.models.rows("auxiliary-heads")
    )


def _has_head(project: Project, module: ModuleIndex, call: ast.Call, row: AuxiliaryHeads) -> bool:
    given = keyword_value(call, row.switch)
    return matches(row.calls, project.fact(Resolver).call_names(module, call)) and (
        given is None or not project.fact(Constants).of(module, given).every(lambda value: not value)
    )


@query
def _branches(project: Project, path: Path) -> bool:
    """Return whether an argument of some ``forward`` of the program decides which parts run (``if labels is not
    None: x += self.embedding(labels)``), or the progress of training or chance does in it or in a training step."""
    for module in project.fact(MultiGpuUse).of(path).modules:
        for function in module.functions:
            if isinstance(function, ast.Lambda) or function.name not in _ENTRIES:
                continue
            given = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)} - {"self"}
            owner = module.class_of(function)
            parts = {name for name, _ in kept_attributes(owner)} if owner is not None else set[str]()
            for part in walk(function):
                if isinstance(part, ast.If | ast.IfExp) and _decides(part, given, parts, function.name):
                    return True
    return False


def _decides(branch: ast.If | ast.IfExp, given: set[str], parts: set[str], name: str) -> bool:
    """Return whether a test names an argument, or changes as training goes on, and its branches call parts of the
    model."""
    tested = [part for part in walk(branch.test) if isinstance(part, ast.Name | ast.Attribute)]
    named = any(isinstance(part, ast.Name) and part.id in given for part in tested)
    if not named and not any(_CHANGES.search(last_name(part)) for part in tested):
        return False
    bodies = [*branch.body, *branch.orelse] if isinstance(branch, ast.If) else [branch.body, branch.orelse]
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and ast.unparse(part.func.value) == "self"
        and (name == "forward" or part.func.attr in parts)
        for body in bodies
        for part in walk(body)
    )


def _runs_part(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``self.base.layer1(x)``; with other names only where ``self.base`` is known to be made by a library."""
    match call.func:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")) as owner, attr=part):
            if _MANAGES.search(part) or not _is_model(module, call):
                return False
            resolver = project.fact(Resolver)
            names = {
                name
                for ref in resolver.points_to(module, owner)
                if isinstance(ref.node, ast.Call)
                for name in resolver.call_names(ref.module, ref.node)
            }
            return _STAGE.fullmatch(part) is not None or any(
                name.startswith(PRETRAINED) or name.endswith((".from_pretrained", "torch.hub.load")) for name in names
            )
    return False


def _is_model(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the call is in a class with a ``forward``."""
    owner = module.class_of(call)
    return owner is not None and any(isinstance(p, ast.FunctionDef) and p.name == "forward" for p in owner.body)


RULE = Rule(
    code="GPU351",
    name="unused-parameter-search",
    category=Category.DATA_EXCHANGE,
    dimension=Dimension.DATA,
    severity=Severity.INFO,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("find_unused_parameters",),),
    summary="DDP searches for unused parameters in every step",
    why="the search walks the autograd graph after each forward pass before gradients can be exchanged",
    evidence=(Evidence("data exchange: 7.1% of 706 issues"),),
    check=check,
    cost=Cost("parameter-search"),
    fix=Safety.UNSAFE,
    bad="model = DistributedDataParallel(model, find_unused_parameters=True)\n",
    good="model = DistributedDataParallel(model)\n",
    references=("https://pytorch.org/docs/stable/notes/ddp.html#internal-design",),
)
