"""What it detects
``torch.nn.DataParallel`` (or the functional ``data_parallel``) around a model.

Knows PyTorch's and PyG's ``DataParallel``.

Why it costs GPU time
One Python process drives all GPUs: every step it copies the model to each of them, scatters the batch, gathers the
outputs on the first GPU and computes the loss there, while the others wait. ``DistributedDataParallel`` keeps one
process and one replica per GPU and overlaps the gradient exchange with the backward pass. Data exchange makes up
7.1 % of the study's 706 issues.

When it is right not to change
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
from collections.abc import Iterator

from gpulint.documents.base import Document
from gpulint.facts.scopes import ModuleScopes
from gpulint.finding import Finding, Severity
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule

_NAMES = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
        "torch.nn.parallel.data_parallel",
        "torch.nn.parallel.data_parallel.data_parallel",
        "torch_geometric.nn.DataParallel",
    }
)
_NO_TRAINING = frozenset({"eval", "cuda", "to", "half"})
"""Methods of a model that say nothing of training."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    scopes = project.scopes(document)
    if scopes is None:
        return
    for call in project.resolver.calls_to(scopes, _NAMES):
        functional = any(name.endswith(".data_parallel") for name in project.resolver.call_names(scopes, call))
        devices = project.arguments.value(scopes, call, "device_ids", 2 if functional else 1)
        if devices.every(lambda value: isinstance(value, tuple) and len(value) == 1):
            continue
        if _only_infers(project, scopes, call):
            continue
        model = scopes.module.text(call.args[0]) if call.args else ""
        wrapped = f"`{model}`" if 0 < len(model) < 40 else "the model"
        yield RULE.finding(
            document.path,
            scopes.module.span(call),
            f"{'data_parallel' if functional else 'DataParallel'} drives all GPUs for {wrapped} from one process",
            help=f"wrap {wrapped} in DistributedDataParallel and start `torchrun --nproc_per_node=gpu`",
        )


def _only_infers(project: Project, scopes: ModuleScopes, call: ast.Call) -> bool:
    """Is the wrapped model only called without gradients, or unwrapped, in its function or module (an attribute: its
    class)?"""
    assigned, function = scopes.module.parents.get(_chained(scopes, call)), scopes.function(call)
    if not isinstance(assigned, ast.Assign):
        return False
    target = ast.unparse(assigned.targets[0])
    attribute = isinstance(assigned.targets[0], ast.Attribute)
    home: ast.AST | None = function or scopes.module.tree
    if attribute:
        home = next((up for up in scopes.module.ancestors(call) if isinstance(up, ast.ClassDef)), None)
    elif not isinstance(assigned.targets[0], ast.Name):
        return False
    runs = loads = 0
    for node in ast.walk(home) if home is not None else ():
        if not isinstance(node, ast.Attribute if attribute else ast.Name) or ast.unparse(node) != target:
            continue
        if isinstance(node.ctx, ast.Store) or (not attribute and node.lineno <= (assigned.end_lineno or 0)):
            continue
        if function is None and not attribute and _is_another(scopes, node, assigned):
            continue
        up = scopes.module.parents.get(node)
        if isinstance(up, ast.Call) and up.func is node and project.guards.no_grad(scopes, up):
            runs += 1
        elif isinstance(up, ast.Attribute) and up.attr in ("load_state_dict", "state_dict", "module"):
            # Weights alone are read and written under the names that the wrapper gives them: nothing runs.
            loads += up.attr == "module" or (up.attr == "state_dict" and not attribute and len(assigned.targets) == 1)
        elif not (
            up is call
            or (isinstance(up, ast.Attribute) and up.attr in _NO_TRAINING)
            or (isinstance(up, ast.Call) and project.resolver.call_names(scopes, up) & {"torch.onnx.export"})
        ):
            return False
    return runs + loads > 0


def _is_another(scopes: ModuleScopes, node: ast.AST, assigned: ast.Assign) -> bool:
    """Does a name stand for something of its own function, not for what the module assigned?"""
    assert isinstance(node, ast.Name)
    return not any(binding.value is assigned.value for binding in scopes.scope(node).lookup(node.id))


def _chained(scopes: ModuleScopes, call: ast.Call) -> ast.AST:
    """``DataParallel(model).to(device)`` as a whole."""
    whole: ast.AST = call
    for up in scopes.module.ancestors(call):
        if isinstance(up, ast.Attribute) and up.attr not in _NO_TRAINING:
            break
        if not isinstance(up, ast.Attribute | ast.Call) or (isinstance(up, ast.Call) and whole is not up.func):
            break
        whole = up
    return whole


RULE = Rule(
    code="GPU352",
    name="dataparallel-not-ddp",
    category=Category.DATA_EXCHANGE,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("DataParallel", "data_parallel"),),
    summary="nn.DataParallel where DistributedDataParallel fits",
    why=(
        "DataParallel copies the model, scatters inputs and gathers outputs on one GPU in every step (data "
        "exchange: 7.1 % of the study's 706 issues)"
    ),
    evidence=(Evidence("data exchange: 7.1 % of 706 issues"),),
    check=check,
    bad="model = torch.nn.DataParallel(model).cuda()\n",
    good="model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])\n",
    references=("https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",),
)
