"""Conditions on options of functions and objects that the calls of the tree decide: ``if self.explains:``, where each
call of ``fit`` passes ``explains=False``; ``if group["search"] == "Armijo"`` with the default ``search="Wolfe"``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import default_of
from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import CallbackCall, argument_of
from gpulint.semantic.callers import is_on_each_way
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.parameter_tests import MAX_SITES, is_handed_on
from gpulint.training.set_attributes import is_set_from_outside
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_CALLS = 2
"""Most calls between a test and the place that it decides."""
_GROUPS = ("param_groups", "defaults")
"""Attributes of optimizers of PyTorch that hold their options."""
_SPARSE = frozenset({"issparse", "isspmatrix", "isspmatrix_csr", "isspmatrix_csc"})
_DENSE = frozenset(
    {"numpy", "to_numpy", "toarray", "todense", "array", "asarray", "ascontiguousarray", "vstack", "hstack"}
    | {"concatenate", "stack", "zeros", "ones", "reshape"}
)
"""Last names of calls that make arrays of NumPy; ``scipy.sparse`` has some of these as well."""
_Values = frozenset[object] | None
_UNKNOWN: _Values = None


def is_for_unpassed_option(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place runs only for options that no call of the tree passes, and that are no defaults."""
    return is_on_each_way(project, NodeRef(module, node), partial(_is_behind_option, project), _CALLS)


def _is_behind_option(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    return any(
        _fails(project, module, part, wanted)
        for test, holds in conditions(module, node)
        for part, wanted in parts_of(test, holds)
    )


def _fails(project: Project, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool:
    """Return whether all values that the calls of the tree give an option decide a test otherwise."""
    match test:
        case ast.Compare(
            left=left, ops=[ast.Eq() | ast.NotEq() as compares], comparators=[ast.Constant(value=str(one))]
        ):
            among: tuple[object, ...] = (one,)
            asks = isinstance(compares, ast.Eq) is wanted
        case ast.Compare(
            left=left,
            ops=[ast.In() | ast.NotIn() as compares],
            comparators=[ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts)],
        ) if all(isinstance(part, ast.Constant) for part in parts):
            among = tuple(part.value for part in parts if isinstance(part, ast.Constant))
            asks = isinstance(compares, ast.In) is wanted
        case ast.Call(func=func, args=[ast.Name() as asked]) if last_name(func) in _SPARSE:
            return wanted and _is_dense(project, module, asked)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            values = _of_option(project, module, test)
            return bool(values) and all(value is (not wanted) for value in values or ())
        case _:
            return False
    values = _of_option(project, module, left)
    return bool(values) and all(isinstance(value, str) and (value in among) is not asks for value in values or ())


@query
def _is_dense(project: Project, module: ModuleIndex, asked: ast.Name) -> bool:
    """Return whether all that the tree passes for a parameter are arrays of NumPy by what makes them."""
    resolver = project.fact(Resolver)
    made = [one for one in resolver.points_to(module, asked) if not one.path]

    def is_array(one: NodeRef) -> bool:
        match one.node:
            case ast.Attribute(attr="values"):
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if name in _DENSE:
                return not any("sparse" in full for full in resolver.call_names(one.module, one.node))
        return False

    return bool(made) and all(map(is_array, made))


def _of_option(project: Project, module: ModuleIndex, tested: ast.expr) -> _Values:
    """Return the values that the calls of the tree give an option; None for an option of the program, or what is
    unknown."""
    if module.function(tested) is None or not isinstance(tested, ast.Name | ast.Attribute | ast.Subscript):
        return None
    return _values(project, module, tested)


@cyclic(_UNKNOWN)
def _values(project: Project, module: ModuleIndex, value: ast.expr) -> _Values:
    match value:
        case ast.Constant(value=str() | bool() as constant):
            return frozenset({constant})
        case ast.Name(id=name):
            bound = module.scope(value).lookup(name)
            if len(bound) == 1 and bound[0].kind is BindingKind.PARAMETER:
                function = bound[0].scope.node
                return _passed(project, module, function, name) if isinstance(function, FUNCTIONS) else None
            if len(bound) == 1 and bound[0].value is not None and not bound[0].path and module.function(value):
                return _values(project, module, bound[0].value)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return _kept(project, module, value, name)
        case ast.Subscript(value=group, slice=ast.Constant(value=str(key))):
            return _of_group(project, module, group, key)
    known = project.fact(Constants).of(module, value)
    is_written = known.complete and all(one.source == "literal" for one in known.values)
    return frozenset(one.value for one in known.values if isinstance(one.value, str | bool)) if is_written else None


def _together(found: Iterable[_Values]) -> _Values:
    """Return all values of several; None if some are unknown."""
    each = list(found)
    return frozenset(value for one in each for value in one or ()) if None not in each else None


@query
def _passed(project: Project, module: ModuleIndex, function: FunctionNode, name: str) -> _Values:
    """Return what the calls of a function pass for a parameter; nothing for one that no code of the tree names."""
    sites = project.fact(Resolver).first_sites(module, function, MAX_SITES + 1)
    if not sites:
        called = getattr(function, "name", "")
        files = (module, *project.callers_of(module, {called}))
        return None if any(one.calls_by_name.get(called) for one in files) or called == "__init__" else frozenset()
    if len(sites) > MAX_SITES or is_handed_on(module, function):
        return None
    default, found = default_of(function.args, name), list[_Values]()
    for site in sites:
        if not isinstance(site.node, ast.Call) or isinstance(site.node, CallbackCall):
            return None
        given = argument_of(function, site.node, name)
        if isinstance(given, ast.Starred) or (given is None and default is None):
            return None
        found.append(
            _values(project, site.module, given)
            if given is not None
            else _values(project, module, default or site.node)
        )
    return _together(found)


@query
def _kept(project: Project, module: ModuleIndex, read: ast.Attribute, name: str) -> _Values:
    """Return the values of an attribute that methods of its class set, and no other file."""
    owner = module.class_of(read)
    if owner is None or any(path != module.path for path in project.python_files_with(f".{name} = ".encode())):
        return None
    if is_set_from_outside(project, name):
        return None
    kept = module.attributes.get((owner, name), [])
    if not kept or any(one.value is None or one.path for one in kept):
        return None
    return _together(_values(project, module, one.value) for one in kept if one.value is not None)


def _of_group(project: Project, module: ModuleIndex, group: ast.expr, key: str) -> _Values:
    """Return the values of an option of an optimizer: what its constructor, or a method, puts into its groups."""
    owner = module.class_of(group)
    if owner is None or not _is_group(module, group):
        return None
    return _of_optimizer(project, module, owner, key)


def _is_group(module: ModuleIndex, group: ast.expr) -> bool:
    """``group`` after ``group = self.param_groups[0]`` or in ``for group in self.param_groups``"""
    if isinstance(group, ast.Name):
        bound = module.scope(group).lookup(group.id)
        values = [one.node.iter if isinstance(one.node, ast.For) else one.value for one in bound]
        return bool(values) and all(
            one is not None and not isinstance(one, ast.Name) and _is_group(module, one) for one in values
        )
    inner = group.value if isinstance(group, ast.Subscript) else group
    return isinstance(inner, ast.Attribute) and last_name(inner) in _GROUPS


@query
def _of_optimizer(project: Project, module: ModuleIndex, owner: ast.ClassDef, key: str) -> _Values:
    found = list[_Values]()
    for part in walk(owner):
        match part:
            case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
                found += (_values(project, module, one.value) for one in keywords if one.arg == key)
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                found += (
                    _values(project, module, one)
                    for name, one in pairs
                    if isinstance(name, ast.Constant) and name.value == key
                )
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=name))], value=given) if name == key:
                found.append(_values(project, module, given))
    return _together(found)
