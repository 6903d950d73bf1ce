"""Samples and batches that the processes of a program make together, by messages between them (MPI, collectives of
PyTorch): a worker is none of these processes, and would wait for the others or fail."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.collectives import collective
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.gpu_samples import kept_attributes, reached
from gpulint.workload.library_handles import handles
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

_HELPERS = 2
"""How many calls deep functions are followed."""
_GETTERS = ("__getitem__", "__getitems__", "__iter__")
_PARTS = frozenset({"Split", "Split_type", "Dup", "Clone", "Create", "Create_group", "Create_cart"})
"""Methods of a communicator that give another one; others give data."""


def exchanging_part(project: Project, loader: Loader) -> str:
    """Return the function or the class that makes batches or samples of a loader by messages between the processes of
    the program; empty if there is none."""
    resolver = project.fact(Resolver)
    for ref in loader_argument(project, loader, "collate_fn").refs:
        for made in resolver.points_to(ref.module, ref.node):
            if name := _of_collate(project, made):
                return name
    for source in sets_of(project, loader):
        assert isinstance(source.node, ast.expr)
        classes = resolver.classes_of(source.module, source.node)
        for where, owner in classes:
            if _exchanges_samples(project, where, owner):
                return owner.name
        if not classes and isinstance(source.node, ast.Call) and _is_given_messenger(project, source):
            return ast.unparse(source.node.func)
    return ""


def _of_collate(project: Project, made: NodeRef) -> str:
    resolver, node = project.fact(Resolver), made.node
    if isinstance(node, FUNCTIONS) and _exchanges(project, made, _HELPERS):
        return getattr(node, "name", "collate_fn")
    if not isinstance(node, ast.Call):
        return ""
    if "functools.partial" in resolver.call_names(made.module, node) and node.args:
        inner = (one for one in resolver.points_to(made.module, node.args[0]) if not isinstance(one.node, ast.Call))
        return next((name for one in inner if (name := _of_collate(project, one))), "")
    for where, owner in resolver.classes_of(made.module, node):
        if _exchanges_samples(project, where, owner, ("__call__",)):
            return owner.name
    return ""


@query
def _exchanges(project: Project, function: NodeRef, helpers: int) -> bool:
    """Return whether a function, or one of the tree that it calls, sends messages to other processes."""
    resolver, module = project.fact(Resolver), function.module
    for call in (part for part in walk(function.node) if isinstance(part, ast.Call)):
        if collective(module, call, project) or _sends(project, module, call):
            return True
        called = resolver.callees(module, call) if helpers else ()
        if any(isinstance(one.node, FUNCTIONS) and _exchanges(project, one, helpers - 1) for one in called):
            return True
    return False


def _sends(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is one of a communicator: ``MPI.COMM_WORLD.Barrier()``."""
    return matches(handles(project, "messages"), project.fact(Resolver).call_names(module, call))


@query
def _exchanges_samples(
    project: Project, module: ModuleIndex, owner: ast.ClassDef, getters: tuple[str, ...] = _GETTERS
) -> bool:
    """Return whether a class makes each sample or batch by messages, perhaps with an object that its constructor gave a
    communicator to."""
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    kept = _messengers(project, module, owner)
    for name in getters:
        for method in reached(methods, methods[name]) if name in methods else ():
            if _exchanges(project, NodeRef(module, method), _HELPERS):
                return True
            if any(isinstance(part, ast.Call) and _is_called_on(part, kept) for part in walk(method)):
                return True
    return False


def _is_called_on(call: ast.Call, attributes: frozenset[str]) -> bool:
    """``self.store.get(index)``"""
    match call.func:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return name in attributes
    return False


def _messengers(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> frozenset[str]:
    """Return the attributes that a constructor sets to a communicator, or to what it gives one to."""
    found = frozenset[str]()
    for name, value in kept_attributes(owner):
        if _holds_messenger(project, NodeRef(module, value), found):
            found |= {name}
    return found


def _holds_messenger(project: Project, made: NodeRef, kept: frozenset[str]) -> bool:
    """Return whether a value is a communicator, or an object that gets one."""
    match made.node:
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if _is_messenger(project, made.module, value, kept):
            return method in _PARTS
        case ast.Call(args=args, keywords=keywords):
            given = (*args, *(keyword.value for keyword in keywords))
            return any(_is_messenger(project, made.module, value, kept) for value in given)
        case ast.expr() as value:
            return _is_messenger(project, made.module, value, kept)
    return False


def _is_messenger(project: Project, module: ModuleIndex, value: ast.expr, kept: frozenset[str]) -> bool:
    if not isinstance(value, ast.Name | ast.Attribute):
        return False
    if isinstance(value, ast.Attribute) and ast.unparse(value.value) == "self":
        return value.attr in kept
    resolver, patterns = project.fact(Resolver), handles(project, "messages")
    origins = resolver.points_to(module, value)
    return matches(patterns, resolver.names(module, value)) or any(
        matches(patterns, resolver.names(ref.module, ref.node))
        for ref in origins
        if isinstance(ref.node, ast.Attribute)
    )


def _is_given_messenger(project: Project, made: NodeRef) -> bool:
    """``RemoteSet(paths, MPI.COMM_WORLD)`` of a class outside the tree"""
    assert isinstance(made.node, ast.Call)
    given = (*made.node.args, *(keyword.value for keyword in made.node.keywords))
    return any(_is_messenger(project, made.module, value, frozenset()) for value in given)
