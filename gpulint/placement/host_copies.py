"""Copies to the GPU of what was made anew on the host from a batch, so that it is not in the loader's pinned memory."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.placement.parts_with_gaps import has_gaps
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.semantic.type_tests import is_for_several
from gpulint.training.given_values import is_for_missing_argument
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, FunctionNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.placement.device_transfers import Transfer
    from gpulint.project import Project

_CONVERTS = frozenset("float double half long int bool type bfloat16 contiguous clone".split())
_COMPUTES = frozenset(
    "repeat repeat_interleave tile flip roll index_select masked_select masked_fill gather scatter clamp clip where "
    "abs add sub mul div log exp sqrt pow softmax sigmoid argmax argsort cumsum to_dense from_numpy as_tensor "
    "pin_memory".split()
)
_TYPES = regex.compile(r"(float|double|half|bfloat|int|uint|long|short|bool|complex)\d*(_e\w+)?$")
"""Types of tensors: ``torch.float32``."""
_NEW = _CONVERTS | _COMPUTES
"""Methods and functions that make a new tensor, in memory that is not pinned."""
_VIEWS = frozenset(
    "squeeze unsqueeze transpose permute flatten reshape view chunk split unbind narrow t movedim swapaxes "
    "atleast_1d atleast_2d atleast_3d view_as_real view_as_complex utils is_tensor".split()
)
"""Functions of PyTorch whose result is the memory that they are given, mostly."""
_PICKS = frozenset("nonzero where randperm argsort topk flatnonzero logical_and logical_or logical_not isin".split())
"""Functions whose result, as an index, picks rows one by one."""
WIDENS = frozenset({"float", "double", "long", "int"})
"""Conversions that are as well done on the GPU: they seldom make less to copy."""
_DOUBLES = regex.compile(
    r"astype\(\s*(?:dtype=)?(?:float|np\.(?:float64|double)|numpy\.float64|[\"']float64[\"'])\s*[,)]"
    r"|dtype=(?:np\.|torch\.)?(?:float64|double)\b|\.double\(\)|DoubleTensor"
)
"""Samples in double precision."""
_SINGLES = regex.compile(r"float32|\.float\(\)|FloatTensor|torch\.float\b|transforms\.ToTensor|ToTensorV2")

MAX_CALLS = 2
"""Most functions that hand on what another one makes."""
MAX_STEPS = 4
"""Most assignments that a value is followed through."""
MAX_BOUND = 8
"""Most values of a variable that are looked at."""


def gains_from_pinning(project: Project, transfer: Transfer) -> bool:
    """Return whether what moves may be in the memory that the loader pins, or could be if the copy came before a
    conversion (``x.float().to(device)``). One that halves the batch is better done on the host."""
    module, call = transfer.module, transfer.node
    moved = call.func.value if isinstance(call.func, ast.Attribute) else transfer.value
    if has_gaps(module, moved):
        return False
    if not isinstance(moved, ast.Name):
        return _may_be_pinned(project, transfer, moved)
    bound = [one for one in _bound(module, moved.id, moved) if not is_for_missing_argument(project, module, one.node)]
    if (bound and all(_is_of_new(module, one) for one in bound)) or is_handed_new(project, transfer):
        return False
    values = [value for one in bound if (value := _given(one)) is not None]
    return len(values) < len(bound) or not values or any(_may_be_pinned(project, transfer, *value) for value in values)


def is_handed_new(project: Project, transfer: Transfer) -> bool:
    """Return whether all callers of a function hand it a new tensor, which it moves: ``train(model, (torch.cat([x, y]),
    labels))`` for ``images, labels = batch`` and ``images.to(device)``."""
    call = transfer.node
    moved = call.func.value if isinstance(call.func, ast.Attribute) else transfer.value
    return isinstance(moved, ast.Name) and _is_handed(project, transfer.module, moved, (), MAX_CALLS, MAX_STEPS)


def _is_handed(
    project: Project, module: ModuleIndex, value: ast.expr, path: tuple[int, ...], calls: int, steps: int
) -> bool:
    """Return whether a value, or the part ``path`` of it, is a new tensor that was made in a caller."""
    if isinstance(value, ast.Tuple) and path and path[0] < len(value.elts):
        return _is_handed(project, module, value.elts[path[0]], path[1:], calls, steps)
    if not isinstance(value, ast.Name):
        made = isinstance(value, ast.BinOp) or (isinstance(value, ast.Call) and last_name(value.func) not in _CONVERTS)
        return not path and calls < MAX_CALLS and made and is_new(module, value)
    bound = reaching(module, module.scope(value).lookup(value.id), value)
    return 0 < len(bound) <= MAX_BOUND and all(_is_bound_new(project, module, one, path, calls, steps) for one in bound)


def _is_bound_new(
    project: Project, module: ModuleIndex, binding: Binding, path: tuple[int, ...], calls: int, steps: int
) -> bool:
    if binding.kind is BindingKind.ASSIGN and binding.value is not None:
        return steps > 0 and _is_handed(project, module, binding.value, (*binding.path, *path), calls, steps - 1)
    function = module.function(binding.node)
    if not isinstance(binding.node, ast.arg) or not isinstance(function, FUNCTIONS) or not calls:
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    given = [
        (site.module, argument_of(function, site.node, binding.node.arg))
        for site in sites
        if isinstance(site.node, ast.Call)
    ]
    return bool(given) and all(
        one is not None and _is_handed(project, where, one, path, calls - 1, steps) for where, one in given
    )


def _bound(module: ModuleIndex, name: str, use: ast.AST) -> list[Binding]:
    """The bindings of a variable before operations in place (``x += noise``), which keep its memory."""
    found, seen, todo = list[Binding](), set[ast.AST](), [use]
    while todo:
        at = todo.pop()
        for one in reaching(module, module.scope(use).lookup(name), at):
            if one.kind is not BindingKind.AUGMENT:
                found.append(one)
            elif one.node not in seen:
                seen.add(one.node)
                todo.append(one.node)
    return found


def _is_of_new(module: ModuleIndex, binding: Binding) -> bool:
    """Return whether a variable runs over the parts of a new tensor: ``for part in images.split(64)``, where ``images =
    torch.cat([...])``."""
    if binding.kind is not BindingKind.LOOP or binding.value is None:
        return False
    source: ast.expr | None = binding.value
    if is_new(module, source):
        return True
    while isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute):
        source = source.func.value
    if not isinstance(source, ast.Name):
        return False
    made = reaching(module, module.scope(source).lookup(source.id), source)
    return bool(made) and all(one.kind is BindingKind.ASSIGN and is_new(module, one.value) for one in made)


def _given(binding: Binding) -> tuple[ast.expr, tuple[int, ...]] | None:
    """The expression that a variable is set to, and which part of its result."""
    if binding.kind is not BindingKind.ASSIGN or binding.value is None:
        return None
    match binding.value, binding.path:
        case value, ():
            return value, ()
        case ast.Tuple(elts=elements), (number,) if number < len(elements):
            return elements[number], ()
        case ast.Call(), (_,):
            return binding.value, binding.path
    return None


def _may_be_pinned(project: Project, transfer: Transfer, moved: ast.expr, path: tuple[int, ...] = ()) -> bool:
    if isinstance(moved, ast.Call) and _makes_new(project, transfer.module, moved, path):
        return False
    if path:
        return True
    widened = False
    while (
        isinstance(moved, ast.Call)
        and isinstance(moved.func, ast.Attribute)
        and moved.func.attr in WIDENS | {"contiguous"}
        and not (moved.args or moved.keywords)
    ):
        widened |= moved.func.attr in WIDENS
        moved = moved.func.value
    return not (is_new(transfer.module, moved) or (widened and draws_doubles(project, transfer)))


def _makes_new(
    project: Project, module: ModuleIndex, call: ast.Call, path: tuple[int, ...], calls: int = MAX_CALLS
) -> bool:
    """Return whether a call of functions of the tree returns new tensors: ``normalize(x)`` with ``return (x - MEAN) /
    STD``, perhaps in a function that it returns the result of."""
    functions = project.fact(Resolver).callees(module, call)
    return bool(functions) and all(
        isinstance(one.node, FUNCTIONS) and _returns_new(project, one.module, one.node, path, calls)
        for one in functions
    )


def _returns_new(
    project: Project, module: ModuleIndex, function: FunctionNode, path: tuple[int, ...], calls: int
) -> bool:
    returned = list[ast.expr]()
    for value in project.fact(Resolver).returns(function):
        if path and (not isinstance(value, ast.Tuple) or path[0] >= len(value.elts)):
            return False
        returned.append(value.elts[path[0]] if path and isinstance(value, ast.Tuple) else value)
    for value in returned:
        if isinstance(value, ast.Name) and any(is_for_several(module, one, value.id) for one in returned):
            continue  # what is no list is handed on
        values: list[tuple[ast.expr, tuple[int, ...]] | None] = [(value, ())]
        if isinstance(value, ast.Name):
            bound = reaching(module, module.scope(value).lookup(value.id), value)
            values = list(map(_given, _but_handed_on(module, value.id, bound)))
        if not values or not all(
            one is not None and _is_made_new(project, module, one[0], one[1], calls) for one in values
        ):
            return False
    return bool(returned)


def _is_made_new(project: Project, module: ModuleIndex, value: ast.expr, path: tuple[int, ...], calls: int) -> bool:
    if not path and is_new(module, value):
        return True
    return bool(calls) and isinstance(value, ast.Call) and _makes_new(project, module, value, path, calls - 1)


def _but_handed_on(module: ModuleIndex, name: str, bound: Sequence[Binding]) -> list[Binding]:
    """The bindings of a variable without the parameter that another one replaces where it is a list: ``if
    isinstance(images, list): images = torch.cat(images)``. Such a function is there to make one tensor of several."""
    others = [one for one in bound if one.kind is not BindingKind.PARAMETER]
    return others if any(is_for_several(module, one.node, name) for one in others) else list(bound)


def original_text(project: Project, transfer: Transfer) -> str:
    """The text of what moves, by the name that it has before a function of the tree hands it on: ``labels`` for
    ``first`` of ``images, first, second = mix(images, labels)``."""
    module, moved = transfer.module, transfer.value
    bound = _bound(module, moved.id, moved) if isinstance(moved, ast.Name) else []
    given = _given(bound[0]) if len(bound) == 1 else None
    call, path = given if given is not None else (None, ())
    if isinstance(call, ast.Call) and path:
        number = path[0]
        for one in project.fact(Resolver).callees(module, call):
            for value in project.fact(Resolver).returns(one.node) if isinstance(one.node, FUNCTIONS) else ():
                part = value.elts[number] if isinstance(value, ast.Tuple) and number < len(value.elts) else None
                while isinstance(part, ast.Subscript):
                    part = part.value
                if isinstance(part, ast.Name) and isinstance(one.node, FUNCTIONS):
                    argument = argument_of(one.node, call, part.id)
                    if argument is not None:
                        return module.syntax.text(argument)
    return module.syntax.text(moved)


def draws_doubles(project: Project, transfer: Transfer) -> bool:
    """Return whether the data set of a batch, or a transform that it imports, makes doubles and no single."""
    resolver = project.fact(Resolver)
    paths = dict.fromkeys(
        path
        for loader in (transfer.batch_read.loaders if transfer.batch_read is not None else ())
        for source in loader.node.args[:1]
        for where, _ in resolver.classes_of(loader.module, source)
        for path in (where.path, *sorted(project.imported(where.path)))
    )
    texts = [project.python_text(path) for path in paths]
    return any(map(_DOUBLES.search, texts)) and not any(map(_SINGLES.search, texts))


def is_new(module: ModuleIndex, made: ast.expr | None) -> bool:
    """Return whether an expression is a new tensor, or a part of one with gaps, rather than one of the batch:
    ``x.float()``, ``x[~mask]``, ``x[:, 1:]``, ``torch.cat([x, y])``, and what comes from NumPy."""
    while made is not None:
        match made:
            case ast.BinOp() | ast.UnaryOp():
                return True
            case ast.IfExp(body=one, orelse=other):
                return is_new(module, one) or is_new(module, other)
            case ast.Subscript(slice=index) if _picks_rows(module, index):
                return True
            case ast.Call(func=ast.Name() | ast.Attribute() as func, args=[inner, *_]) if last_name(func) == "Variable":
                made = inner  # which is the tensor itself
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "F" | "np" | "numpy"), attr=attr)):
                return attr not in _VIEWS
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)):
                if attr in _NEW or (attr == "to" and _names_type(made)):
                    return True
                made = inner
            case ast.Subscript(value=inner, slice=ast.Tuple(elts=parts)):
                if any(not _is_whole_slice(part) for part in parts[1:]):
                    return True
                made = inner
            case ast.Subscript(value=inner):
                made = inner
            case _:
                return False
    return False


def _names_type(call: ast.Call) -> bool:
    """``x.to(torch.float32)``, ``x.to(weight_dtype)``, which makes another tensor on the host"""
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "dtype")]
    placed = len(call.args) > 1 or any(keyword.arg == "device" for keyword in call.keywords)
    return not placed and any(
        "dtype" in last_name(value) or (isinstance(value, ast.Attribute) and _TYPES.match(last_name(value)))
        for value in given
        if isinstance(value, ast.Name | ast.Attribute)
    )


def _picks_rows(module: ModuleIndex, index: ast.expr) -> bool:
    """Return whether an index is a mask or a list of rows, so that the result is a copy."""
    match index:
        case ast.UnaryOp(op=ast.Invert() | ast.Not()) | ast.Compare() | ast.List() | ast.ListComp():
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            return True
        case ast.Call(func=func):
            return last_name(func) in _PICKS or last_name(func) == "bool"
        case ast.Name():
            bound = reaching(module, module.scope(index).lookup(index.id), index)
            given = [found for one in bound if (found := _given(one)) is not None]
            return any(
                not path and not isinstance(value, ast.Name) and _picks_rows(module, value) for value, path in given
            )
    return False


def _is_whole_slice(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None
