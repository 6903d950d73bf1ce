"""Whether loaders have workers, and so many that their work per sample keeps up with the GPU."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeGuard

from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.values.arguments import ArgumentState
from gpulint.values.constants import Constants
from gpulint.values.parameter_defaults import is_overridden
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.given_up import is_given_up
from gpulint.workload.library_handles import handles
from gpulint.workload.making_commands import settings_of
from gpulint.workload.stored_values import stored_for
from gpulint.workload.worker_callers import zero_callers
from gpulint.workspace.module_index import FUNCTIONS, Binding, FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MANY_WORKERS = 10
"""From so many on, each process loads as many images a second as training a usual network takes."""


_AT_ONCE = frozenset({"open"})
"""What opens a file that constructors read as a whole, as a rule."""
_NO_READERS = frozenset({"__init__", "__del__", "__exit__", "close"})
_MAX_HOLDERS = 2
"""How many objects deep what a data set holds is looked at."""
_MAX_PARTS = 3
"""Groups within groups of a file."""
_MAKING_PARTS = frozenset({"begin", "cursor"})
_HOLDING_PARTS = frozenset({"root", "variables"})


def loads_in_process(project: Project, loader: Loader) -> bool:
    """Return whether the training process certainly makes the batches: no workers are set, or 0."""
    argument = loader_argument(project, loader, "num_workers")
    if argument.passed is ArgumentState.UNKNOWN or argument.unknown:
        return False
    if argument.passed is ArgumentState.SOMETIMES and not argument.refs:
        return False
    known = [settings_of(project, loader, ref) for ref in argument.refs]
    if not all(value.every(lambda number: number == 0) for value in known):
        return bool(zero_callers(project, loader))
    return not any(is_overridden(project, value.place) for one in known for value in one.values)


def shares_handle(project: Project, loader: Loader) -> bool:
    """Return whether the data set of a loader is given an open file, or opens one before its workers start, and reads
    samples from it. What the data set is a part of or holds counts as well."""
    return _shares(project, loader, "file")


def shares_client(project: Project, loader: Loader) -> bool:
    """Return whether the data set of a loader makes a client before its workers start, and reads samples with it."""
    return _shares(project, loader, "client")


def shares_engine(project: Project, loader: Loader) -> bool:
    """Return whether the data set of a loader makes its samples with a library's object that computes in threads of its
    own (``onnxruntime.InferenceSession``), which forked workers would lack."""
    return _shares(project, loader, "engine")


def _shares(project: Project, loader: Loader, kind: str) -> bool:
    resolver = project.fact(Resolver)
    for made in dict.fromkeys((*_made(project, loader), *sets_of(project, loader))):
        given = [*made.node.args, *(key.value for key in made.node.keywords)] if isinstance(made.node, ast.Call) else []
        if any(_is_open(project, made.module, value, kind, parts=0) for value in given):
            return True
        if any(_holds_open(project, made.module, value, kind, _MAX_HOLDERS - 1) for value in given):
            return True
        if isinstance(made.node, ast.expr) and any(
            _keeps_open(project, where, owner, kind, _MAX_HOLDERS, made) or _uses_variable(project, where, owner, kind)
            for where, owner in resolver.classes_of(made.module, made.node)
        ):
            return True
    return False


def _made(project: Project, loader: Loader) -> list[NodeRef]:
    resolver = project.fact(Resolver)
    return [
        made
        for source in project.fact(HostToDevice).sources(loader)
        for made in resolver.points_to(source.module, source.node)
    ]


@query
def _keeps_open(
    project: Project, module: ModuleIndex, owner: ast.ClassDef, kind: str, holders: int, maker: NodeRef | None = None
) -> bool:
    """Return whether the constructor of a class or a base opens a file, or makes a client, that its objects, or an
    object which it makes, read later. Of a call that makes the object, what others pass or choose does not count."""
    resolver = project.fact(Resolver)
    for where, base in resolver.mro(module, owner):
        for (home, name), stored in where.attributes.items():
            if home is not base or is_given_up(base, name):
                continue
            made = [
                part
                for one in stored
                if (value := _bound(one)) is not None and _is_constructed(where, base, one.node)
                for part in stored_for(project, where, value, maker)
            ]
            if any(_is_open(project, one.module, one.node, kind) for one in made) and _reads_samples(base, name):
                return True
            plain = kind == "file" and any(_is_plain_file(project, one.module, one.node) for one in made)
            if plain and _seeks(base, name):
                return True
            if holders and any(_holds_open(project, one.module, one.node, kind, holders - 1) for one in made):
                return True
    return False


def _holds_open(project: Project, module: ModuleIndex, value: ast.AST, kind: str, holders: int) -> bool:
    """Return whether an object that an expression makes, perhaps on a condition (``Store(path) if path else None``),
    keeps an open file."""
    if isinstance(value, ast.IfExp | ast.BoolOp):
        either = (value.body, value.orelse) if isinstance(value, ast.IfExp) else value.values
        return any(_holds_open(project, module, one, kind, holders) for one in either)
    if not isinstance(value, ast.Call | ast.Name):
        return False
    classes = project.fact(Resolver).classes_of(module, value)
    return any(_keeps_open(project, *held, kind, holders) for held in classes)


@query
def _uses_variable(project: Project, module: ModuleIndex, owner: ast.ClassDef, kind: str) -> bool:
    """Return whether methods of a class read an open file, or use a client, that a module made when it was imported
    (``s3 = boto3.client("s3")``)."""
    points_to = project.fact(Resolver).points_to
    names = {
        part.id: part
        for method in owner.body
        if isinstance(method, FUNCTIONS) and method.name not in _NO_READERS
        for part in walk(method)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
    }
    return any(
        ref.module.function(ref.node) is None and _is_open(project, ref.module, ref.node, kind)
        for name in names.values()
        for ref in points_to(module, name)
        if isinstance(ref.node, ast.expr)
    )


def _bound(binding: Binding) -> ast.expr | None:
    """Return what a name is bound to: its part, where it is unpacked (``self.images, self.masks = images, masks``)."""
    value = binding.value
    for index in binding.path:
        if not isinstance(value, ast.Tuple | ast.List) or index >= len(value.elts):
            return binding.value
        value = value.elts[index]
    return value


def _is_constructed(module: ModuleIndex, owner: ast.ClassDef, node: ast.AST) -> bool:
    """Return whether a place is in the constructor of a class, or in a method that it calls (``self._open()``) and of
    which it does not give up what it has opened."""
    function = module.function(node)
    if function is None or function.name == "__init__":
        return function is not None
    for method in owner.body:
        if isinstance(method, FUNCTIONS) and method.name == "__init__":
            lines = [part.lineno for part in walk(method) if _calls_own(part, function.name)]
            return bool(lines) and not any(_gives_up(part, max(lines)) for part in walk(method))
    return False


def _calls_own(part: ast.AST, name: str) -> TypeGuard[ast.Call]:
    return (
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and ast.unparse(part.func) == f"self.{name}"
    )


def _gives_up(part: ast.AST, line: int) -> bool:
    """Return whether a part of a constructor behind a line closes something, or sets or deletes an attribute."""
    if getattr(part, "lineno", 0) <= line:
        return False
    if isinstance(part, ast.Assign):
        return isinstance(part.value, ast.Constant) and part.value.value is None
    return isinstance(part, ast.Delete) or (isinstance(part, ast.Call) and "close" in last_name(part.func))


def _reads_samples(owner: ast.ClassDef, name: str) -> bool:
    """Return whether an open file that an attribute holds is read for each sample, and not only by ``__init__`` into
    memory (``self.labels = self.file["labels"][:]``)."""
    for method in (part for part in owner.body if isinstance(part, FUNCTIONS)):
        for part in walk(method):
            if method.name not in _NO_READERS and _uses(part, name):
                return True
            if (
                isinstance(part, ast.Assign)
                and any(isinstance(target, ast.Attribute) for target in part.targets)
                and not _is_in_memory(part.value)
                and any(_uses(used, name) for used in walk(part.value))
            ):
                return True
    return False


def _uses(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)


def _seeks(owner: ast.ClassDef, name: str) -> bool:
    """Return whether a method moves in a file that an attribute holds (``self.file.seek(offset)``)."""
    return any(
        isinstance(part, ast.Attribute) and part.attr == "seek" and _uses(part.value, name)
        for method in owner.body
        if isinstance(method, FUNCTIONS) and method.name not in _NO_READERS
        for part in walk(method)
    )


def _is_in_memory(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr="cursor" | "begin")):
            return False
        case ast.Call():
            return True
        case ast.Subscript(slice=ast.Slice() | ast.Tuple(elts=[])):
            return True
    return False


def _is_open(project: Project, module: ModuleIndex, value: ast.AST, kind: str, parts: int = _MAX_PARTS) -> bool:
    """Return whether a value is an open file or a client, or a part of one that reads from it only when it is used."""
    resolver = project.fact(Resolver)
    for ref in resolver.points_to(module, value) or [NodeRef(module, value)]:
        if isinstance(ref.node, ast.Call) and matches(
            handles(project, kind), _names(project, ref.module, ref.node) - _AT_ONCE
        ):
            return True
        whole = _whole(ref.node)
        if parts and whole is not None and _is_open(project, ref.module, whole, kind, parts - 1):
            return True
    return False


def _names(project: Project, module: ModuleIndex, call: ast.Call) -> frozenset[str]:
    """Return the names of what is called, also by an attribute that holds a part of a library (``self.poses =
    mediapipe.solutions.pose``, ``self.poses.Pose()``)."""
    resolver = project.fact(Resolver)
    names = resolver.call_names(module, call)
    if names or not isinstance(call.func, ast.Attribute):
        return names
    parts = (ref for ref in resolver.points_to(module, call.func.value) if isinstance(ref.node, ast.Attribute))
    return frozenset(f"{name}.{call.func.attr}" for ref in parts for name in resolver.names(ref.module, ref.node))


def _whole(part: ast.AST) -> ast.expr | None:
    """Return what an expression takes a part of without reading it: ``file["images"]``, ``environment.begin()``."""
    match part:
        case ast.Subscript(value=whole, slice=ast.Constant(value=str()) | ast.JoinedStr()):
            return whole
        case ast.Call(func=ast.Attribute(value=whole, attr=name)) if name in _MAKING_PARTS:
            return whole
        case ast.Attribute(value=whole, attr=name) if name in _HOLDING_PARTS:
            return whole
    return None


def _is_plain_file(project: Project, module: ModuleIndex, value: ast.AST) -> bool:
    resolver = project.fact(Resolver)
    return isinstance(value, ast.Call) and not _AT_ONCE.isdisjoint(resolver.call_names(module, value))


def has_many_workers(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether all loaders of the tree that call a function for each item or batch have many workers."""
    owner = module.class_of(function)
    name = owner.name if owner is not None else function.name
    loaders = [
        loader
        for user in {module, *project.users_of(module, {name})}
        for loader in project.fact(LoaderFlow).in_module(user)
        if (_collates(project, loader, function) if owner is None else _reads(project, loader, owner))
    ]
    return bool(loaders) and all(_has_many(project, loader) for loader in loaders)


def _collates(project: Project, loader: Loader, function: FunctionNode) -> bool:
    return any(
        made.node is function
        for ref in loader_argument(project, loader, "collate_fn").refs
        for made in project.fact(Resolver).points_to(ref.module, ref.node)
    )


def _reads(project: Project, loader: Loader, owner: ast.ClassDef) -> bool:
    resolver = project.fact(Resolver)
    return any(
        found is owner
        for source in project.fact(HostToDevice).sources(loader)
        if isinstance(source.node, ast.expr)
        for _, found in resolver.classes_of(source.module, source.node)
    )


def _has_many(project: Project, loader: Loader) -> bool:
    refs = loader_argument(project, loader, "num_workers").refs
    return bool(refs) and all(
        isinstance(ref.node, ast.expr)
        and project.fact(Constants)
        .of(ref.module, ref.node)
        .every(lambda value: isinstance(value, int) and value >= MANY_WORKERS)
        for ref in refs
    )
