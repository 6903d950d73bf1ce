"""Data sets whose samples change what the program reads later, such as how often each was drawn, or which sample is
next: workers would change copies of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.gpu_samples import kept_attributes, reached
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import FunctionNode

_TAKES = frozenset({"pop", "popleft", "get_nowait"})
_TELLS = frozenset({"print", "info", "debug", "warning", "warn", "log", "write", "set_postfix", "add_scalar"})
"""Functions that only tell something."""
_QUEUES = ("queue.*Queue",)
"""Queues in the memory of one process; one of ``multiprocessing`` serves its workers as well."""
_ADDS = frozenset({"append", "add", "extend", "update", "put"})


def changed_for_others(project: Project, loader: Loader) -> str:
    """Return the attribute of a data set that each sample changes and the program reads elsewhere; empty if there is
    none."""
    resolver = project.fact(Resolver)
    for source in sets_of(project, loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            if name := _changed(project, NodeRef(where, owner), loader.module):
                return name
    return ""


def takes_turns(project: Project, loader: Loader) -> str:
    """Return the attribute of a data set from which each sample takes the next, whatever its index: an iterator, a
    queue, or a position. Each worker would have a copy that starts at the first. Empty if there is none."""
    resolver = project.fact(Resolver)
    for source in sets_of(project, loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            if name := _next_of(project, NodeRef(where, owner)):
                return name
    return ""


def steers_itself(project: Project, loader: Loader) -> str:
    """Return the attribute in which the samples of a data set count, to change the data set once it reaches a number
    (``if self.drawn == len(self): random.shuffle(self.names)``). Each worker would count a part of the samples, in a
    copy of its own. Empty if there is none."""
    resolver = project.fact(Resolver)
    for source in sets_of(project, loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            if name := _steering(project, NodeRef(where, owner)):
                return name
    return ""


def _parts_of_samples(owner: ast.ClassDef) -> list[ast.AST]:
    """Return all nodes of what makes a sample: of ``__getitem__``, and of the methods that it calls."""
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    get = methods.get("__getitem__")
    return [part for method in reached(methods, get) for part in walk(method)] if get is not None else []


@query
def _steering(project: Project, data_set: NodeRef) -> str:
    owner = data_set.node
    assert isinstance(owner, ast.ClassDef)
    parts = _parts_of_samples(owner)
    counted = {name for part in parts if (name := counted_up(part))}
    for branch in (part for part in parts if isinstance(part, ast.If) and counted):
        names = [part.attr for part in walk(branch.test) if isinstance(part, ast.Attribute) and part.attr in counted]
        if names and any(_changes_more(part, counted) for statement in branch.body for part in walk(statement)):
            return names[0]
    return ""


def counted_up(part: ast.AST) -> str:
    """Return the attribute that a statement counts up or down: ``self.next += 1``, ``self.next = (self.next + 1) %
    len(self)``; empty if there is none."""
    match part:
        case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return name
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.BinOp() as value):
            sums = (one for one in walk(value) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add | ast.Sub))
            return name if any(_is_own(end, name) for one in sums for end in (one.left, one.right)) else ""
    return ""


def _is_own(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Attribute) and value.attr == name and last_name(value.value) == "self"


def _changes_more(part: ast.AST, counted: set[str]) -> bool:
    """Return whether something changes an attribute besides those that count: sets it, hands it to a function that
    returns nothing, or calls a method for that."""
    match part:
        case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
            return name not in counted
        case ast.Expr(value=ast.Call(func=func, args=args)) if last_name(func) not in _TELLS:
            held = [func.value, *args] if isinstance(func, ast.Attribute) else args
            return any(
                isinstance(one, ast.Attribute) and last_name(one.value) == "self" and one.attr not in counted
                for one in held
            ) or (isinstance(func, ast.Attribute) and last_name(func.value) == "self")
    return False


@query
def _next_of(project: Project, data_set: NodeRef) -> str:
    owner = data_set.node
    assert isinstance(owner, ast.ClassDef)
    parts = _parts_of_samples(owner)
    counted = {name for part in parts if (name := counted_up(part))} | {
        part.target.attr for part in parts if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Attribute)
    }
    queues = {name for name, made in kept_attributes(owner) if _is_queue(project, data_set.module, made)}
    for part in parts:
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr="get")):
                if name in queues:
                    return name
            case ast.Call(func=ast.Name(id="next"), args=[ast.Attribute(value=ast.Name(id="self"), attr=name), *_]):
                return name
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr=takes), args=[]
            ) if takes in _TAKES:
                return name
            case ast.Subscript(ctx=ast.Load(), slice=position):
                inner = (one for one in walk(position) if isinstance(one, ast.Attribute))
                if name := next((one.attr for one in inner if one.attr in counted), ""):
                    return name
    return ""


def _is_queue(project: Project, module: ModuleIndex, made: ast.expr) -> bool:
    """Return whether an attribute is a queue that the data set makes, or is given."""
    resolver = project.fact(Resolver)
    return any(
        isinstance(ref.node, ast.Call) and matches(_QUEUES, resolver.call_names(ref.module, ref.node))
        for ref in resolver.points_to(module, made)
    )


@query
def _changed(project: Project, data_set: NodeRef, user: ModuleIndex) -> str:
    owner = data_set.node
    assert isinstance(owner, ast.ClassDef)
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    if (get := methods.get("__getitem__")) is None:
        return ""
    makers = reached(methods, get)
    changed = dict.fromkeys(name for method in makers for name in _changes(method))
    return next((name for name in changed if _is_read(data_set.module, owner, makers, name, user)), "")


def _changes(method: FunctionNode) -> Iterator[str]:
    """The attributes that a method counts up or adds to."""
    for part in walk(method):
        match part:
            case (
                ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name))
                | ast.AugAssign(target=ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name)))
            ):
                yield name
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr=adds))
            ) if adds in _ADDS:
                yield name


def _is_read(
    module: ModuleIndex, owner: ast.ClassDef, makers: list[ast.FunctionDef], name: str, user: ModuleIndex
) -> bool:
    """Return whether the program reads an attribute outside of the class, or by a method that it calls itself."""
    others = [part for part in owner.body if isinstance(part, FUNCTIONS) and part not in makers]
    readers = {
        method.name
        for method in others
        if not method.name.startswith("__") and any(_reads(part, name) for part in walk(method))
    }
    return any(
        (_reads(part, name) and where.class_of(part) is not owner)
        or (isinstance(part, ast.Attribute) and part.attr in readers and where.class_of(part) is not owner)
        for where in {module, user}
        for part in where.syntax.of(ast.Attribute)
    )


def _reads(part: ast.AST, name: str) -> bool:
    return isinstance(part, ast.Attribute) and part.attr == name and isinstance(part.ctx, ast.Load)
