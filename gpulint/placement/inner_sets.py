"""Data sets that others take their samples from: ``self.base[index]`` in ``__getitem__``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.placement.set_origins import SetOrigins, is_name, passed_on
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.properties import properties
from gpulint.training.call_values import is_kept_out
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

GETTERS = ("__getitem__", "__getitems__", "__iter__", "get")
"""Methods of data sets that make samples; ``get`` is PyG's."""
LAZY = ("set_transform", "with_transform")
"""Methods of Hugging Face's data sets that take what makes a sample when it is drawn."""
_OF_SETS = ("__getitem__", "__getitems__", "__iter__")
_LIBRARY_SET = regex.compile(r"\bdatasets\.[A-Z]\w*$|Dataset$")
"""Names of data sets of libraries."""
_DRAWS = frozenset({"__getitem__", "__getitems__", "__iter__", "loader"})
"""Methods that take a sample from a data set when they are called by their names; ``loader`` is torchvision's."""
MAX_METHODS = 12
"""Most methods of one data set that are looked at."""
MAX_SETS = 12
"""Most data sets within each other that are followed."""


class Drawn(NamedTuple):
    """A data set that another one takes samples from."""

    at: NodeRef
    """What takes them, in a method of the other one."""
    source: NodeRef
    """The call that makes it."""


def sets_within(project: Project, sources: Iterable[NodeRef]) -> list[NodeRef]:
    """Return data sets, and those that their samples are taken from, directly or through others."""
    found = dict.fromkeys(sources)
    todo = list(found)
    while todo and len(found) < MAX_SETS:
        for drawn in drawn_sets(project, todo.pop(0)):
            if drawn.source not in found:
                found[drawn.source] = None
                todo.append(drawn.source)
    return list(found)


def classes_of(project: Project, sources: Iterable[NodeRef]) -> Iterator[tuple[ModuleIndex, ast.ClassDef]]:
    """Yield the classes of the tree that data sets are of."""
    for source in sources:
        if isinstance(source.node, ast.expr):
            yield from project.fact(Resolver).classes_of(source.module, source.node)


@query
def drawn_sets(project: Project, made: NodeRef) -> tuple[Drawn, ...]:
    """Return the data sets that the methods of one index or go through to make a sample, by what its constructor is
    given in the call ``made``; none that conditions rule out."""
    if not isinstance(made.node, ast.expr):
        return ()
    found = dict[Drawn, None]()
    for owner in (NodeRef(*one) for one in project.fact(Resolver).classes_of(made.module, made.node)):
        origins = SetOrigins(project, made, owner)
        for method in methods_of_samples(project, owner):
            for part, taken in _taken_from(method, made, project):
                for source in origins.of(NodeRef(method.module, taken)):
                    if _is_data_set(project, source):
                        found[Drawn(NodeRef(method.module, part), source)] = None
    return tuple(found)


@query
def _is_data_set(project: Project, made: NodeRef) -> bool:
    """Return whether a call makes a data set of the tree, or of a library, and no array or list."""
    assert isinstance(made.node, ast.Call)
    resolver = project.fact(Resolver)
    if owners := resolver.classes_of(made.module, made.node):
        return any(resolver.method(*owner, name) is not None for owner in owners for name in _OF_SETS) or any(
            name.endswith("Dataset") for owner in owners for name in resolver.base_names(*owner)
        )
    names = resolver.call_names(made.module, made.node)
    if last_name(made.node.func) in LAZY or any(map(_LIBRARY_SET.search, names)):
        return True
    return any(matches(row.classes, names) for row in project.models.rows("sample-set"))


@query
def takes_from_base(project: Project, owner: NodeRef) -> bool:
    """Return whether a data set makes its samples by a method of its base that is not in the tree
    (``super().__getitem__(index)``)."""
    assert isinstance(owner.node, ast.ClassDef)
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in _DRAWS
        and (_is_super(part.func.value) or last_name(part.func.value) in _named_bases(owner.node))
        for method in methods_of_samples(project, owner)
        for part in walk(method.node)
    )


@query
def methods_of_samples(project: Project, owner: NodeRef) -> tuple[NodeRef, ...]:
    """Return the methods of a class that make a sample, with those of the class and of its bases that they call."""
    resolver = project.fact(Resolver)
    assert isinstance(owner.node, ast.ClassDef)
    getters = (resolver.method(owner.module, owner.node, name) for name in GETTERS)
    found = [getter for getter in getters if getter is not None and isinstance(getter.node, FUNCTIONS)]
    for method in found:
        called = list(_own_calls(project, owner, method)) + list(properties(project, method))
        found += [one for one in dict.fromkeys(called) if one not in found][: MAX_METHODS - len(found)]
    return tuple(found)


def _own_calls(project: Project, owner: NodeRef, method: NodeRef) -> Iterator[NodeRef]:
    resolver = project.fact(Resolver)
    assert isinstance(owner.node, ast.ClassDef)
    for part in walk(method.node):
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                called = resolver.method(owner.module, owner.node, name)
            case ast.Call(func=ast.Attribute(value=base, attr=name)) if _is_super(base):
                around = method.module.class_of(method.node)
                line = resolver.mro(owner.module, owner.node)
                at = next((place for place, (_, one) in enumerate(line) if one is around), len(line))
                called = next((found for one in line[at + 1 :] if (found := resolver.method(*one, name))), None)
            case _:
                continue
        if called is not None and isinstance(called.node, FUNCTIONS):
            yield called


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _named_bases(owner: ast.ClassDef) -> set[str]:
    return {last_name(base) for base in owner.bases} | {"self"}


def _taken_from(method: NodeRef, made: NodeRef, project: Project) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield what takes samples in a method, with what they are taken from, where no condition rules it out."""
    guards, calls = project.fact(Guards), (made,) if isinstance(made.node, ast.Call) else ()
    for part in walk(method.node):
        for taken in _takes(part):
            at = part if isinstance(part, ast.expr | ast.stmt) else taken
            if guards.is_off_by_default(method.module, at, method.node):
                continue
            if not is_kept_out(project, method.module, at, calls):
                yield at, taken


def _takes(part: ast.AST) -> Iterator[ast.expr]:
    match part:
        case ast.Subscript(value=taken, slice=index, ctx=ast.Load()):
            if not isinstance(index, ast.Slice) and not is_name(index):
                yield taken
        case ast.Call(func=ast.Attribute(value=taken, attr=name)) if name in _DRAWS:
            yield taken
        case ast.Call(func=ast.Name(id="next" | "iter"), args=[taken, *_]):
            yield from passed_on(taken)
        case (
            ast.For(iter=taken) | ast.AsyncFor(iter=taken) | ast.comprehension(iter=taken) | ast.YieldFrom(value=taken)
        ):
            yield from passed_on(taken)
