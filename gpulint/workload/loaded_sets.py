"""Which of several data sets a loader gets: one that replaces another where a test holds (``if pair: dataset =
Pairs(dataset, pair)``), and whether it has read all samples by then."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import default_of
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.path_conditions import conditions, is_failure, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.default_tests import fails_by_default
from gpulint.training.loader_calls import Loader
from gpulint.training.passed_options import is_for_unpassed_option
from gpulint.values.constants import Constants, ConstantSet
from gpulint.workload import dataset_work
from gpulint.workload.plain_samples import only_looks_up
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_ASSUMED = "assuming that it does not get the data set that holds its samples"
_READS_ALL = frozenset(
    {"list", "tuple", "sorted", "stack", "cat", "vstack", "concat", "concatenate", "array", "tensor"}
)
"""Calls whose result holds all samples of a data set that they are given."""


@query
def loaded_parts(project: Project, loader: Loader) -> list[NodeRef]:
    """Return what makes the data sets of a loader, as ``parts_of`` does, without those that no call of the tree
    selects, or that another one replaces which has read all of their samples, by the values that its program gives."""
    every = dataset_work.parts_of(project, loader)
    if len(every) < 2:
        return every
    found = [one for one in every if not is_for_unpassed_option(project, one.module, one.node)] or every
    chosen = [part for part in found if not (_reads(project, part) and _is_left_out(project, loader, part))]
    replaced = {
        origin.node
        for part in chosen
        for wrapped in _reads(project, part)
        if _is_reached(project, loader, part)
        for origin in project.fact(Resolver).points_to(part.module, wrapped)
    }
    return [part for part in chosen if part.node not in replaced] or found


def holds_samples(project: Project, loader: Loader) -> bool:
    """Return whether all data sets that a loader gets have read the samples of others and only look them up."""
    found = [part for part in loaded_parts(project, loader) if not isinstance(part.node, ast.Constant)]
    return bool(found) and all(_looks_up(project, part) for part in found)


def assumption(project: Project, loader: Loader) -> str:
    """Return what is assumed of a loader that gets such a data set or another one, which nothing decides."""
    return _ASSUMED if any(_looks_up(project, part) for part in loaded_parts(project, loader)) else ""


def _looks_up(project: Project, part: NodeRef) -> bool:
    owners = _classes(project, part) if _reads(project, part) else []
    return bool(owners) and all(only_looks_up(project, owner) for owner in owners)


def _classes(project: Project, part: NodeRef) -> list[NodeRef]:
    assert isinstance(part.node, ast.expr)
    return [NodeRef(*found) for found in project.fact(Resolver).classes_of(part.module, part.node)]


@query
def _reads(project: Project, part: NodeRef) -> tuple[ast.expr, ...]:
    """Return the data sets that the constructor of another one reads all samples of: what is passed for a parameter
    that it goes through, and does not keep."""
    call, resolver = part.node, project.fact(Resolver)
    if not isinstance(call, ast.Call):
        return ()
    found = list[ast.expr]()
    for owner in _classes(project, part):
        assert isinstance(owner.node, ast.ClassDef)
        init = resolver.method(owner.module, owner.node, "__init__")
        if init is None or not isinstance(init.node, ast.FunctionDef):
            return ()
        passed = {name: argument_of(init.node, call, name) for name in sorted(parameters(init.node))}
        read = [name for name in passed if _goes_through(init.node, name) and not _keeps(init.node, name)]
        found += [value for name in read if isinstance(value := passed[name], ast.Name | ast.Attribute)]
    return tuple(found)


def _goes_through(function: FunctionNode, name: str) -> bool:
    """``for sample in dataset``, ``list(dataset)``"""
    for part in walk(function):
        match part:
            case ast.For(iter=source) | ast.comprehension(iter=source):
                if any(isinstance(one, ast.Name) and one.id == name for one in _iterated(source)):
                    return True
            case ast.Call(args=[ast.Name(id=given), *_]) if given == name and last_name(part.func) in _READS_ALL:
                return True
    return False


def _iterated(source: ast.expr) -> Iterator[ast.expr]:
    """``dataset`` of ``enumerate(tqdm(dataset))`` and of ``range(len(dataset))``"""
    yield source
    if isinstance(source, ast.Call):
        for argument in source.args:
            yield from _iterated(argument)


def _keeps(function: FunctionNode, name: str) -> bool:
    """Return whether a constructor keeps a data set, or a part of it, or hands it on: ``self.dataset = dataset``,
    ``super().__init__(dataset)``."""
    for part in walk(function):
        match part:
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                given = (value, *value.args) if isinstance(value, ast.Call) else (value,)
                if _READS_ALL.isdisjoint({last_name(value.func)} if isinstance(value, ast.Call) else ()) and any(
                    isinstance(one, ast.Name) and one.id == name for one in given
                ):
                    return True
            case ast.Call(func=ast.Attribute(attr="__init__")):
                if any(isinstance(one, ast.Name) and one.id == name for one in part.args):
                    return True
    return False


def _tests(part: NodeRef) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what must be true or false for a data set to be made, other than for the program to go on."""
    for test, holds in conditions(part.module, part.node):
        if not is_failure(part.module, test, part.node):
            yield from parts_of(test, holds)


def _is_reached(project: Project, loader: Loader, part: NodeRef) -> bool:
    """Return whether all tests around a data set hold by the values that the program of a loader gives."""
    return all(_holds(project, loader, part.module, *test) for test in _tests(part))


def _is_left_out(project: Project, loader: Loader, part: NodeRef) -> bool:
    """Return whether one of these tests fails by them."""
    return any(_holds(project, loader, part.module, test, not wanted) for test, wanted in _tests(part))


def _holds(project: Project, loader: Loader, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as asks], comparators=[ast.Constant(value=None)]):
            is_none, values = wanted is isinstance(asks, ast.Is), _values(project, loader, module, left)
            return all(known.values and known.every(lambda value: (value is None) is is_none) for known in values)
        case ast.Name() | ast.Attribute():
            values = _values(project, loader, module, test)
            return all(known.values and known.every(lambda value: bool(value) is wanted) for known in values)
    return fails_by_default(project, module, test, not wanted)


def _values(project: Project, loader: Loader, module: ModuleIndex, asked: ast.expr) -> list[ConstantSet]:
    """Return what is known of a value; of a parameter for each call in the module of the loader, if there is one, since
    another program may call its function otherwise."""
    constants, function = project.fact(Constants), module.function(asked)
    if function is None or not isinstance(asked, ast.Name) or asked.id not in parameters(function):
        return [constants.of(module, asked)]
    sites = project.fact(Resolver).call_sites(module, function)
    known = list[ConstantSet]()
    for site in [site for site in sites if site.module is loader.module]:
        if not isinstance(site.node, ast.Call):
            continue
        value = argument_of(function, site.node, asked.id)
        default = default_of(function.args, asked.id)
        if value is not None:
            known.append(constants.of(site.module, value))
        elif default is not None:
            known.append(constants.of(module, default))
    return known or [constants.of(module, asked)]
