"""Values that are tensors of the host in some rounds (``else torch.tensor(0.0)``), to which nothing of the GPU can be
added in place."""

from __future__ import annotations

import ast

from gpulint.fix import Declined, Edit
from gpulint.placement.kept_on_gpu import sets_default_device
from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.cuda_tests import excludes_cuda
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, last_name
from gpulint_fixers.waits.deferred_reads import Variable, additions, loops_around
from gpulint_fixers.waits.device_reads import DeviceRead

_MAKES = frozenset(f"torch.{name}" for name in ("tensor", "as_tensor", "zeros", "ones", "full", "empty", "Tensor"))
_MOVES = ("cuda", "to")
_DEPTH = 2
"""Functions in each other whose results are looked at."""

_APART = Declined("the value may be on the host in some rounds, and on the GPU in others")


def apart(project: Project, module: ModuleIndex, reads: list[DeviceRead]) -> Declined | None:
    """Return why a fix declines where an object adds up in place what is on the host in some rounds."""
    return _APART if any(may_be_on_host(project, module, read.tensor) for read in reads) else None


def added_plainly(project: Project, variable: Variable, reads: list[DeviceRead]) -> tuple[Edit, ...] | Declined:
    """Return the edits after which a sum is a new tensor in each round (``total = total + value``), which may be on
    another device than the one before; none where all that is added is on one."""
    module = variable.module
    if not any(may_be_on_host(project, module, read.tensor) for read in reads):
        return ()
    edits = list[Edit]()
    for one in additions(variable):
        start, end = module.syntax.offsets(one.target)[1], module.syntax.offsets(one.value)[0]
        if module.syntax.source.text[start:end].strip() != "+=" or isinstance(one.value, ast.IfExp):
            return Declined(f"a tensor that `{variable.name}` adds up may be on the host in some rounds")
        edits.append(Edit(module.path, module.syntax.span_at(start, end), f" = {variable.name} + "))
    return tuple(edits)


def may_be_on_host(project: Project, module: ModuleIndex, value: ast.expr, depth: int = _DEPTH) -> bool:
    """Return whether a value is a tensor of the host by one of its definitions, or in one branch."""
    match value:
        case ast.IfExp(test=test, body=body, orelse=other):
            sides = ((body, True), (other, False))
            # `x.cuda() if cuda else x`: the choice is that of the device.
            return not any(isinstance(one, ast.Call) and last_name(one.func) in _MOVES for one, _ in sides) and any(
                may_be_on_host(project, module, one, depth) and not excludes_cuda(module, test, holds)
                for one, holds in sides
            )
        case ast.Name(id=name) if depth > 0:
            bound = reaching(module, module.scope(value).lookup(name), value)
            inmost = max((len(loops_around(module, one.node)) for one in bound), default=0)
            # What a loop that goes through something starts with is left where it has a round.
            return any(
                len(loops_around(module, one.node)) == inmost
                and not any(excludes_cuda(module, *condition) for condition in conditions(module, one.node))
                and (set_to := _set_to(one)) is not None
                and may_be_on_host(project, module, set_to, depth - 1)
                for one in bound
            )
        case ast.Call(func=ast.Attribute(value=inner, attr="detach" | "mean" | "sum" | "float" | "squeeze")):
            return may_be_on_host(project, module, inner, depth)
        case ast.Call():
            return _is_made_on_host(project, module, value) or (
                depth > 0
                and any(
                    may_be_on_host(project, one.module, returned, depth - 1)
                    for one in project.fact(Resolver).callees(module, value)
                    if isinstance(one.node, FUNCTIONS)
                    for returned in project.fact(Resolver).returns(one.node)
                )
            )
    return False


def _set_to(binding: Binding) -> ast.expr | None:
    """Return what a variable is set to, also as one of several (``a, b = torch.tensor(0.0), torch.tensor(0.0)``)."""
    value = binding.value if binding.kind is BindingKind.ASSIGN else None
    for index in binding.path:
        if not isinstance(value, ast.Tuple) or not 0 <= index < len(value.elts):
            return None
        value = value.elts[index]
    return value


def _is_made_on_host(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    names = project.fact(Resolver).call_names(module, call)
    if not names & _MAKES or any(keyword.arg in ("device", None) for keyword in call.keywords):
        return False
    return not sets_default_device(project, module)
