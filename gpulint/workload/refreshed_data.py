"""Data sets that the program changes between passes: persistent workers would go on with the copies that they got at
the start."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.gpu_samples import reached
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_REFRESHES = ("set_epoch", "resample", "refresh", "update", "reshuffle", "on_epoch_end")
"""Methods that change a data set, as their names say."""
BUILT_IN = frozenset("append clear extend insert pop remove reverse shuffle sort update".split())
MAKE_SAMPLES = ("__getitem__", "__getitems__", "__len__", "__iter__")
_HOOK = regex.compile(r"epoch|stage|step|batch|iter|begin|start|end|before|after|(^|_)on_")
"""Methods that a loop may call, by their names."""


def is_refreshed(project: Project, loader: Loader, modules: Iterable[ModuleIndex]) -> bool:
    """Return whether one of the modules changes the data set of a loader within a loop: by a method whose result is not
    used (``loader.dataset.sample_negatives()``), or by an assignment (``train_data.epoch = epoch``)."""
    made, rounds = frozenset(_made(project, loader)), rounds_of(project, loader.module, loader.node)
    kept = frozenset({"dataset", *_attributes(project, loader)})
    return any(
        _calls_refresh(module) or _changes(project, module, made, rounds) for module in dict.fromkeys(modules)
    ) or any(_is_changed_by_hook(project, owner, kept) for owner in _classes(project, loader))


def changes_within_pass(project: Project, loader: Loader) -> bool:
    """Return whether a loop over the batches of a loader assigns to an attribute of the data set (``data.size = 128``),
    which workers would not see before the next pass."""
    made = frozenset(_made(project, loader))
    reads = {read.where for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)}
    return any(
        at.node in at.module.syntax.ancestors(statement)
        for at in reads
        for statement, bases in _assignments(at.module)
        if any(_is_data_set(project, at.module, base, made) for base in bases)
    )


def _made(project: Project, loader: Loader) -> Iterator[ast.AST]:
    """Yield what makes the data set of a loader, and the data sets that it is a part of."""
    resolver = project.fact(Resolver)
    for source in (*project.fact(HostToDevice).sources(loader), *sets_of(project, loader)):
        yield from (ref.node for ref in resolver.points_to(source.module, source.node))


def _classes(project: Project, loader: Loader) -> Iterator[NodeRef]:
    resolver = project.fact(Resolver)
    for source in (*project.fact(HostToDevice).sources(loader), *sets_of(project, loader)):
        assert isinstance(source.node, ast.expr)
        yield from (NodeRef(*one) for one in resolver.classes_of(source.module, source.node))


def _attributes(project: Project, loader: Loader) -> Iterator[str]:
    """The attributes that hold the data set of a loader: ``train_set`` of ``DataLoader(self.train_set)``."""
    for source in project.fact(HostToDevice).sources(loader):
        if isinstance(source.node, ast.Attribute):
            yield source.node.attr


@query
def _is_changed_by_hook(project: Project, data_set: NodeRef, kept: frozenset[str]) -> bool:
    """Return whether a hook somewhere in the tree changes, through a loader or one of the attributes that hold it, what
    the samples of a data set are made of: ``def before_epoch(self, runner): runner.loader.dataset.set_stage(2)``."""
    owner = data_set.node
    assert isinstance(owner, ast.ClassDef)
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    makers = {method for name in MAKE_SAMPLES if name in methods for method in reached(methods, methods[name])}
    read = {part.attr for method in makers for part in walk(method) if _is_own(part)}
    setters = {
        name
        for name, method in methods.items()
        if method not in makers and not name.startswith("_") and read & {*set_by(method)}
    }
    for name in sorted(read | setters):
        for path in project.word_index.mentioning(word_of(name)):
            module = project.module_at(path)
            if module is not None and any(
                last_name(at.func if isinstance(at, ast.Call) else at) == name and _is_in_hook(project, module, at)
                for at in _changes_of_data_sets(module, kept)
            ):
                return True
    return False


@query
def _changes_of_data_sets(module: ModuleIndex, kept: frozenset[str]) -> tuple[ast.expr, ...]:
    """The methods that a module calls on a data set, by the attributes that hold it, without using what they return,
    and the attributes that it sets there."""
    found = list[ast.expr]()
    for call in module.calls:
        match call.func:
            case ast.Attribute(value=ast.Attribute(attr=attr)) if attr in kept:
                if isinstance(module.syntax.parents.get(call), ast.Expr):
                    found.append(call)
    for _, bases in _assignments(module):
        found += [base for base in bases if getattr(getattr(base, "value", None), "attr", "") in kept]
    targets = [target for one in module.syntax.of(ast.Assign) for target in one.targets]
    for target in (*targets, *(one.target for one in module.syntax.of(ast.AugAssign))):
        match target:
            case ast.Attribute(value=ast.Attribute(attr=attr)) if attr in kept:
                found.append(target)
    return tuple(found)


def _is_in_hook(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a loop does this, or a method that nothing in the tree is seen to call, named as a hook."""
    if _is_repeated(project, module, node):
        return True
    function = module.function(node)
    return (
        isinstance(function, ast.FunctionDef)
        and module.class_of(function) is not None
        and _HOOK.search(function.name) is not None
        and not project.fact(Resolver).call_sites(module, function)
    )


def _is_own(part: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self"


@query
def _calls_refresh(module: ModuleIndex) -> bool:
    return any(
        isinstance(call.func, ast.Attribute) and "dataset" in last_name(call.func.value).lower()
        for method in _REFRESHES
        for call in module.calls_by_name.get(method, [])
    ) or any(
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Attribute)
        and call.func.value.attr == "dataset"
        and isinstance(module.syntax.parents.get(call), ast.Expr)
        for call in module.calls
    )


@query
def _changes(project: Project, module: ModuleIndex, made: frozenset[ast.AST], rounds: frozenset[ast.AST]) -> bool:
    """Return whether a loop changes a data set, other than one whose ``rounds`` each make the loader anew."""
    return any(
        _is_data_set(project, module, base, made) and not rounds_of(project, module, changed) <= rounds
        for changed, bases in (*_assignments(module), *_statements(project, module))
        for base in bases
    )


def _assignments(module: ModuleIndex) -> Iterator[tuple[ast.AST, list[ast.expr]]]:
    """Assignments to a part of something, and what that is a part of, from the innermost object outwards."""
    stores = [(one, target) for one in module.syntax.of(ast.Assign) for target in one.targets]
    for statement, target in (*stores, *((one, one.target) for one in module.syntax.of(ast.AugAssign))):
        if isinstance(target, ast.Attribute | ast.Subscript):
            yield statement, _around(target.value)


def _statements(project: Project, module: ModuleIndex) -> Iterator[tuple[ast.AST, list[ast.expr]]]:
    """Calls of methods whose results are not used, and that set something on their object."""
    for call in module.calls:
        if not isinstance(call.func, ast.Attribute) or not isinstance(module.syntax.parents.get(call), ast.Expr):
            continue
        called = project.fact(Resolver).callees(module, call)
        if any(isinstance(method.node, FUNCTIONS) and _sets(method.node) for method in called):
            yield call, [call.func.value]


def _sets(method: ast.AST) -> bool:
    return any(True for _ in set_by(method))


def set_by(method: ast.AST) -> Iterator[str]:
    """The attributes that a method sets, or changes in place."""
    for part in walk(method):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name), ctx=ast.Store()):
                yield name
            case ast.Call(args=[ast.Attribute(value=ast.Name(id="self"), attr=name)], func=func):
                if last_name(func) in BUILT_IN:
                    yield name
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr=attr)):
                if attr in BUILT_IN:
                    yield name


def _around(node: ast.expr) -> list[ast.expr]:
    """``data.inner.order`` and what it is a part of: ``data.inner``, ``data``"""
    found = [node]
    while isinstance(found[-1], ast.Attribute | ast.Subscript):
        found.append(found[-1].value)
    return found


def _is_data_set(project: Project, module: ModuleIndex, node: ast.expr, made: frozenset[ast.AST]) -> bool:
    match node:
        case ast.Attribute(attr="dataset"):
            return True
        case ast.Name(id="self" | "cls"):
            return False
        case ast.Name(id=name):
            if any(getattr(one.value, "attr", "") == "dataset" for one in module.scope(node).lookup(name)):
                return True
        case ast.Attribute():
            pass
        case _:
            return False
    return any(ref.node in made for ref in project.fact(Resolver).points_to(module, node))


def rounds_of(project: Project, module: ModuleIndex, node: ast.AST) -> frozenset[ast.AST]:
    """The loops of epochs or over batches, and the hooks that frameworks call for each, in which a place runs."""
    return frozenset(context.loop.node for context in project.fact(LoopContexts).enclosing_loops(module, node))


def _is_repeated(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a loop of epochs or over batches, or a hook that a framework calls for each, does this."""
    return bool(project.fact(LoopContexts).enclosing_loops(module, node))
