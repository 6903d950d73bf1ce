"""Elements of a tensor that a loop reads from the GPU one by one: ``tensor.tolist()`` brings all of them."""

from __future__ import annotations

import ast

from gpulint_rules.data.choosing_tests import is_of_element
from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, Binding, BindingKind, ModuleIndex, last_name
from gpulint_fixers.edits.statements import insert_above
from gpulint_fixers.waits.changed_tensors import stored
from gpulint_fixers.waits.device_reads import DeviceRead, is_torch_tensor, read_around
from gpulint_fixers.waits.element_types import is_float, is_integer
from gpulint_fixers.waits.inner_loops.list_indices import with_indices
from gpulint_fixers.waits.inner_loops.tested_elements import has_axes, is_tested, path

_NUMBERS = frozenset({"int", "float", "bool"})
_MAKES = frozenset("view argmax argmin detach squeeze unsqueeze flatten softmax sigmoid eq permute".split())
"""Methods and functions of tensors alone, which give one tensor."""
_REDUCES = frozenset("mean sum std var norm amax amin prod".split())
"""Those that give one tensor along a ``dim``, which arrays of NumPy call ``axis``."""
_PAIRS = frozenset({"max", "min", "sort", "topk"})
"""Those that give two."""
_SIZED = "{}.size("


@dataclass(frozen=True, slots=True)
class _Binder:
    """What binds a loop's variable: the loop or comprehension, and what it goes through."""

    node: ast.For | ast.expr
    source: ast.expr


def elements(project: Project, found: HostWait) -> Fix | None:
    """Go through ``tensor.tolist()``, or index such a list; None for reads that are no elements."""
    module = found.module
    syncs = [sync for sync in found.syncs if sync.kind is SyncKind.READ or is_of_element(module, sync)]
    if not syncs:
        return None
    element = _element(module, syncs[0].node) if syncs[0].kind is SyncKind.READ else syncs[0].value
    if isinstance(element, ast.Name):
        made = _gone_through(project, module, element)
    elif isinstance(element, ast.Subscript):
        made = _indexed(project, found, syncs[0], element)
    else:
        made = None
    if made is None:
        return None
    edits, tensor = made
    copied = "copy the whole tensor once instead of each of its elements; the numbers are equal"
    if _is_unproved(module, tensor):
        axes = len(path(element)[1]) if isinstance(element, ast.Subscript) else 1
        return Fix(f"{copied} if it has {'one axis' if axes == 1 else f'{axes} axes'}", Safety.UNSAFE, edits)
    fix = Fix(copied, Safety.SAFE if is_torch_tensor(project, module, tensor) else Safety.UNSAFE, edits)
    return with_indices(project, found, fix) if isinstance(element, ast.Subscript) else fix


def _element(module: ModuleIndex, node: ast.expr) -> ast.expr | None:
    """The tensor of which ``node`` reads a number."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[ast.Name() as element], keywords=[]) if name in _NUMBERS:
            return element
    inner = node
    while isinstance(inner, ast.Call | ast.Attribute):
        inner = inner.value if isinstance(inner, ast.Attribute) else (inner.args[0] if inner.args else inner.func)
        if (read := read_around(module, inner)) is not None:
            return read.tensor
    return None


def _gone_through(project: Project, module: ModuleIndex, element: ast.Name) -> tuple[tuple[Edit, ...], ast.expr] | None:
    """``[names[p.item()] for p in predicted]``, perhaps over the rows of a table."""
    binder = _binder(module, element)
    if binder is None:
        return None
    reads, uses = list[DeviceRead](), _uses(binder, element.id)
    for node in uses:
        if (read := read_around(module, node)) is not None:
            reads.append(read)
        elif not _takes_number(module, node, binder.source):
            return None
    if not uses or _is_used_after(module, binder, element.id):
        return None
    nearest = binder
    while isinstance(binder.source, ast.Name) and (outer := _binder(module, binder.source)) is not None:
        row = binder.source.id
        if not all(node is binder.source or _counts(module, node) for node in _uses(outer, row)):
            return None
        binder = outer
    if not _is_one_tensor(project, module, binder.source):
        return None
    if binder is nearest and (plain := _plain_list(module, binder, element.id, reads)) is not None:
        return (Edit(module.path, module.syntax.span(plain), _listed(module, binder.source)),), binder.source
    if isinstance(binder.source, ast.Compare):
        return None
    end = module.syntax.offsets(binder.source)[1]
    listed = Edit(module.path, module.syntax.span_at(end, end), ".tolist()")
    numbers = (
        Edit(module.path, module.syntax.span(read.whole), _number(module, binder, read, element.id)) for read in reads
    )
    return (listed, *numbers), binder.source


def _plain_list(module: ModuleIndex, binder: _Binder, name: str, reads: list[DeviceRead]) -> ast.expr | None:
    """Return the whole of ``[p.item() for p in x]``, and of ``list(int(p) for p in x)`` of integers, which is all that
    ``x.tolist()`` gives; None for anything else."""
    made: ast.AST | None = binder.node
    match made, module.syntax.parents.get(binder.node):
        case ast.ListComp(), _:
            pass
        case ast.GeneratorExp(), ast.Call(func=ast.Name(id="list"), args=[one], keywords=[]) as call if one is made:
            made = call
        case _:
            return None
    match binder.node:
        case ast.ListComp(elt=value, generators=[clause]) | ast.GeneratorExp(elt=value, generators=[clause]):
            if (
                clause.ifs
                or clause.is_async
                or not isinstance(clause.target, ast.Name)
                or "#" in module.syntax.text(made)
            ):
                return None
            plain = [read.whole for read in reads] == [value] and _number(module, binder, reads[0], name) == name
            match value:
                case ast.Call(func=ast.Name(id="int"), args=[ast.Name(id=own)]) if own == name:
                    plain = is_integer(module, binder.source)
            return made if plain else None
    return None


def _number(module: ModuleIndex, binder: _Binder, read: DeviceRead, name: str) -> str:
    """Return what is read, of an element that is a number of the host; ``float`` makes floats of integers."""
    match read.whole:
        case ast.Call(func=ast.Name(id="float")) if not is_float(module, binder.source):
            return f"float({name})"
    return name


def _listed(module: ModuleIndex, source: ast.expr) -> str:
    text = module.syntax.text(source)
    return f"({text}).tolist()" if isinstance(source, ast.Compare) else f"{text}.tolist()"


def _is_one_tensor(project: Project, module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether a loop goes through the rows of a tensor, and not through a list of tensors."""
    if not isinstance(source, ast.Name):
        return _makes_tensor(module, source)
    bound = reaching(module, module.scope(source).lookup(source.id), source)
    if bound and all(one.kind is BindingKind.PARAMETER for one in bound):
        known = _is_sized(module, source) and is_torch_tensor(project, module, source)
        return known or all(map(_is_annotated, bound)) or has_axes(module, source)
    return bool(bound) and all(one.value is not None and _gives_tensor(module, one) for one in bound)


def _is_sized(module: ModuleIndex, source: ast.Name) -> bool:
    """Return whether the function around a name asks for the sizes of what it stands for."""
    function = module.function(source)
    return function is not None and _SIZED.format(source.id) in module.syntax.text(function)


def _is_annotated(binding: Binding) -> bool:
    """``labels: torch.Tensor``"""
    noted = getattr(binding.node, "annotation", None)
    return noted is not None and ast.unparse(noted).strip("'\"") in ("torch.Tensor", "Tensor")


def _is_unproved(module: ModuleIndex, tensor: ast.expr) -> bool:
    """Return whether a tensor is a parameter of unknown sizes, by its annotation or how it is indexed: one of more axes
    gives lists, not numbers."""
    if not isinstance(tensor, ast.Name) or _is_sized(module, tensor):
        return False
    bound = reaching(module, module.scope(tensor).lookup(tensor.id), tensor)
    return bool(bound) and (all(map(_is_annotated, bound)) or has_axes(module, tensor))


def _gives_tensor(module: ModuleIndex, binding: Binding) -> bool:
    assert binding.value is not None
    if not binding.path:
        return _makes_tensor(module, binding.value)
    match binding.value:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _PAIRS
    return False


def _makes_tensor(module: ModuleIndex, value: ast.expr) -> bool:
    """``labels.view(-1)``, ``torch.argmax(scores, 1)``, ``predicted == labels``."""
    match value:
        case ast.Call(func=ast.Attribute(attr=name), keywords=keywords):
            return name in _MAKES or (name in _REDUCES and any(keyword.arg == "dim" for keyword in keywords))
        case ast.Compare(left=left, comparators=[_]):
            return not isinstance(left, ast.Constant)
    return False


def _binder(module: ModuleIndex, name: ast.Name) -> _Binder | None:
    """The loop or comprehension that sets a variable in each round, with what it goes through."""
    for up in module.syntax.ancestors(name):
        if isinstance(up, COMPREHENSIONS):
            for one in up.generators:
                if name not in set(walk(one.iter)) and (source := _source(one.target, one.iter, name)):
                    return _Binder(up, source)
        elif isinstance(up, ast.For) and name not in set(walk(up.iter)):
            if source := _source(up.target, up.iter, name):
                return _Binder(up, source)
        elif isinstance(up, (*FUNCTIONS, ast.Lambda)):
            break
    return None


def _source(target: ast.expr, iterated: ast.expr, name: ast.Name) -> ast.expr | None:
    """The iterable of a loop for one variable: ``predicted`` of ``for i, p in enumerate(predicted)``."""
    match target, iterated:
        case ast.Name(id=own), _ if own == name.id:
            return None if _is_iterator(iterated) else iterated
        case ast.Tuple(elts=[_, ast.Name(id=own)]), ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]):
            return inner if own == name.id and not _is_iterator(inner) else None
        case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=sources) if len(names) == len(sources):
            pairs = zip(names, sources, strict=True)
            return next((one for other, one in pairs if isinstance(other, ast.Name) and other.id == name.id), None)
    return None


def _is_iterator(source: ast.expr) -> bool:
    """Return whether a source is a call other than of a tensor's method: ``range(n)``, ``loader()``."""
    return isinstance(source, ast.Call) and not isinstance(source.func, ast.Attribute)


def _uses(binder: _Binder, name: str) -> list[ast.Name]:
    """The uses of a variable in the loop that sets it."""
    nodes = (part for part in walk(binder.node) if isinstance(part, ast.Name) and part.id == name)
    return [node for node in nodes if isinstance(node.ctx, ast.Load)]


def _takes_number(module: ModuleIndex, node: ast.Name, source: ast.expr) -> bool:
    """``int(p)``, and as conditions ``p == 0`` and of integers ``p == END``, which mean the same of a number."""
    match module.syntax.parents.get(node):
        case ast.Call(func=ast.Name(id=name), args=[_], keywords=[]):
            return name in _NUMBERS
        case ast.Compare(left=left, ops=[op], comparators=[other]) as test if left is node:
            known = isinstance(other, ast.Constant) or (
                isinstance(op, ast.Eq | ast.NotEq) and is_integer(module, source)
            )
            return known and _is_condition(module, test)
    return False


def _is_condition(module: ModuleIndex, test: ast.Compare) -> bool:
    up = module.syntax.parents.get(test)
    return isinstance(up, ast.If | ast.IfExp | ast.comprehension) and test is not getattr(up, "iter", None)


def _counts(module: ModuleIndex, node: ast.Name) -> bool:
    up = module.syntax.parents.get(node)
    return isinstance(up, ast.Call) and ast.unparse(up.func) == "len"


def _is_used_after(module: ModuleIndex, binder: _Binder, name: str) -> bool:
    """Return whether something else than the loop uses its variable, as far as names tell."""
    if not isinstance(binder.node, ast.For):
        return False
    inside, function = set(walk(binder.node)), module.function(binder.node)
    return any(
        isinstance(node.ctx, ast.Load) and node.lineno > binder.node.lineno
        for node in module.named.get(name, [])
        if node not in inside and module.function(node) is function
    )


def _indexed(
    project: Project, found: HostWait, sync: SyncPoint, element: ast.Subscript
) -> tuple[tuple[Edit, ...], ast.expr] | None:
    """``for i in range(len(predicted)): print(predicted[i].item())``"""
    module = found.module
    loops = [one for one in project.fact(SyncPoints).read_one_by_one(module, sync) if isinstance(one, ast.For)]
    tensor, indices = path(element)
    if not loops and isinstance(tensor, ast.Name):
        loops = _indexing(module, element, tensor)
        loops = loops if _is_reduced(module, tensor) or all(map(_counts_up, loops)) else []
    if not loops or not isinstance(tensor, ast.Name) or not _is_one_tensor(project, module, tensor):
        return None
    outermost = max(loops, key=lambda loop: len(set(walk(loop))))
    targets = {part.id for loop in loops for part in walk(loop.target) if isinstance(part, ast.Name)}
    if not indices or not all(isinstance(index, ast.Name) and index.id in targets for index in indices):
        return None
    if tensor.id in stored(outermost) or outermost is found.context.loop.node:
        return None
    name = f"{tensor.id}_list"
    flat = ".flatten()" if len(indices) == 1 and _is_reduced(module, tensor) else ""
    above = insert_above(module.syntax, outermost, f"{name} = {tensor.id}{flat}.tolist()")
    if name in module.named or above is None:
        return None
    edits, tests = [above], is_integer(module, tensor) or _is_unproved(module, tensor)
    for part in walk(outermost):
        if isinstance(part, ast.Subscript) and path(part) == (part, []):
            continue
        if not isinstance(part, ast.Subscript):
            continue
        read, (base, own) = read_around(module, part), path(part)
        if read is None and not (tests and is_tested(module, part)):
            continue
        if not isinstance(base, ast.Name) or base.id != tensor.id or len(own) != len(indices):
            continue
        if all(isinstance(index, ast.Name) and index.id in targets for index in own):
            entry = "".join(f"[{ast.unparse(index)}]" for index in own)
            edits.append(Edit(module.path, module.syntax.span(part if read is None else read.whole), f"{name}{entry}"))
    return tuple(edits), tensor


def _indexing(module: ModuleIndex, element: ast.Subscript, tensor: ast.Name) -> list[ast.For]:
    """The loops of the function that go through the indices of an element, and do not make the tensor."""
    made = {one.node for one in module.scope(tensor).lookup(tensor.id)}
    found = list[ast.For]()
    for up in module.syntax.ancestors(element):
        if isinstance(up, (*FUNCTIONS, ast.While)) or made & {*walk(up)}:
            break
        if isinstance(up, ast.For):
            targets = {part.id for part in walk(up.target) if isinstance(part, ast.Name)}
            found += [up] if any(isinstance(one, ast.Name) and one.id in targets for one in path(element)[1]) else []
    return found


def _counts_up(loop: ast.For) -> bool:
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call()]):
            return True
    return False


def _is_reduced(module: ModuleIndex, tensor: ast.Name) -> bool:
    """Return whether a tensor is what is left along some dimensions; another one of length 1 may be left beside them
    (``masks.mean(dim=(2, 3))[i].item()``)."""
    bound = reaching(module, module.scope(tensor).lookup(tensor.id), tensor)
    return any(isinstance(one.value, ast.Call) and last_name(one.value.func) in _REDUCES for one in bound)
