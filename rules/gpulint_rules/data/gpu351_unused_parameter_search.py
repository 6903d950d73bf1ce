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
optional heads. Not reported where the program steps several optimizers or the wrapped model's ``forward`` branches.

Fix safety
Unsafe: if a parameter is unused after all, DDP raises an error in the second iteration. Left alone where the model
calls single parts of another one (``self.base.layer1(x)``), or where a comment may say why.

References
https://pytorch.org/docs/stable/notes/ddp.html#internal-design
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.project import Project
from gpulint.reasons import is_explained
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.parallel_wrappers import only_infers
from gpulint.values.constants import Constants
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
        if only_infers(project, module, call) or is_explained(document, module.syntax.span(keyword.value)):
            continue
        yield RULE.finding(
            document.path,
            module.syntax.span(call),
            f"{name} searches the graph for unused parameters in every step",
            help=f"remove `{module.syntax.text(keyword)}`; keep it if DDP then reports unused parameters",
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
