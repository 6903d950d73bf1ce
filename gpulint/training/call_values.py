"""What the arguments of the calls that lead to a place say of the conditions around it: ``save(final=True)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import default_of
from gpulint.documents.python import walk
from gpulint.query import cyclic
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import RECEIVERS, CallbackCall, argument_of, parameters
from gpulint.semantic.path_conditions import conditions, is_failure
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.constructor_calls import constructor_calls
from gpulint.training.set_attributes import is_set_from_outside
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

Calls = tuple[NodeRef, ...]
"""Calls that lead to a place, outermost first: the last one reaches the function that the place stands in."""
Assumed = tuple[str, object]
"""A parameter of that function, and its value."""


@dataclass(frozen=True, slots=True)
class Known:
    """A constant; without one something that is passed and no constant, which may be one of several ``choices``."""

    value: object = None
    constant: bool = True
    choices: tuple[object, ...] = ()


_GIVEN = Known(constant=False)
_TESTS = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Call)
_MAKES = regex.compile(r"[A-Z]|(open|memmap|load|array|asarray|zeros|list|dict|set)$")
"""Calls of constructors and of functions whose result is no None."""


def is_kept_out(project: Project, module: ModuleIndex, node: ast.AST, calls: Calls) -> bool:
    """Return whether the arguments of ``calls`` contradict a condition around ``node`` in its function. Of an option,
    each of its choices has to."""
    function = module.function(node) if calls else None
    if function is None or not (function.args.args or function.args.kwonlyargs):
        return False
    tests = list(conditions(module, node))
    if any(truth(project, module, test, calls) is (not holds) for test, holds in tests):
        return True
    asked = {part.id for test, _ in tests for part in walk(test) if isinstance(part, ast.Name)}
    for name in sorted(parameters(function) & asked):
        passed = _passed(project, module, function, name, calls)
        if (
            passed is not None
            and passed.choices
            and all(
                any(truth(project, module, test, calls, (name, value)) is (not holds) for test, holds in tests)
                for value in passed.choices
            )
        ):
            return True
    return False


def truth(
    project: Project, module: ModuleIndex, test: ast.expr, calls: Calls, assumed: Assumed | None = None
) -> bool | None:
    """Return whether a test holds when its function is reached by ``calls``, where a parameter has the value that is
    ``assumed``; None if that is unknown."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = truth(project, module, operand, calls, assumed)
            return None if found is None else not found
        case ast.BoolOp(op=operator, values=values):
            told = [truth(project, module, value, calls, assumed) for value in values]
            decisive = isinstance(operator, ast.Or)
            if decisive in told:
                return decisive
            return None if None in told else not decisive
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            sides = (_known(project, module, side, calls, assumed) for side in (left, right))
            return _compared(operator, *sides)
        case ast.Name() | ast.Attribute():
            known = _known(project, module, test, calls, assumed)
            if known is None and (kept := _kept_test(module, test)) is not None:
                return truth(project, module, kept, calls, assumed)
            return bool(known.value) if known is not None and known.constant else None
        case ast.Call(func=ast.Name(id="bool"), args=[operand], keywords=[]):
            return truth(project, module, operand, calls, assumed)
    return None


def _kept_test(module: ModuleIndex, test: ast.expr) -> ast.expr | None:
    """Return the test above that a variable of the function keeps the result of (``training = optimizer is not
    None``)."""
    if not isinstance(test, ast.Name):
        return None
    function, bindings = module.function(test), reaching(module, module.scope(test).lookup(test.id), test)
    if function is None or len(bindings) != 1 or bindings[0].scope.node is not function or bindings[0].path:
        return None
    kept = bindings[0].value if bindings[0].kind is BindingKind.ASSIGN else None
    tests = isinstance(kept, ast.Compare | ast.BoolOp) or (
        isinstance(kept, ast.UnaryOp) and isinstance(kept.op, ast.Not)
    )
    return kept if tests and kept is not None and kept.lineno < test.lineno else None


def _compared(operator: ast.cmpop, left: Known | None, right: Known | None) -> bool | None:
    if left is None or right is None or not right.constant:
        return None
    if not left.constant:
        # What a caller takes the trouble to pass is not left to the default.
        missing = right.value is None
        return isinstance(operator, ast.IsNot | ast.NotEq) if missing and isinstance(operator, _EQUALITY) else None
    match operator:
        case ast.Eq() | ast.Is():
            return left.value == right.value
        case ast.NotEq() | ast.IsNot():
            return left.value != right.value
        case ast.In() | ast.NotIn() if isinstance(right.value, tuple):
            return (left.value in right.value) is isinstance(operator, ast.In)
    return None


_EQUALITY = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)


def _known(
    project: Project, module: ModuleIndex, node: ast.expr, calls: Calls, assumed: Assumed | None = None
) -> Known | None:
    """The value of an expression; None if nothing is known of it."""
    match node:
        case ast.Constant(value=value):
            return Known(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            values = [part.value for part in parts if isinstance(part, ast.Constant)]
            return Known(tuple(values)) if len(values) == len(parts) else None
        case ast.Name(id=name):
            function = module.function(node)
            bindings = reaching(module, module.scope(node).lookup(name), node)
            if function is None or any(
                binding.kind is not BindingKind.PARAMETER or binding.scope.node is not function for binding in bindings
            ):
                return None
            if assumed is not None and assumed[0] == name and bindings:
                return Known(assumed[1])
            return _passed(project, module, function, name, calls) if bindings and calls else None
        case ast.Attribute(value=ast.Name(id=name)) if calls and name in RECEIVERS:
            return _constructed(project, module, node, calls)
    return None


def _constructed(project: Project, module: ModuleIndex, node: ast.Attribute, calls: Calls) -> Known | None:
    """Return what an attribute is that only the constructor of the object sets, to a parameter of its own, by the calls
    that made the object."""
    owner = module.class_of(node)
    bound = project.fact(Resolver).class_attribute(module, owner, node.attr) if owner is not None else []
    where, value = (bound[0][0], bound[0][1].value) if len(bound) == 1 else (module, None)
    constructor = where.function(value) if isinstance(value, ast.Name) else None
    if not isinstance(value, ast.Name) or constructor is None or constructor.name != "__init__" or bound[0][1].path:
        return _chosen(project, module, node, calls)
    chains = constructor_calls(project, NodeRef(where, constructor), NodeRef(module, node), calls)
    found = {_known(project, where, value, chain) for chain in chains}
    return found.pop() if len(found) == 1 else None


_UNKNOWN: Known | None = None


@cyclic(_UNKNOWN)
def _chosen(project: Project, module: ModuleIndex, node: ast.Attribute, calls: Calls) -> Known | None:
    """Return what is known of an attribute that the constructor alone sets, in branches that its arguments choose
    (``if path is not None: self.file = h5py.File(path)``), or to the result of a test (``self.stored = path is not
    None``)."""
    owner = module.class_of(node)
    bound = project.fact(Resolver).class_attribute(module, owner, node.attr) if owner is not None else []
    values = [(where, one.value) for where, one in bound if one.value is not None and not one.path]
    constructors = {(where, where.function(value)) for where, value in values}
    if not bound or len(values) != len(bound) or len(constructors) != 1 or is_set_from_outside(project, node.attr):
        return None
    where, constructor = constructors.pop()
    if constructor is None or constructor.name != "__init__":
        return None
    chains = constructor_calls(project, NodeRef(where, constructor), NodeRef(module, node), calls)
    if any(_may_pass_nothing(project, chain[-1]) for chain in chains):
        return None
    found = {_last_set(project, where, [value for _, value in values], chain) for chain in chains}
    return found.pop() if len(found) == 1 else None


def _may_pass_nothing(project: Project, site: NodeRef) -> bool:
    """Return whether a call passes what is ``None`` unless something sets it, such as an option."""
    call = site.node
    if not isinstance(call, ast.Call):
        return True
    passed = [one for one in (*call.args, *(word.value for word in call.keywords)) if not isinstance(one, ast.Constant)]
    return any(None in project.fact(Constants).of(site.module, one).constants for one in passed)


def _last_set(project: Project, where: ModuleIndex, values: list[ast.expr], chain: Calls) -> Known | None:
    """Return what the last assignment of a constructor gives that its arguments let run; None if one may run."""
    last: Known | None = None
    for value in sorted(values, key=lambda one: one.lineno):
        told = [(truth(project, where, test, chain), holds) for test, holds in _asked(where, value)]
        if any(found is (not holds) for found, holds in told):
            continue
        if any(found is None for found, _ in told):
            return None
        last = _set_to(project, where, value, chain)
    return last


def _asked(where: ModuleIndex, value: ast.expr) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the conditions around a place of a constructor, but for those that raise an error: these make no object."""
    return ((test, holds) for test, holds in conditions(where, value) if not is_failure(where, test, value))


def _set_to(project: Project, where: ModuleIndex, value: ast.expr, chain: Calls) -> Known | None:
    """Return what an expression in a constructor is: something that is no None, where it makes an object."""
    if isinstance(value, ast.IfExp):
        held = truth(project, where, value.test, chain)
        return None if held is None else _set_to(project, where, value.body if held else value.orelse, chain)
    if isinstance(value, ast.Call) and (value.args or value.keywords) and _MAKES.match(last_name(value.func)):
        return _GIVEN
    if isinstance(value, _TESTS):
        held = truth(project, where, value, chain)
        return None if held is None else Known(held)
    return _known(project, where, value, chain)


def _passed(project: Project, module: ModuleIndex, function: FunctionNode, name: str, calls: Calls) -> Known | None:
    """Return what the last call passes for a parameter of the function that it reaches."""
    site = calls[-1]
    if not isinstance(site.node, ast.Call):
        return None
    passed = argument_of(function, site.node, name)
    if passed is None:
        default = default_of(function.args, name)
        # Who calls what it is handed may pass more than anybody sees.
        if isinstance(site.node, CallbackCall) or not isinstance(default, ast.Constant):
            return None
        return Known(default.value)
    if isinstance(passed, ast.Starred):
        return None
    if isinstance(passed, ast.Constant | ast.Tuple | ast.List | ast.Set):
        return _known(project, site.module, passed, ()) or _GIVEN
    if isinstance(passed, ast.Name):
        caller = site.module.function(site.node)
        bindings = site.module.scope(passed).lookup(passed.id)
        if caller is not None and any(binding.kind is BindingKind.PARAMETER for binding in bindings):
            known = _known(project, site.module, passed, calls[:-1])
            if known is not None or len(calls) > 1:
                return known or _GIVEN
    values = project.fact(Constants).of(site.module, passed)
    if values.complete and len(values.constants) == 1 and values.values[0].source == "literal":
        return Known(values.constants[0])
    chosen = project.fact(Constants).options.choices(site.module, passed) if isinstance(passed, ast.Attribute) else ()
    return Known(constant=False, choices=chosen) if chosen else _GIVEN
