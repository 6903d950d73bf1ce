"""Values that a helper reads back only where they are tensors (``if isinstance(v, Tensor)``) or on the GPU, and what
its callers hand it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.placement.later_moves import is_moved_later
from gpulint.placement.number_mappings import gets_numbers
from gpulint.placement.tensor_location import TensorLocations
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.reaching_definitions import reaching
from gpulint.semantic.type_tests import TypeTest, type_tests, variables_of_other_types
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_COLLECTIONS = frozenset(
    "list tuple dict set List Tuple Dict Set Sequence Iterable Iterator Mapping MutableSequence Collection".split()
)
"""Types of what holds several tensors."""
_MOVES = frozenset({"to", "cuda"})
_JOINS = frozenset("cat stack tensor zeros ones full where mean sum as_tensor from_numpy zeros_like ones_like".split())
_OF_TENSORS = frozenset(
    "detach float double half long squeeze unsqueeze view reshape permute flatten contiguous mean sum expand".split()
)
"""Methods that a tensor has and a batch in another container has not."""
MAX_ROWS = 3
"""Most loops between a parameter and an element of its rows."""


def is_collection(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a variable is a list, tuple or dictionary where it is used, and no tensor itself: by a test
    (``if isinstance(losses, list)``), by its annotation, or by what it was made of."""
    if not isinstance(value, ast.Name):
        return isinstance(value, ast.List | ast.Tuple | ast.ListComp | ast.Dict | ast.DictComp)
    if any(_tells_collection(test, value.id) for test in type_tests(module, value)):
        return True
    bindings = reaching(module, module.scope(value).lookup(value.id), value)
    return bool(bindings) and all(map(_binds_collection, bindings))


def _tells_collection(test: TypeTest, name: str) -> bool:
    return test.variable.id == name and (test.types <= _COLLECTIONS if test.holds else "Tensor" in test.types)


def _binds_collection(binding: Binding) -> bool:
    match binding:
        case Binding(kind=BindingKind.PARAMETER, node=ast.arg(annotation=annotation)) if annotation is not None:
            return _names_collection(annotation)
        case Binding(kind=BindingKind.ASSIGN, path=(), value=value):
            made = isinstance(value, ast.List | ast.Tuple | ast.ListComp | ast.Dict | ast.DictComp)
            return made or (isinstance(value, ast.Call) and last_name(value.func) in ("list", "tuple", "dict"))
    return False


def _names_collection(annotation: ast.expr) -> bool:
    """``list[Tensor]``, ``Sequence[Tensor]``, ``"List[Tensor]"``"""
    if isinstance(annotation, ast.Constant):
        return str(annotation.value).partition("[")[0].rpartition(".")[2] in _COLLECTIONS
    return last_name(annotation.value if isinstance(annotation, ast.Subscript) else annotation) in _COLLECTIONS


def gets_no_tensor(tensors: TensorLocations, module: ModuleIndex, value: ast.expr, call: NodeRef) -> bool:
    """Return whether ``value`` is read only if it is a tensor, and nothing that ``call`` passes to its function is
    known to be one.

    ``def update(self, **kwargs)`` of a meter takes numbers as well, and then nothing waits.
    """
    if not isinstance(value, ast.Name) or not isinstance(call.node, ast.Call) or not _is_tested(module, value):
        return False
    given = list(_handed(module, value, call.node))
    return bool(given) and not any(tensors.is_tensor(call.module, part) for part in given)


def gets_tensor_instead(module: ModuleIndex, value: ast.expr, call: NodeRef) -> bool:
    """Return whether ``value`` is read only if a parameter is no tensor, and ``call`` passes one for it."""
    function = module.function(value)
    if not isinstance(function, FUNCTIONS) or not isinstance(call.node, ast.Call):
        return False
    for variable in variables_of_other_types(module, value):
        bindings = reaching(module, module.scope(variable).lookup(variable.id), variable)
        if bindings and all(binding.kind is BindingKind.PARAMETER for binding in bindings):
            given = argument_of(function, call.node, variable.id)
            if given is not None and _is_surely_tensor(call.module, given):
                return True
    return False


def _is_surely_tensor(module: ModuleIndex, value: ast.expr, depth: int = MAX_ROWS) -> bool:
    """Return whether an expression can be nothing but a tensor or an array: ``x[:, 0]``, ``x.detach()``,
    ``torch.cat(parts)``."""
    match value:
        case ast.Name(id=name) if depth:
            bindings = reaching(module, module.scope(value).lookup(name), value)
            values = [one.value if one.kind is BindingKind.ASSIGN and not one.path else None for one in bindings]
            return bool(values) and all(one is not None and _is_surely_tensor(module, one, depth - 1) for one in values)
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            return any(isinstance(part, ast.Slice) for part in parts)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=attr)):
            return attr in _JOINS
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)):
            return attr in _OF_TENSORS or (attr in _MOVES and _is_surely_tensor(module, inner, depth))
    return False


def gets_host_value(
    project: Project, tensors: TensorLocations, module: ModuleIndex, value: ast.expr, call: NodeRef
) -> bool:
    """Return whether ``value`` is a parameter, an element of one, or computed of some, for which ``call`` passes what
    the host holds."""
    if gets_numbers(project, module, value, call):
        return True
    parameters = _parameters(module, value)
    if not parameters or not isinstance(call.node, ast.Call):
        return False
    passed = [list(_handed(module, parameter, call.node)) for parameter in parameters]
    return all(passed) and all(
        tensors.is_host(call.module, part) or is_moved_later(project, call.module, part, call.node)
        for given in passed
        for part in given
    )


def _parameters(module: ModuleIndex, value: ast.expr, steps: int = MAX_ROWS) -> list[ast.Name]:
    """The parameters that a value is, or is an element or a row of, or that a method of it or operators compute it
    from; none if it is made of anything else but numbers."""
    while isinstance(inner := _object(value), ast.expr):
        value = inner
    match value:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            sides = [side for side in (left, right) if not isinstance(side, ast.Constant)]
            found = [_parameters(module, side, steps) for side in sides]
            return [name for names in found for name in names] if all(found) else []
        case ast.UnaryOp(operand=operand):
            return _parameters(module, operand, steps)
        case ast.Name():
            bindings = reaching(module, module.scope(value).lookup(value.id), value)
            if bindings and all(binding.kind is BindingKind.PARAMETER for binding in bindings):
                return [] if value.id in ("self", "cls") else [value]
            whole = _whole_of(bindings[0]) if len(bindings) == 1 else None
            return _parameters(module, whole, steps - 1) if whole is not None and steps > 1 else []
    return []


def _object(value: ast.expr) -> ast.expr | None:
    """Return the container of an element, or the object of a method that is called."""
    match value:
        case ast.Subscript(value=inner):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name not in _MOVES:
            return inner
    return None


def _whole_of(binding: Binding) -> ast.expr | None:
    """``batch["n"]`` in ``n = batch["n"]``, ``lengths`` in ``for row, length in zip(rows, lengths)``."""
    source, path = binding.value, binding.path
    if binding.kind is BindingKind.ASSIGN and isinstance(source, ast.expr) and not path:
        return source
    while binding.kind is BindingKind.LOOP and isinstance(source, ast.Call) and path:
        name = last_name(source.func)
        if name == "enumerate" and path[0] == 1 and source.args:
            source, path = source.args[0], path[1:]
        elif name == "zip" and 0 <= path[0] < len(source.args):
            source, path = source.args[path[0]], path[1:]
        else:
            return None
    return source if binding.kind is BindingKind.LOOP and isinstance(source, ast.Name) and not path else None


def _is_tested(module: ModuleIndex, value: ast.Name) -> bool:
    """Return whether the place runs only if the value's type or methods say that it is a tensor."""
    for test, holds in conditions(module, value):
        match test:
            case ast.Call(func=func, args=[ast.Name(id=name), *_]) if holds and name == value.id:
                if last_name(func) in ("isinstance", "is_tensor", "hasattr"):
                    return True
    return False


def _handed(module: ModuleIndex, value: ast.Name, call: ast.Call) -> Iterator[ast.expr]:
    """Yield what a call hands over that ``value`` may stand for: an argument, or each item of ``**kwargs``."""
    function = module.function(value)
    if not isinstance(function, FUNCTIONS):
        return
    for binding in reaching(module, module.scope(value).lookup(value.id), value):
        if binding.kind is BindingKind.PARAMETER and isinstance(binding.node, ast.arg):
            given = argument_of(function, call, binding.node.arg)
            if given is not None:
                yield given
        elif function.args.kwarg is not None and _is_item_of(binding, function.args.kwarg.arg):
            yield from (keyword.value for keyword in call.keywords)


def _is_item_of(binding: Binding, mapping: str) -> bool:
    """``for name, value in kwargs.items()``, ``for value in kwargs.values()``."""
    match binding:
        case Binding(
            kind=BindingKind.LOOP,
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=held), attr="items" | "values" as view), args=[]),
            path=path,
        ):
            return held == mapping and path == ((1,) if view == "items" else ())
    return False
