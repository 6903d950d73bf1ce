"""Copies of single numbers to the host that a function stacks there to compute one number of them: the norm of all
gradients of a model."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Edit, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.device_reads import read_around

_STACKS = frozenset({"torch.stack"})
_REDUCES = frozenset(
    {f"torch.{name}" for name in ("norm", "linalg.norm", "linalg.vector_norm", "sum", "mean", "max", "min")}
)
_METHODS = frozenset({"norm", "sum", "mean", "max", "min"})


def stacked(project: Project, found: HostWait) -> Fix | None:
    """``torch.norm(torch.stack([p.grad.norm().cpu() for p in parameters])).item()``: stack them on the GPU."""
    edits = list[Edit]()
    for sync in found.syncs:
        copy = _copied(found.module, sync.node)
        if copy is None or not _is_read_as_number(project, found.module, copy):
            return None
        assert isinstance(copy.func, ast.Attribute)
        (_, start), (_, end) = (found.module.syntax.offsets(node) for node in (copy.func.value, copy))
        edits.append(Edit(found.module.path, found.module.syntax.span_at(start, end), ""))
    if not edits:
        return None
    return Fix(
        "compute the number on the GPU, and read it instead of one for each parameter; its last digit may differ",
        Safety.UNSAFE,
        tuple(dict.fromkeys(edits)),
    )


def _copied(module: ModuleIndex, node: ast.AST) -> ast.Call | None:
    """The copy that is the element of a comprehension, of which a node is a part."""
    inner: ast.AST = node
    while isinstance(up := module.syntax.parents.get(inner), ast.Call | ast.Attribute):
        inner = up
    is_element = isinstance(up, ast.ListComp) and up.elt is inner
    return inner if is_element and isinstance(inner, ast.Call) and _copies(inner) else None


def _copies(call: ast.Call) -> bool:
    """``norm.cpu()``, ``norm.to("cpu")``"""
    match call:
        case ast.Call(func=ast.Attribute(attr="cpu"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value="cpu")], keywords=[]):
            return True
    return False


def _is_read_as_number(project: Project, module: ModuleIndex, copy: ast.Call) -> bool:
    """Return whether the copies are stacked, and a number is computed of the stack which is all that is read."""
    resolver, parents = project.fact(Resolver), module.syntax.parents
    stack = parents.get(parents[copy])
    if not isinstance(stack, ast.Call) or not resolver.names(module, stack.func) & _STACKS:
        return False
    number, reduced = stack, False
    while True:
        match up := parents.get(number):
            case ast.Call(args=[first, *_]) if first is number and resolver.names(module, up.func) & _REDUCES:
                number, reduced = up, True
            case ast.Attribute(attr=name) if name in _METHODS and isinstance(call := parents.get(up), ast.Call):
                number, reduced = call, True
            case _:
                break
    if not reduced:
        return False
    if read_around(module, number) is not None:
        return True
    match up:
        case ast.Assign(targets=[ast.Name(id=name)]):
            bindings = module.scope(up).lookup(name)
            loads = [
                node
                for node in module.named.get(name, [])
                if isinstance(node.ctx, ast.Load) and module.scope(node).lookup(name) is bindings
            ]
            own = [node for node in loads if any(one.value is number for one in reaching(module, bindings, node))]
            return bool(own) and all(read_around(module, node) is not None for node in own)
    return False
