"""The calls that make data sets, by the attributes, lists and arguments through which other data sets hold them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gpulint.documents.call_syntax import default_of, keyword_value
from gpulint.documents.python import walk
from gpulint.placement.dataset_parts import SPLITS, held_by
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_PASSES_ON = frozenset({"enumerate", "iter", "list", "reversed", "sorted", "tqdm", "tuple", "zip"})
_OF_DICTIONARY = frozenset({"items", "values"})
_JOINS = frozenset({"ConcatDataset"})
"""Calls that put the data sets of a list together."""
_SEVERAL = frozenset({"random_split", "train_test_split"})
"""Calls that return several parts of a data set."""
_ADDS = frozenset({"append", "insert"})
MAX_STEPS = 40
"""Most expressions that lead from what is indexed to the data sets that it may be."""


class _Step(NamedTuple):
    """An expression on the way to a data set, which it holds so many containers deep."""

    ref: NodeRef
    deep: int


def _unpacked(module: ModuleIndex, value: ast.expr, path: tuple[int, ...], deep: int) -> _Step:
    """Return the part of a value that unpacking takes: ``base`` for ``self.base, self.cut = base, cut``."""
    while path and isinstance(value, ast.Tuple | ast.List) and path[0] < len(value.elts):
        if any(isinstance(part, ast.Starred) for part in value.elts):
            break
        value, path = value.elts[path[0]], path[1:]
    return _Step(NodeRef(module, value), deep + len(path))


def is_name(index: ast.expr) -> bool:
    """Return whether an index is the name of a part: of a column, or of a split."""
    return isinstance(index, ast.Constant) and isinstance(index.value, str)


def passed_on(iterated: ast.expr) -> Iterator[ast.expr]:
    """``parts`` of ``enumerate(parts)`` and of ``parts.values()``"""
    match iterated:
        case ast.Call(func=ast.Attribute(value=held, attr=name), args=[]) if name in _OF_DICTIONARY:
            yield held
        case ast.Call(func=called, args=given) if last_name(called) in _PASSES_ON:
            for one in given:
                yield from passed_on(one)
        case _:
            yield iterated


class SetOrigins:
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
                if isinstance(index, ast.Slice) or is_name(index):  # ``load_dataset(name)["train"]``
                    yield _Step(NodeRef(module, base), deep)
                if not isinstance(index, ast.Slice):
                    yield _Step(NodeRef(module, base), deep + 1)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                yield from self._kept(name, deep)
            case ast.Attribute(value=base, attr=attr):
                values = self._pointed_at(step)
                yield from values or ([_Step(NodeRef(module, base), deep)] if attr == "dataset" else ())
            case ast.Name():
                yield from self._named(step, node)
            case ast.IfExp(body=one, orelse=other):
                yield from (_Step(NodeRef(module, part), deep) for part in (one, other))
            case ast.BinOp(left=one, op=ast.Add(), right=other):
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
            if name in _JOINS and call.args and not isinstance(call.args[0], ast.List | ast.Tuple):
                yield _Step(NodeRef(module, call.args[0]), deep + 1)
                return
            parts = held_by(NodeRef(module, call))
            yield from (_Step(part, deep - 1 if name in _SEVERAL else deep) for part in parts)
        elif name in _PASSES_ON and deep:
            yield from (_Step(NodeRef(module, part), deep) for part in call.args)
        elif not self._resolver.classes_of(module, call):
            yield from self._pointed_at(step)

    def _pointed_at(self, step: _Step) -> list[_Step]:
        """Return what the names of a value stand for elsewhere."""
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
                yield from (_Step(NodeRef(module, one), deep + 1) for one in passed_on(value))
            elif binding.kind is BindingKind.ASSIGN and value is not None:
                yield _unpacked(module, value, binding.path, deep)
            elif binding.kind is BindingKind.PARAMETER and (given := self._given(step.ref, name)) is not None:
                yield _Step(given, deep)
            else:
                yield from self._pointed_at(step)
        if deep:
            yield from self._added(module.function(name), name.id, deep)

    def _given(self, ref: NodeRef, name: ast.Name) -> NodeRef | None:
        """Return what the call that makes the data set passes for a parameter of its constructor."""
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
        """Yield what an attribute is set to, and what is added to it."""
        for module, owner in self._line:
            for binding in module.attributes.get((owner, name), ()):
                if binding.value is not None:
                    yield _unpacked(module, binding.value, binding.path, deep)
            if deep:
                yield from self._added(owner, f"self.{name}", deep)
        if self._init is None and (given := self._field(name)) is not None:
            yield _Step(given, deep)

    def _field(self, name: str) -> NodeRef | None:
        """Return what the call that makes the data set passes for a field of a data class."""
        call, owner = self._made.node, self._owner.node
        assert isinstance(owner, ast.ClassDef)
        fields = [part.target for part in owner.body if isinstance(part, ast.AnnAssign)]
        names = [target.id for target in fields if isinstance(target, ast.Name)]
        if name not in names or not isinstance(call, ast.Call):
            return None
        passed = keyword_value(call, name)
        if passed is None and not any(isinstance(one, ast.Starred) for one in call.args):
            passed = next(iter(call.args[names.index(name) :]), None)
        return NodeRef(self._made.module, passed) if passed is not None else None

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
