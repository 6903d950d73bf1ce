"""Elements of a tensor on the GPU that a loop uses as indices of lists and tensors (``correct[labels[i]] += 1``), each
of which waits: PyTorch makes a number of an index without axes, also where the tensor is on the same GPU."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.placement.host_values import HostValues
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.source import Span
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, last_name
from gpulint_fixers.edits.statements import insert_above
from gpulint_fixers.waits.inner_loops.gpu_indices import gpu_index

_MOVES = frozenset({"to", "cuda"})
_MAKES = frozenset({"zeros", "ones", "full", "empty"})


def with_indices(project: Project, found: HostWait, made: Fix) -> Fix:
    """Let a fix that copies one tensor above an inner loop copy those as well whose elements are indices there."""
    module, inner = found.module, _inner(found)
    if inner is None or not (used := _indices(project, module, inner)):
        return made
    names = [*dict.fromkeys(used.values())]
    added = [insert_above(module.syntax, inner, f"{name}_list = {name}.tolist()") for name in names]
    above = [edit for edit in added if edit is not None]
    same = [edit for edit in made.edits if above and edit.span == above[0].span]
    if len(above) < len(names) or not same or any(f"{name}_list" in module.named for name in names):
        return made
    if not all(_is_index_alone(module, inner, element) for element in used):
        return made
    joined = replace(same[0], text="".join(edit.text for edit in (*above, same[0])))
    others = (edit for edit in made.edits if edit is not same[0])
    elements = (
        Edit(module.path, module.syntax.span(one), f"{name}_list[{ast.unparse(one.slice)}]")
        for one, name in used.items()
    )
    told = (
        f"{made.description}; each index is an element of {' and '.join(f'`{name}`' for name in names)} with one axis"
    )
    return replace(made, description=told, safety=Safety.UNSAFE, edits=(joined, *others, *elements))


def stays_as_index(project: Project, found: HostWait, made: Fix) -> Declined | None:
    """Return why a fix of reads in an inner loop gains nothing: the rounds still use elements on the GPU as indices."""
    module, inner = found.module, _inner(found)
    changed = {edit.span for edit in made.edits if edit.path == module.path}
    for element in _indices(project, module, inner) if inner is not None else ():
        if module.syntax.span(element) not in changed:
            where = module.syntax.span(element).words
            return Declined(f"each round reads `{ast.unparse(element)}` in {where} as an index as well")
    if inner is None or module.syntax.span(inner.iter) in changed:
        return None
    for sync in found.syncs:
        indexed = gpu_index(project, module, sync.value) if sync.value is not None else None
        if indexed is not None and inner in module.syntax.ancestors(indexed):
            index = ast.unparse(indexed.slice)
            return Declined(f"`{ast.unparse(indexed)}` waits for its index `{index}`, which is on the GPU as well")
    return _table_index(project, module, inner, changed)


def _table_index(project: Project, module: ModuleIndex, inner: ast.For, changed: set[Span]) -> Declined | None:
    """Return why nothing is gained: the rounds index a table by what the loop takes from a tensor on the GPU
    (``sums[group] += 1`` of ``for i, group in enumerate(groups)``), which the fix leaves there."""
    for part in walk(inner):
        if not isinstance(part, ast.Subscript) or not isinstance(part.value, ast.Name):
            continue
        element = _element(module, inner, part.slice)
        if not _is_table(module, part.value) or module.syntax.span(element) in changed:
            continue
        if gpu_index(project, module, part) is part:
            where, index = module.syntax.span(part).words, ast.unparse(part.slice)
            return Declined(f"`{ast.unparse(part)}` in {where} waits for its index `{index}`, which is on the GPU")
    return None


def _inner(found: HostWait) -> ast.For | None:
    """The outermost loop around a wait within the loop of the steps."""
    inner = None
    for up in found.module.syntax.ancestors(found.syncs[0].node):
        if up is found.context.loop.node or isinstance(up, FUNCTIONS):
            break
        inner = up if isinstance(up, ast.For) else inner
    return inner


def _indices(project: Project, module: ModuleIndex, inner: ast.For) -> dict[ast.Subscript, str]:
    """The elements of tensors on the GPU by which a loop indexes lists and tensors, with the tensors' names."""
    found: dict[ast.Subscript, str] = {}
    targets = {part.id for part in walk(inner.target) if isinstance(part, ast.Name)}
    for part in walk(inner):
        match part:
            case ast.Subscript(value=ast.Name() as listed, slice=index) if _is_table(module, listed):
                element = _element(module, inner, index)
            case _:
                continue
        match element:
            case ast.Subscript(value=ast.Name(id=name) as tensor, slice=ast.Name(id=counter)) if counter in targets:
                if _is_moved(project, module, tensor):
                    found[element] = name
    return found


def _element(module: ModuleIndex, inner: ast.For, index: ast.expr) -> ast.expr:
    """Return what a loop uses as an index, perhaps by a variable that it sets."""
    if isinstance(index, ast.Name):
        bound = reaching(module, module.scope(index).lookup(index.id), index)
        if len(bound) == 1 and not bound[0].path and isinstance(bound[0].value, ast.Subscript):
            return bound[0].value if inner in module.syntax.ancestors(bound[0].value) else index
    return index


def _is_index_alone(module: ModuleIndex, inner: ast.For, element: ast.Subscript) -> bool:
    """Return whether an element is used as an index and for nothing else."""
    up = module.syntax.parents.get(element)
    if isinstance(up, ast.Subscript):
        return up.slice is element
    if not isinstance(up, ast.Assign) or not isinstance(target := up.targets[0], ast.Name) or len(up.targets) > 1:
        return False
    inside = set(walk(inner))
    uses = [
        node
        for node in module.named.get(target.id, [])
        if isinstance(node.ctx, ast.Load)
        and any(one.node in (up, target) for one in reaching(module, module.scope(node).lookup(node.id), node))
    ]
    return all(
        node in inside and isinstance(outer := module.syntax.parents.get(node), ast.Subscript) and outer.slice is node
        for node in uses
    )


def _is_table(module: ModuleIndex, node: ast.Name) -> bool:
    """``[0.0] * 10``, ``list(0.0 for _ in range(10))``, ``torch.zeros(10, device=device)``"""
    bound = [one for one in module.scope(node).lookup(node.id) if one.kind is not BindingKind.AUGMENT]
    return bool(bound) and all(one.value is not None and not one.path and _makes_table(one.value) for one in bound)


def _makes_table(value: ast.expr) -> bool:
    match value:
        case ast.List() | ast.ListComp() | ast.Call(func=ast.Name(id="list")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name)):
            return name in _MAKES
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _MOVES:
            return _makes_table(inner)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return _makes_table(left) or _makes_table(right)
    return False


def _is_moved(project: Project, module: ModuleIndex, tensor: ast.Name) -> bool:
    """Return whether a name stands for a tensor that was moved to a GPU."""
    bound = reaching(module, module.scope(tensor).lookup(tensor.id), tensor)
    return bool(bound) and all(map(_moves, bound)) and not project.fact(HostValues).holds(module, tensor)


def _moves(binding: Binding) -> bool:
    value = binding.value
    for step in binding.path:
        if not isinstance(value, ast.Tuple | ast.List) or step >= len(value.elts):
            return False
        value = value.elts[step]
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and last_name(value.func) in _MOVES
