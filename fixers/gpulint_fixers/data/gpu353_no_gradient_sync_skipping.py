"""Exchange gradients once for each update."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu353_no_gradient_sync_skipping import HorovodOptimizer

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.gradient_accumulation import Accumulation, own_length
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_fixers.edits.calls import set_keyword
from gpulint_fixers.edits.statements import insert_above

_PLAIN = frozenset({"DistributedDataParallel", "DDP"})
_OTHER = regex.compile(
    r"FSDP|[Ff]ully_?[Ss]hard|deepspeed|^initialize$|^prepare|^setup|^DataParallel$|compile|script|trace"
)
"""What wraps a model otherwise. A model that is not wrapped takes the attribute as any other."""
_SHARDS = regex.compile(r"FSDP|[Ff]ully_?[Ss]hard")
_ROUNDED = "their sums are rounded differently"
_GRADIENTS = regex.compile(r"^unscale_$|clip_grad|grad(ient)?s?_norm")
_COMPRESSING = ("horovod.torch.", "horovod.tensorflow.", "horovod.keras.")


def fix(finding: Finding, project: Project) -> Fix | Declined:
    module, found = project.module_at(finding.path), finding.payload
    if module is not None and isinstance(found, HorovodOptimizer):
        return _horovod(project, module, found)
    if module is not None and isinstance(found, Accumulation):
        return _skip(project, module, found)
    return Declined("the finding does not say what exchanges the gradients")


def _horovod(project: Project, module: ModuleIndex, found: HorovodOptimizer) -> Fix | Declined:
    call, syntax = found.call, module.syntax
    passes = _passes(project, module, call)
    if passes is not None and any(name.startswith("horovod.torch.") for name in found.names):
        edit = set_keyword(syntax, call, "backward_passes_per_step", passes)
        return Fix(
            "exchange gradients once for each update; their sums are rounded differently", Safety.UNSAFE, (edit,)
        )
    horovod = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(horovod, ast.Name) or not any(name.startswith(_COMPRESSING) for name in found.names):
        return Declined("Horovod is not imported as a module here, or has no compression for this library")
    edit = set_keyword(syntax, call, "compression", f"{horovod.id}.Compression.fp16")
    return Fix("exchange gradients as float16, to which they are rounded", Safety.UNSAFE, (edit,))


def _passes(project: Project, module: ModuleIndex, optimizer: ast.Call) -> str | None:
    """The N of ``if step % N == 0: optimizer.step()`` in the module, if it can be named where the optimizer is made."""
    for call in module.calls_by_name.get("step", []):
        if not isinstance(call.func, ast.Attribute) or "optim" not in last_name(call.func.value).lower():
            continue
        for loop in project.fact(LoopContexts).around(module, call):
            if project.fact(LoopContexts).role(module, loop) is not Role.STEP:
                continue
            for up in module.syntax.ancestors(call):
                if up is loop:
                    break
                if isinstance(up, ast.If):
                    for part in walk(up.test):
                        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
                            return _named_at(module, part.right, optimizer)
    return None


def _named_at(module: ModuleIndex, value: ast.expr, place: ast.expr) -> str | None:
    """The text of a value that means the same at ``place``."""
    for name in walk(value):
        if isinstance(name, ast.Call):
            return None
        if isinstance(name, ast.Name) and module.scope(name).lookup(name.id) != module.scope(place).lookup(name.id):
            return None
    return ast.unparse(value)


def _skip(project: Project, module: ModuleIndex, found: Accumulation) -> Fix | Declined:
    """Tell DDP at the start of each iteration whether its gradients are due."""
    syntax, loop, model = module.syntax, found.loop, found.model
    if model is None or found.last is None or not isinstance(loop, ast.For):
        return Declined("the loop does not show which model is wrapped or when its parameters are updated")
    origins = [ref.node for ref in project.fact(Resolver).points_to(module, model)]
    made = {last_name(node.func) for node in origins if isinstance(node, ast.Call)}
    if (made and not made & _PLAIN) or any(map(_OTHER.search, made)) or "torch.compile" in syntax.source.text:
        return Declined(f"this fix is offered for plain DDP only; {_otherwise(made)}")
    if changed := _changed(loop, found.last):
        return Declined(f"`{changed}` is changed in the loop before the parameters are updated")
    if early := _reads_gradients(module, loop, found.last):
        return Declined(
            f"`{early}` uses the gradients of every micro-step, which would no longer be averaged over the processes"
        )
    if _is_every_step(project, module, found.last):
        return Declined("each update has one micro-step where nothing else is set")
    if length := own_length(module, found):
        return Declined(f"`{length}` may differ between the processes, which must exchange gradients together")
    if other := _other_model(project, module, found):
        return Declined(f"`{other}` is wrapped as well, and would still exchange its gradients")
    text = f"{ast.unparse(model)}.require_backward_grad_sync = {ast.unparse(found.last)}"
    edit = insert_above(syntax, loop.body[0], text)
    if edit is None:
        return Declined("the loop's body is on the same line as its header")
    return Fix(
        f"exchange gradients only in the last micro-step of each update, as `no_sync` does; {_ROUNDED}",
        Safety.UNSAFE,
        (edit,),
    )


def _otherwise(made: set[str]) -> str:
    """Return what else than DDP may wrap a model, by the names of what makes it."""
    if any(map(_SHARDS.search, made)):
        return "under FSDP it increases memory use"
    others = sorted(name for name in made if _OTHER.search(name)) or sorted(made - _PLAIN)
    return f"here `{others[0]}` may wrap the model" if others else "the module compiles its models"


def _other_model(project: Project, module: ModuleIndex, found: Accumulation) -> str:
    """Return another model that the loop calls and DDP wraps; empty if there is none."""
    assert found.loop is not None and found.model is not None
    own = ast.unparse(found.model)
    for call in (part for part in walk(found.loop) if isinstance(part, ast.Call)):
        if not isinstance(call.func, ast.Name | ast.Attribute) or ast.unparse(call.func) == own:
            continue
        made = [ref.node for ref in project.fact(Resolver).points_to(module, call.func)]
        if any(isinstance(node, ast.Call) and last_name(node.func) in _PLAIN for node in made):
            return ast.unparse(call.func)
    return ""


def _is_every_step(project: Project, module: ModuleIndex, last: ast.expr) -> bool:
    """Return whether all that ``n`` of ``(step + 1) % n == 0`` may be in the tree is 1."""
    counts = [part.right for part in walk(last) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)]
    known = [project.fact(Constants).of(module, count) for count in counts]
    return any(values.values and all(value.value == 1 for value in values.values) for values in known)


def _reads_gradients(module: ModuleIndex, loop: ast.For, last: ast.expr) -> str | None:
    """Return what clips, unscales or measures gradients in micro-steps that are not the last one of an update."""
    due = ast.unparse(last)
    for call in module.calls:
        if not _GRADIENTS.search(last_name(call.func)) or loop not in module.syntax.ancestors(call):
            continue
        if not any(holds and due in ast.unparse(test) for test, holds in conditions(module, call, loop)):
            return ast.unparse(call.func)
    return None


def _changed(loop: ast.For, test: ast.expr) -> str | None:
    """A name or attribute of the test that the loop's body assigns."""
    read = {ast.unparse(part) for part in walk(test) if isinstance(part, ast.Name | ast.Attribute)}
    for statement in loop.body:
        for node in walk(statement):
            stored = isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load)
            if stored and (text := ast.unparse(node)) in read:
                return text
    return None


FIXER = Fixer("GPU353", fix)
