"""Data sets that give out their samples as they are."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import with_defaults
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.properties import properties
from gpulint.workload import filled_samples
from gpulint.workload.conversions import CHEAP, only_converts
from gpulint.workload.list_draws import draws, loops_around
from gpulint.workload.stored_arrays import reads_stored
from gpulint.workspace.module_index import FUNCTIONS, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_SET = regex.compile(r"set$|^ds$|_ds$|^base(_|$)|loader", re.IGNORECASE)
"""Names of parameters for data sets."""


def looks_up_as_made(project: Project, owner: NodeRef, made: NodeRef) -> bool:
    """Return whether a class gives out samples as they are, as the expression ``made`` makes its object."""
    missing = filled_samples.calls_for_missing(project, owner, made)
    return only_looks_up(project, owner, _costing_nothing(project, owner, made) | missing)


@query
def only_looks_up(project: Project, dataset: NodeRef, unset: frozenset[str] = frozenset()) -> bool:
    """Return whether a class gives out samples as they are. ``unset`` are its attributes that are None, or
    hold what costs nothing to call."""
    assert isinstance(dataset.node, ast.ClassDef)
    getter = project.fact(Resolver).method(dataset.module, dataset.node, "__getitem__")
    if getter is None or not isinstance(getter.node, FUNCTIONS):
        return False
    if reads_stored(project, getter, dataset):
        return False
    raised = {part for node in walk(getter.node) if isinstance(node, ast.Raise) for part in walk(node)}
    run = (getter, *properties(project, getter))
    calls = [(one, call) for one in run for call in walk(one.node) if isinstance(call, ast.Call) and call not in raised]
    return all(
        last_name(call.func) in CHEAP
        or ast.unparse(call.func) in unset
        or _is_record(project, getter.module, call)
        or (draws(project, one.module, call) and not loops_around(one, call))
        for one, call in calls
    )


def _is_record(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call makes an instance of a class that only has fields (a ``NamedTuple``, a data class)."""
    made = project.fact(Resolver).points_to(module, call.func)
    return bool(made) and all(
        isinstance(ref.node, ast.ClassDef) and not any(isinstance(part, FUNCTIONS) for part in ref.node.body)
        for ref in made
    )


def _costing_nothing(project: Project, dataset: NodeRef, made: NodeRef) -> frozenset[str]:
    """Attributes of a data set (``self.transform``) for parameters that are None, by default or as they are given, or
    for transforms that only convert the sample."""
    assert isinstance(dataset.node, ast.ClassDef)
    if not isinstance(made.node, ast.Call):
        return frozenset()
    init = project.fact(Resolver).method(dataset.module, dataset.node, "__init__")
    if init is None or not isinstance(init.node, ast.FunctionDef) or any(k.arg is None for k in made.node.keywords):
        return frozenset()
    given = dict[str, NodeRef]()
    for arg, default in with_defaults(init.node.args):
        passed = argument_of(init.node, made.node, arg.arg)
        if passed is not None or default is not None:
            given[arg.arg] = NodeRef(made.module if passed is not None else init.module, passed or default or made.node)
    holds_arrays = not any(_may_be_data_set(project, name, value) for name, value in given.items())
    free, other = set[str](), set[str]()
    for node in (part for part in walk(init.node) if isinstance(part, ast.Assign)):
        is_parameter = isinstance(node.value, ast.Name) and node.value.id in given
        value = given[ast.unparse(node.value)] if is_parameter else NodeRef(init.module, node.value)
        is_none = is_parameter and isinstance(value.node, ast.Constant) and value.node.value is None
        costs_nothing = is_none or (holds_arrays and only_converts(project, value))
        (free if costs_nothing else other).update(map(ast.unparse, node.targets[:1]))
    return frozenset(free - other)


def _may_be_data_set(project: Project, name: str, value: NodeRef) -> bool:
    """Return whether a parameter may hold another data set, whose items take work of their own."""
    resolver = project.fact(Resolver)
    return bool(_SET.search(name)) or any(
        resolver.method(*owner, "__getitem__") is not None
        for owner in (resolver.classes_of(value.module, value.node) if isinstance(value.node, ast.expr) else ())
    )
