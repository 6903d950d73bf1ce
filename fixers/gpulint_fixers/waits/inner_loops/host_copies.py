"""Parts of a tensor that an inner loop of a step copies to the host one by one: the loop goes over one copy of all."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait
from gpulint_rules.data.host_metrics import host_metric

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.project import Project
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, ModuleIndex
from gpulint_fixers.edits.calls import WIDTH
from gpulint_fixers.edits.statements import insert_above
from gpulint_fixers.waits.device_reads import is_torch_tensor
from gpulint_fixers.waits.fix_kinds import WholeCopy
from gpulint_fixers.waits.inner_loops.gpu_indices import has_gpu_index
from gpulint_fixers.waits.inner_loops.sliced_copies import read_part
from gpulint_fixers.waits.single_tensors import is_single_tensor, is_text_key

OF_WHOLE = "copy the whole tensor to the host once instead of its parts one by one"
_OF_PART = "copy the columns that are read to the host once, as far as any of the reads needs them"
_READS = frozenset({"item", "tolist", "numpy"})
_CONVERTS = frozenset({"int", "float", "bool"})
_COMPUTES = frozenset(
    "argmax argmin max min sum mean norm detach squeeze unsqueeze flatten permute transpose view reshape float double "
    "long int clone contiguous softmax sigmoid exp round clamp mul add byte".split()
)
"""Methods that give a tensor of the same device."""
_OF_TORCH = frozenset({"size", "dim", "numel", "cpu", "detach", "contiguous"})
"""Methods that arrays of NumPy do not have."""
SIZES = frozenset({"shape", "size", "dim", "ndim", "dtype", "numel"})


def copied_first(project: Project, found: HostWait) -> Fix | None:
    """``for image in images.cpu()``, or ``scores_cpu = scores.cpu()`` above a loop over its indices."""
    module = found.module
    sync = next((sync for sync in found.syncs if sync.kind is SyncKind.READ), None)
    tensor = tensor_of(module, sync.node) if sync is not None else None
    if sync is None or tensor is None or not is_single_tensor(module, tensor):
        return None
    if not is_torch_tensor(project, module, tensor) and not _is_used_as_torch(module, tensor):
        return None
    loops = _inner_loops(found, sync.node)
    if not loops:
        return None
    if _binds(module, tensor):
        edits = _gone_through(module, tensor)
    else:
        edits = None if has_gpu_index(project, module, loops[-1], tensor.id) else _indexed(module, tensor, loops)
    if edits is None:
        return None
    metric = host_metric(project, module, sync, found.context)
    then = (
        f"`{metric.name}` runs on the CPU for each of them as before"
        if metric is not None
        else "what is computed from each part then runs on the host"
    )
    return WholeCopy(f"{said_of(edits)}; {then}", Safety.UNSAFE, tuple(edits))


def said_of(edits: Iterable[Edit]) -> str:
    """Return what a fix says that it copies."""
    return _OF_PART if any("].cpu()" in one.text for one in edits) else OF_WHOLE


def _is_used_as_torch(module: ModuleIndex, tensor: ast.Name) -> bool:
    """Return whether a function calls what only tensors of PyTorch have, of a tensor or of its parts: ``x.size(0)``,
    ``x[i].cpu()``. Arrays have sizes that are no methods."""
    function = module.function(tensor)
    for use in module.named.get(tensor.id, []):
        if module.function(use) is not function:
            continue
        part: ast.expr = use
        while isinstance(up := module.syntax.parents.get(part), ast.Subscript) and up.value is part:
            part = up
        if isinstance(up, ast.Attribute) and up.attr in _OF_TORCH:
            call = module.syntax.parents.get(up)
            if isinstance(call, ast.Call) and call.func is up:
                return True
    return False


def _inner_loops(found: HostWait, node: ast.AST) -> list[ast.For | ast.expr]:
    """The loops and comprehensions around a place inside of the step, the innermost first."""
    loops = list[ast.For | ast.expr]()
    for up in found.module.syntax.ancestors(node):
        if up is found.context.loop.node or isinstance(up, (*FUNCTIONS, ast.Lambda, ast.While)):
            break
        if isinstance(up, (ast.For, *COMPREHENSIONS)):
            loops.append(up)
    return loops


def tensor_of(module: ModuleIndex, node: ast.expr) -> ast.Name | None:
    """The variable of which a read takes a part: ``scores`` of ``float(row)`` in ``for row in scores[i]``."""
    seen = set[ast.AST]()
    while node not in seen:
        seen.add(node)
        match node:
            case ast.Call(func=ast.Attribute(value=inner)) | ast.Attribute(value=inner) | ast.Subscript(value=inner):
                node = inner
            case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _CONVERTS:
                node = inner
            case ast.Name():
                source = _source(module, node)
                if source is None:
                    return node
                node = source
            case _:
                return None
    return None


def _source(module: ModuleIndex, name: ast.Name) -> ast.expr | None:
    """Return what the loop goes through that sets a variable."""
    for up in module.syntax.ancestors(name):
        pairs = [(one.target, one.iter) for one in up.generators] if isinstance(up, COMPREHENSIONS) else []
        pairs += [(up.target, up.iter)] if isinstance(up, ast.For) else []
        for target, source in pairs:
            if name not in set(walk(source)) and (found := _of_target(target, source, name.id)) is not None:
                return found
        if isinstance(up, (*FUNCTIONS, ast.Lambda)):
            break
    return None


def _of_target(target: ast.expr, source: ast.expr, name: str) -> ast.expr | None:
    match target, source:
        case ast.Name(id=own), ast.Name() | ast.Subscript() if own == name:
            return source
        case ast.Tuple(elts=[_, ast.Name(id=own)]), ast.Call(func=ast.Name(id="enumerate"), args=[inner]):
            return inner if own == name and isinstance(inner, ast.Name | ast.Subscript) else None
        case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=sources) if len(names) == len(sources):
            pairs = zip(names, sources, strict=True)
            return next((one for other, one in pairs if isinstance(other, ast.Name) and other.id == name), None)
    return None


def _binds(module: ModuleIndex, tensor: ast.Name) -> bool:
    """Return whether a loop goes through the tensor itself."""
    return not isinstance(module.syntax.parents.get(tensor), ast.Subscript | ast.Attribute)


def _gone_through(module: ModuleIndex, tensor: ast.Name) -> list[Edit] | None:
    """``[image.numpy() for image in images.cpu()]``"""
    syntax, inner = module.syntax, used(module, tensor)
    if not inner:
        return None
    end = syntax.offsets(tensor)[1]
    made = Edit(syntax.path, syntax.span_at(end, end), ".cpu()")
    return [made, *inner] if fits(module, made, inner) else None


def fits(module: ModuleIndex, made: Edit, others: list[Edit]) -> bool:
    """Return whether the line of an edit stays as narrow as the file's own, with what other edits take out of it."""
    source, span = module.syntax.source, made.span
    taken = [one.span for one in others if one.span.line == one.span.end_line == span.line and not one.text]
    line = len(source.line(span.line).rstrip()) - sum(one.end_column - one.column for one in taken)
    return line + len(made.text) - (span.end_column - span.column) <= max(source.width, WIDTH)


def _indexed(module: ModuleIndex, tensor: ast.Name, loops: list[ast.For | ast.expr]) -> list[Edit] | None:
    """``scores_cpu = scores.cpu()`` above the outermost loop, in which nothing else needs the tensor."""
    syntax, name, outermost = module.syntax, f"{tensor.id}_cpu", loops[-1]
    around = [outermost, *syntax.ancestors(outermost)]
    top = next(up for up in around if isinstance(up, ast.stmt))
    if name in module.named or (top is not outermost and hasattr(top, "body")):
        return None
    edits, uses = list[Edit](), list[ast.Name]()
    for node in walk(top):
        if not isinstance(node, ast.Name) or node.id != tensor.id:
            continue
        up = syntax.parents.get(node)
        counted = isinstance(up, ast.Call) and ast.unparse(up.func) == "len"
        if counted or (isinstance(up, ast.Attribute) and up.attr in SIZES):
            continue
        inner = used(module, node) if isinstance(node.ctx, ast.Load) and isinstance(up, ast.Subscript) else None
        if inner is None or (isinstance(up, ast.Subscript) and not isinstance(up.ctx, ast.Load)):
            return None
        renamed = Edit(syntax.path, syntax.span(node), name)
        edits += [renamed, *inner]
        uses.append(node)
        if not fits(module, renamed, inner):
            return None
    if (part := read_part(module, uses, top)) is None:
        return None
    above = insert_above(syntax, top, f"{name} = {tensor.id}{part}.cpu()")
    return [above, *edits] if above is not None else None


def used(module: ModuleIndex, node: ast.expr, depth: int = 0) -> list[Edit] | None:
    """Take the copies out of what is done with a part of a tensor; None if it is not brought to the host."""
    edits, top, copied = list[Edit](), node, False
    while True:
        match up := module.syntax.parents.get(top):
            case ast.Attribute(attr=name):
                call = module.syntax.parents.get(up)
                if not isinstance(call, ast.Call) or call.func is not up:
                    return edits if copied or name in SIZES else None
                if name == "cpu" and not call.args and not call.keywords:
                    start, end = module.syntax.offsets(top)[1], module.syntax.offsets(call)[1]
                    edits.append(Edit(module.path, module.syntax.span_at(start, end), ""))
                    copied = True
                elif name in _READS or copied:
                    return edits
                elif name not in _COMPUTES or not all(map(_is_constant, call.args)) or call.keywords:
                    return None
                top = call
            case ast.Subscript(value=value, slice=index) if value is top and not is_text_key(index):
                top = up
            case ast.Call(func=ast.Name(id=name)) if name in _CONVERTS:
                return edits
            case ast.Call(func=ast.Name(id="enumerate" | "zip")):
                return _each(module, top, depth)
            case ast.For(iter=source) | ast.comprehension(iter=source) if source is top:
                return _each(module, top, depth)
            case _:
                return edits if copied else None


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant))


def _each(module: ModuleIndex, source: ast.expr, depth: int) -> list[Edit] | None:
    """The uses of the variable that a loop sets to each part of a source."""
    loop = next((up for up in module.syntax.ancestors(source) if isinstance(up, (ast.For, *COMPREHENSIONS))), None)
    if loop is None or depth > 2:
        return None
    edits, found = list[Edit](), False
    for node in walk(loop):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or _source(module, node) is not source:
            continue
        inner = used(module, node, depth + 1)
        if inner is None:
            return None
        found = True
        edits += inner
    return edits if found and not _is_used_after(module, loop, source) else None


def _is_used_after(module: ModuleIndex, loop: ast.AST, source: ast.expr) -> bool:
    """Return whether something below a loop may use a variable that it sets, as far as names tell."""
    if not isinstance(loop, ast.For):
        return False
    names = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    inside, function = set(walk(loop)), module.function(source)
    return any(
        isinstance(node.ctx, ast.Load) and node.lineno > loop.lineno and module.function(node) is function
        for name in names
        for node in module.named.get(name, [])
        if node not in inside and _source(module, node) is None
    )
