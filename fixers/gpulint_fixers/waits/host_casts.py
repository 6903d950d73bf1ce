"""Numbers that the host computes of copies, and that are read further down: ``(predicted == labels.cpu()).sum()``,
``(predicted == labels).type(torch.FloatTensor)``."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Edit, Fix, Safety
from gpulint.placement.host_results import casts_to_host, copies_to_host
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name
from gpulint_fixers.waits.device_reads import is_plain_number, read_around, torch_of
from gpulint_fixers.waits.sums.device_sums import variable_of

_CASTS = {
    "FloatTensor": "float",
    "DoubleTensor": "double",
    "HalfTensor": "half",
    "LongTensor": "long",
    "IntTensor": "int",
    "ShortTensor": "short",
    "ByteTensor": "byte",
    "BoolTensor": "bool",
}
_LEAVES = frozenset({"numpy", "tolist", "item"})


def cast_on_gpu(project: Project, found: HostWait, target: ast.Name, loop: LoopNode) -> Fix | None:
    """Let a value have the other type on the GPU, if it is a number that is read further down and nothing else."""
    casts = [sync.node for sync in found.syncs]
    if not all(isinstance(cast, ast.Call) and casts_to_host(cast) for cast in casts):
        return None
    module = found.module
    nodes = variable_of(project, found, loop, target.id).occurrences() or []
    bindings = module.scope(target).lookup(target.id)
    own = {found.statement, target}
    uses = [
        node
        for node in nodes
        if isinstance(node.ctx, ast.Load) and any(one.node in own for one in reaching(module, bindings, node))
    ]
    if not uses or any(read_around(module, node) is None for node in uses):
        return None
    syntax, edits = found.module.syntax, list[Edit]()
    for cast in casts:
        assert isinstance(cast, ast.Call)
        name = last_name(cast.args[0]) if not isinstance(cast.args[0], ast.Constant) else ""
        if len(cast.args) != 1 or cast.keywords or name not in _CASTS:
            return None
        end = syntax.offsets(cast)[1]
        dot = syntax.source.text.rindex(".", 0, syntax.offsets(cast.func)[1])
        edits.append(Edit(syntax.path, syntax.span_at(dot, end), f".{_CASTS[name]}()"))
    return Fix("change the type on the GPU instead of copying to the host", Safety.UNSAFE, tuple(edits))


def computed_on_gpu(project: Project, found: HostWait) -> Fix | None:
    """Compute a number of the tensors themselves, if it is read further down and nothing else: all that it is made of
    is copied, or is a number of the host."""
    module, statement = found.module, found.statement
    copies = {sync.node for sync in found.syncs}
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not all(map(_copies, copies)):
        return None
    if not _is_of(module, statement.value, copies):
        return None
    uses = uses_of(module, statement)
    if not uses or any(read_around(module, node) is None for node in uses) or "#" in module.syntax.text(statement):
        return None
    syntax, edits = module.syntax, list[Edit]()
    for copy in copies:
        start, end = syntax.offsets(copy.func.value)[1], syntax.offsets(copy)[1]  # type: ignore[attr-defined]
        edits.append(Edit(syntax.path, syntax.span_at(start, end), ""))
    return Fix("compute on the GPU instead of copying to the host", Safety.UNSAFE, tuple(edits))


def uses_of(module: ModuleIndex, statement: ast.Assign) -> list[ast.Name]:
    """The uses of the variable that an assignment sets which may see its value."""
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return []
    bindings = module.scope(target).lookup(target.id)
    loads = [node for node in module.named.get(target.id, []) if isinstance(node.ctx, ast.Load)]
    return [
        node
        for node in loads
        if module.scope(node).lookup(target.id) is bindings
        and any(one.node in (statement, target) for one in reaching(module, bindings, node))
    ]


def _copies(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="cpu"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(), args=[_], keywords=[]):
            return copies_to_host(node)
    return False


def _is_of(module: ModuleIndex, value: ast.expr, copies: set[ast.expr]) -> bool:
    """Return whether a number is computed of copies, by functions and methods of PyTorch, and of numbers."""
    if value in copies or is_plain_number(module, value):
        return True
    match value:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return _is_of(module, left, copies) and _is_of(module, right, copies)
        case ast.Call(func=ast.Name(id="float" | "int"), args=[given], keywords=[]):
            return is_plain_number(module, given)
        case ast.Call(func=ast.Attribute(value=base, attr=name), args=args, keywords=keywords) if name not in _LEAVES:
            of_torch = isinstance(base, ast.Name) and base.id == torch_of(module)
            parts = [*args, *(keyword.value for keyword in keywords)]
            return (of_torch or _is_of(module, base, copies)) and all(_is_of(module, one, copies) for one in parts)
        case ast.Constant():
            return True
    return False
