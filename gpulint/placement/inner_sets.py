"""Data sets that others take their samples from: ``self.base[index]`` in ``__getitem__``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gpulint.documents.call_syntax import default_of
from gpulint.documents.python import walk
from gpulint.placement.dataset_parts import SPLITS, held_by
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.properties import properties
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.call_values import is_kept_out
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

GETTERS = ("__getitem__", "__getitems__", "__iter__", "get")
"""Methods of data sets that make samples; ``get`` is PyG's."""
_DRAWS = frozenset({"__getitem__", "__getitems__", "__iter__", "loader"})
"""Methods that take a sample from a data set when they are called by their names; ``loader`` is torchvision's."""
_PASSES_ON = frozenset({"enumerate", "iter", "list", "reversed", "sorted", "tqdm", "tuple", "zip"})
_OF_DICTIONARY = frozenset({"items", "values"})
_SEVERAL = frozenset({"random_split", "train_test_split"})
"""Calls that return several parts of a data set."""
_ADDS = frozenset({"append", "insert"})
MAX_METHODS = 12
"""Most methods of one data set that are looked at."""
MAX_STEPS = 40
"""Most expressions that lead from what is indexed to the data sets that it may be."""
MAX_SETS = 12
"""Most data sets within each other that are followed."""


class Drawn(NamedTuple):
    """A data set that another one takes samples from."""

    at: NodeRef
    """What takes them, in a method of the other one."""
    source: NodeRef
    """The call that makes it."""


class _Step(NamedTuple):
    """An expression on the way to a data set, which it holds so many containers deep."""

    ref: NodeRef
    deep: int


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


@query
def drawn_sets(project: Project, made: NodeRef) -> tuple[Drawn, ...]:
    """Return the data sets that the methods of one index or go through to make a sample, by what its constructor is
    given in the call ``made``; none that conditions rule out."""
    if not isinstance(made.node, ast.expr):
        return ()
    found = dict[Drawn, None]()
    for owner in (NodeRef(*one) for one in project.fact(Resolver).classes_of(made.module, made.node)):
        origins = _Origins(project, made, owner)
        for method in methods_of_samples(project, owner):
            for part, taken in _taken_from(method, made, project):
                for source in origins.of(NodeRef(method.module, taken)):
                    found[Drawn(NodeRef(method.module, part), source)] = None
    return tuple(found)


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
            if not isinstance(index, ast.Slice) and not (
                isinstance(index, ast.Constant) and isinstance(index.value, str)
            ):
                yield taken
        case ast.Call(func=ast.Attribute(value=taken, attr=name)) if name in _DRAWS:
            yield taken
        case ast.Call(func=ast.Name(id="next" | "iter"), args=[taken, *_]):
            yield from _passed_on(taken)
        case (
            ast.For(iter=taken) | ast.AsyncFor(iter=taken) | ast.comprehension(iter=taken) | ast.YieldFrom(value=taken)
        ):
            yield from _passed_on(taken)


def _passed_on(iterated: ast.expr) -> Iterator[ast.expr]:
    """``parts`` of ``enumerate(parts)`` and of ``parts.values()``"""
    match iterated:
        case ast.Call(func=ast.Attribute(value=held, attr=name), args=[]) if name in _OF_DICTIONARY:
            yield held
        case ast.Call(func=called, args=given) if last_name(called) in _PASSES_ON:
            for one in given:
                yield from _passed_on(one)
        case _:
            yield iterated


class _Origins:
    """Follows expressions in the methods of a data set to the calls that make the data sets which they may be."""

    def __init__(self, project: Project, made: NodeRef, owner: NodeRef) -> None:
        self._project, self._made, self._owner = project, made, owner
        self._resolver = project.fact(Resolver)
        assert isinstance(owner.node, ast.ClassDef)
        self._init = self._resolver.method(owner.module, owner.node, "__init__")
        self._line = self._resolver.mro(owner.module, owner.node)

    def of(self, taken: NodeRef) -> list[NodeRef]:
        """The calls that make what samples are taken from."""
        todo, seen, found = [_Step(taken, 0)], set[tuple[ast.AST, int]](), list[NodeRef]()
        while todo and len(seen) < MAX_STEPS:
            step = todo.pop()
            if (step.ref.node, step.deep) in seen:
                continue
            seen.add((step.ref.node, step.deep))
            following = list(self._following(step))
            todo += following
            if not following and not step.deep and isinstance(step.ref.node, ast.Call):
                found.append(NodeRef(step.ref.module, step.ref.node))
        return found

    def _following(self, step: _Step) -> Iterator[_Step]:
        (module, node), deep = step.ref[:2], step.deep
        match node:
            case ast.Subscript(value=base, slice=index):
                yield _Step(NodeRef(module, base), deep if isinstance(index, ast.Slice) else deep + 1)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                yield from self._kept(name, deep)
            case ast.Attribute(value=base, attr=attr):
                values = self._pointed_at(step)
                yield from values or ([_Step(NodeRef(module, base), deep)] if attr == "dataset" else ())
            case ast.Name():
                yield from self._named(step, node)
            case ast.IfExp(body=one, orelse=other):
                yield from (_Step(NodeRef(module, part), deep) for part in (one, other))
            case ast.BoolOp(values=parts):
                yield from (_Step(NodeRef(module, part), deep) for part in parts)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts) if deep:
                yield from (_Step(NodeRef(module, part), deep - 1) for part in parts)
            case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part) if deep:
                yield _Step(NodeRef(module, part), deep - 1)
            case ast.Call():
                yield from self._called(step, node)

    def _called(self, step: _Step, call: ast.Call) -> Iterator[_Step]:
        name, module, deep = last_name(call.func), step.ref.module, step.deep
        if name in SPLITS:
            if name in _SEVERAL and not deep:
                return
            parts = held_by(NodeRef(module, call))
            yield from (_Step(part, deep - 1 if name in _SEVERAL else deep) for part in parts)
        elif name in _PASSES_ON and deep:
            yield from (_Step(NodeRef(module, part), deep) for part in call.args)
        elif not self._resolver.classes_of(module, call):
            yield from self._pointed_at(step)

    def _pointed_at(self, step: _Step) -> list[_Step]:
        """What the names of a value stand for elsewhere."""
        origins = self._resolver.points_to(step.ref.module, step.ref.node)
        return [
            _Step(NodeRef(ref.module, ref.node), step.deep + len(ref.path))
            for ref in origins
            if ref.node is not step.ref.node and isinstance(ref.node, ast.expr)
        ]

    def _named(self, step: _Step, name: ast.Name) -> Iterator[_Step]:
        module, deep = step.ref.module, step.deep
        for binding in reaching(module, module.scope(name).lookup(name.id), name):
            value = binding.value
            if binding.kind is BindingKind.LOOP and value is not None:  # ``for key, part in parts.items()``
                yield from (_Step(NodeRef(module, one), deep + 1) for one in _passed_on(value))
            elif binding.kind is BindingKind.ASSIGN and value is not None:
                yield _Step(NodeRef(module, value), deep + len(binding.path))
            elif binding.kind is BindingKind.PARAMETER and (given := self._given(step.ref, name)) is not None:
                yield _Step(given, deep)
            else:
                yield from self._pointed_at(step)
        if deep:
            yield from self._added(module.function(name), name.id, deep)

    def _given(self, ref: NodeRef, name: ast.Name) -> NodeRef | None:
        """What the call that makes the data set passes for a parameter of its constructor."""
        function, call = ref.module.function(name), self._made.node
        if self._init is None or function is not self._init.node or not isinstance(call, ast.Call):
            return None
        if not isinstance(function, FUNCTIONS) or name.id not in parameters(function):
            return None
        passed = argument_of(function, call, name.id)
        if passed is None:
            default = default_of(function.args, name.id)
            return NodeRef(ref.module, default) if default is not None else None
        return NodeRef(self._made.module, passed) if not isinstance(passed, ast.Starred) else None

    def _kept(self, name: str, deep: int) -> Iterator[_Step]:
        """What an attribute is set to, and what is added to it."""
        for module, owner in self._line:
            for binding in module.attributes.get((owner, name), ()):
                if binding.value is not None:
                    yield _Step(NodeRef(module, binding.value), deep + len(binding.path))
            if deep:
                yield from self._added(owner, f"self.{name}", deep)

    def _added(self, inside: ast.AST | None, text: str, deep: int) -> Iterator[_Step]:
        """``self.parts.append(ImageFolder(root))``, ``self.parts[name] = ImageFolder(root)``"""
        for module, owner in self._line if inside is not None else ():
            if inside is not owner and not (isinstance(inside, FUNCTIONS) and module.class_of(inside) is owner):
                continue
            for part in walk(inside):
                match part:
                    case ast.Call(func=ast.Attribute(value=held, attr=adds), args=[*_, value]) if adds in _ADDS:
                        pass
                    case ast.Assign(targets=[ast.Subscript(value=held)], value=value):
                        pass
                    case _:
                        continue
                if ast.unparse(held) == text:
                    yield _Step(NodeRef(module, value), deep - 1)
