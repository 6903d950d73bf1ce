"""Tests of what type a variable has (``if isinstance(x, torch.Tensor)``), and places that run for some types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.records import dataclass
from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import ModuleIndex, last_name

_TENSOR = "Tensor"
_OTHERS = frozenset(
    "list tuple dict set List Tuple Dict Set Sequence Iterable Iterator Mapping MutableSequence Collection OrderedDict "
    "defaultdict ndarray generic float int str bool bytes Number Image PathLike Path".split()
)
"""Types of which no tensor is, except ``Iterable`` and ``Collection``, which a test of types means for containers."""

_SEVERAL = frozenset({"list", "tuple", "List", "Tuple", "Sequence"})


@dataclass(frozen=True, slots=True)
class TypeTest:
    """A variable, the types it is tested for, and whether the place runs if it has one of them or if it has none."""

    variable: ast.Name
    types: frozenset[str]
    holds: bool

    @property
    def excludes_tensors(self) -> bool:
        """Whether the place never runs for a tensor."""
        return self.types <= _OTHERS if self.holds else _TENSOR in self.types


def type_tests(module: ModuleIndex, node: ast.AST) -> Iterator[TypeTest]:
    """Yield the tests of types that a place is under, innermost first."""
    for test, holds in conditions(module, node):
        yield from tests_in(test, holds)


def tests_in(test: ast.expr, holds: bool) -> Iterator[TypeTest]:
    """Yield the tests of types which hold, or do not, where a condition does."""
    match test:
        case ast.BoolOp(op=op, values=parts) if holds is isinstance(op, ast.And):
            for part in parts:
                yield from tests_in(part, holds)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from tests_in(inner, not holds)
        case ast.Call(func=func, args=[ast.Name() as name, kinds]) if last_name(func) == "isinstance":
            yield TypeTest(name, frozenset(map(last_name, _alternatives(kinds))), holds)
        case ast.Call(func=func, args=[ast.Name() as name]) if last_name(func) == "is_tensor":
            yield TypeTest(name, frozenset({_TENSOR}), holds)
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="type"), args=[ast.Name() as name]),
            ops=[ast.Is() | ast.Eq()],
            comparators=[kind],
        ) if holds:
            yield TypeTest(name, frozenset({last_name(kind)}), holds)


def _alternatives(kinds: ast.expr) -> list[ast.expr]:
    match kinds:
        case ast.Tuple(elts=elements):
            return elements
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return [*_alternatives(left), *_alternatives(right)]
    return [kinds]


def is_for_several(module: ModuleIndex, node: ast.AST, name: str) -> bool:
    """Return whether a place runs only if a variable is a list or a tuple."""
    return any(test.variable.id == name and test.holds and test.types <= _SEVERAL for test in type_tests(module, node))


def variables_of_other_types(module: ModuleIndex, node: ast.AST) -> Iterator[ast.Name]:
    """Yield the variables that are no tensors where a place runs, as a test of them says: where one is a tensor all the
    same, the place never runs."""
    for test in type_tests(module, node):
        if test.excludes_tensors:
            yield test.variable


def is_of_other_type(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether a place runs only where a variable is no tensor: the ``else`` of ``if isinstance(x, Tensor)``."""
    if not {"isinstance", "is_tensor", "type"} & module.calls_by_name.keys():
        return False
    return any(one.id == name.id for one in variables_of_other_types(module, name))
