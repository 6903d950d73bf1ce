"""What an expression may be: qualified names, the expressions that define it, the functions that a call reaches.

Everything is a set: when two assignments can reach a use, both count. Where nothing in the tree defines a value, the
unresolved expression itself is the answer, and whoever asked must treat it as unknown. Calls and assignments are
followed however long the chain; those in a cycle get what reaches the cycle from outside.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.compact import both
from gpulint.documents.python import children
from gpulint.query import cyclic, query
from gpulint.semantic import argument_binding, dictionary_items
from gpulint.semantic.argument_binding import RECEIVERS, argument_of, attribute_of, fitting, given_by_name, under_name
from gpulint.semantic.attribute_sources import (
    is_property,
    item_under,
    keeps_keywords,
    made_by_default,
    stored_before,
    stored_where_made,
)
from gpulint.semantic.call_graph import call_sites
from gpulint.semantic.chosen_returns import chosen
from gpulint.semantic.class_hierarchy import ClassHierarchy
from gpulint.semantic.operating_systems import excludes_linux
from gpulint.semantic.qualified_names import BUILTINS
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import (
    FUNCTIONS,
    Binding,
    BindingKind,
    FunctionNode,
    ModuleIndex,
    NodeRef,
    last_name,
)

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_ORIGINS = 30
"""More possible definitions than this count as unknown."""
MAX_CALLERS = 25
"""Most callers of one function whose arguments are followed."""
MAX_PATH = 3
"""How deep an element of an unpacked value is followed; ``x, y = f(x)`` in a cycle of calls would go on for ever."""
SELF_METHODS = frozenset("to cuda eval train half float double bfloat16 requires_grad_ share_memory".split())
_WRAPPERS = frozenset({"DataParallel", "DistributedDataParallel", "DDP"})
_NOTHING: tuple[NodeRef, ...] = ()
_FOLLOWED = both(
    ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Tuple, ast.List, ast.IfExp, ast.BoolOp, ast.NamedExpr,
    ast.Await, ast.Starred,
)  # fmt: skip
"""Expressions that may stand for others; all others stand for themselves."""
_SAME_VALUE = frozenset(
    "copy.deepcopy copy.copy torch.compile torch.jit.script typing.cast jax.jit jax.pmap equinox.filter_jit "
    "flax.nnx.jit tensorflow.function".split()
)


def _bounded(
    found: tuple[NodeRef, ...], module: ModuleIndex, node: ast.AST, path: tuple[int, ...]
) -> tuple[NodeRef, ...]:
    return found if 0 < len(found) <= MAX_ORIGINS else (NodeRef(module, node, path),)


class Resolver(ClassHierarchy):
    """Answers for the modules of one project; every answer is cached."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._in_order = frozenset(name for row in project.models.rows("mover") for name in row.in_order)
        """Methods of frameworks that hand back what they got, in order."""

    # -- defining expressions ------------------------------------------------------------------------------------------

    def points_to(self, module: ModuleIndex, node: ast.AST, path: tuple[int, ...] = ()) -> tuple[NodeRef, ...]:
        """The expressions, definitions or parameters that may define the value of ``node``; never empty."""
        if type(node) not in _FOLLOWED:
            return (NodeRef(module, node, path),)
        return self._origins(module, node, path)

    @cyclic(_NOTHING, _bounded)
    def _origins(self, module: ModuleIndex, node: ast.AST, path: tuple[int, ...]) -> tuple[NodeRef, ...]:
        return tuple(dict.fromkeys(self._find_origins(module, node, path)))

    def _find_origins(self, module: ModuleIndex, node: ast.AST, path: tuple[int, ...]) -> Iterator[NodeRef]:
        if len(path) > MAX_PATH:
            return
        match node:
            case ast.Name(id=name):
                bindings = module.scope(node).lookup(name)
                for binding in reaching(module, bindings, node):
                    yield from self._binding_origins(module, binding, node, path)
                if not bindings and "*" in module.top.bindings and name not in BUILTINS:
                    yield from self._starred_origins(module, node, path)
            case ast.Attribute():
                yield from self._attribute_origins(module, node, path)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                for part, holds in ((body, True), (orelse, False)):
                    if not excludes_linux(module, test, holds):
                        yield from self.points_to(module, part, path)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self.points_to(module, value, path)
            case ast.NamedExpr(value=value) | ast.Await(value=value) | ast.Starred(value=value):
                yield from self.points_to(module, value, path)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if path:
                if not any(isinstance(part, ast.Starred) for part in parts) and -len(parts) <= path[0] < len(parts):
                    yield from self.points_to(module, parts[path[0]], path[1:])
            case ast.Subscript(value=base, slice=ast.Constant(value=int(index))) if not isinstance(index, bool):
                for ref in self.points_to(module, base):
                    if isinstance(ref.node, ast.Tuple | ast.List) and not ref.path:
                        yield from self.points_to(ref.module, ref.node, (index, *path))
                    elif isinstance(ref.node, ast.Dict) and (held := item_under(ref.node, index)) is not None:
                        yield from self.points_to(ref.module, held, path)
                    else:
                        yield NodeRef(module, node, path)
            case ast.Subscript(value=base, slice=ast.Constant(value=str(key))):
                yield from self._item_origins(module, node, base, key, path)
            case ast.Subscript(value=base, slice=ast.Name() | ast.Attribute()):
                yield from dictionary_items.chosen_origins(self, module, node, base, path)
            case ast.Call():
                yield from self._call_origins(module, node, path)
            case _:
                yield NodeRef(module, node, path)

    def _starred_origins(self, module: ModuleIndex, node: ast.Name, path: tuple[int, ...]) -> Iterator[NodeRef]:
        """Yield what a name that ``from module import *`` brings is bound to."""
        for star in module.top.bindings["*"]:
            package = self._project.absolute(star.target[:-2], module.path)
            for where, there in self._project.find(f"{package}.{node.id}", module):
                if where is not module:
                    yield from self._binding_origins(where, there, there.node, path)

    def _item_origins(
        self, module: ModuleIndex, node: ast.AST, base: ast.expr, key: str, path: tuple[int, ...]
    ) -> Iterator[NodeRef]:
        found = False
        for ref in self.points_to(module, base):
            for held in dictionary_items.items(self, ref, key) if not ref.path else ():
                found = True
                yield from self.points_to(held.module, held.node, path)
        kept = not found  # what the base holds already, unless it is stored anew each time
        for target, stored in self.stores_of(module, node, base, key):
            found, kept = True, kept and dictionary_items.is_in_branch(module, target, node)
            yield from self.points_to(module, stored, path)
        if (kept or not found) and not self.db.partial:
            yield NodeRef(module, node, path)

    def _binding_origins(
        self, module: ModuleIndex, binding: Binding, use: ast.AST, path: tuple[int, ...]
    ) -> Iterator[NodeRef]:
        kind = binding.kind
        if kind in (BindingKind.ASSIGN, BindingKind.WITH) and binding.value is not None:
            yield from self.points_to(module, binding.value, (*binding.path, *path))
        elif kind in (BindingKind.FUNCTION, BindingKind.CLASS):
            yield NodeRef(module, binding.node, path)
        elif kind is BindingKind.PARAMETER:
            yield from self._parameter_origins(module, binding, path)
        elif kind is BindingKind.IMPORT:
            found = self._imported(module, binding, path)
            yield from found or (() if self.db.partial else (NodeRef(module, use, path),))
        else:
            yield NodeRef(module, use if kind is BindingKind.LOOP else binding.node, path)

    @cyclic(_NOTHING)
    def _imported(self, module: ModuleIndex, binding: Binding, path: tuple[int, ...]) -> tuple[NodeRef, ...]:
        found: list[NodeRef] = []
        for where, there in self._project.find(self._project.absolute(binding.target, module.path), module):
            found.extend(self._binding_origins(where, there, there.node, path))
        return tuple(dict.fromkeys(found))

    def _parameter_origins(self, module: ModuleIndex, binding: Binding, path: tuple[int, ...]) -> Iterator[NodeRef]:
        function = binding.scope.node
        assert isinstance(binding.node, ast.arg)
        if not isinstance(function, FUNCTIONS) or binding.node is function.args.kwarg:
            yield NodeRef(module, binding.node, path)  # what calls put into ``**kwargs`` is no expression of theirs
            return
        callers, name = self.first_sites(module, function), binding.node.arg
        omitted = not callers and not self.db.partial
        for site in callers:
            assert isinstance(site.node, ast.Call)
            passed = argument_of(function, site.node, name)
            unpacked = passed if isinstance(passed, ast.Starred) else None
            held = under_name(site.module, unpacked, name) if unpacked is not None else passed
            if passed is None or (unpacked and dictionary_items.lacks(self, site.module, unpacked, name)):
                omitted = True
            elif held is not None:
                yield from self.points_to(site.module, held, path)
            else:
                yield NodeRef(site.module, passed, path)
        if omitted:
            if binding.value is not None and not argument_binding.is_filled_by_option(function, name):
                yield from self.points_to(module, binding.value, path)
            elif not callers or name not in RECEIVERS:
                yield NodeRef(module, binding.node, path)

    def _attribute_origins(self, module: ModuleIndex, node: ast.Attribute, path: tuple[int, ...]) -> Iterator[NodeRef]:
        wrapped = list(self._wrapped(module, node)) if node.attr == "module" else []
        for where, model in wrapped:
            yield from self.points_to(where, model, path)
        if wrapped:
            return
        stored, certain = stored_before(module, node)
        for value in stored:
            yield from self.points_to(module, value, path)
        if certain:
            return
        given, found = self._constructed(module, node)
        for one in given:
            yield from self.points_to(one.module, one.node, path)
        for home, owner in self.classes_of(module, node.value) if not found else ():
            for where, binding in self.class_attribute(home, owner, node.attr):
                found = True
                if isinstance(binding.node, FUNCTIONS) and is_property(binding.node):
                    for value in self.returns(binding.node):
                        yield from self.points_to(where, value, path)
                else:
                    yield from self._binding_origins(where, binding, node, path)
        for ref in self.points_to(module, node.value) if found and not given else ():
            if isinstance(ref.node, ast.Subscript):  # a dictionary that fills the object
                yield NodeRef(ref.module, attribute_of(ref.module, ref.node, node.attr), path)
        found = found or bool(given)
        if not found and not self.db.partial:
            for name in sorted(self.names(module, node)):
                for where, there in self._project.find(name, module):
                    found = True
                    yield from self._binding_origins(where, there, there.node, path)
        if not found and not self.db.partial:
            for kept in stored_where_made(self.points_to(module, node.value), node):
                yield from self.points_to(kept.module, kept.node, path)
            yield NodeRef(module, node, path)

    def _wrapped(self, module: ModuleIndex, node: ast.Attribute) -> Iterator[tuple[ModuleIndex, ast.expr]]:
        """``model.module`` of ``model = DataParallel(net)``."""
        for ref in self.points_to(module, node.value):
            if isinstance(ref.node, ast.Call) and (found := self.unwrapped(ref))[1] is not ref.node:
                yield found

    def _constructed(self, module: ModuleIndex, node: ast.Attribute) -> tuple[list[NodeRef], bool]:
        """``Config(lr=1).lr`` of a class without ``__init__`` (dataclass, pydantic, attrs, Namespace) or with one that
        keeps its keywords as they are, and whether each of the calls certainly sets it."""
        found: list[NodeRef] = []
        always = True
        for ref in self.points_to(module, node.value):
            if isinstance(ref.node, ast.Call) and not ref.path:
                given, certain = given_by_name(ref.module, ref.node, node.attr)
                if given and all(map(keeps_keywords, self.callees(ref.module, ref.node))):
                    found += (NodeRef(ref.module, one) for one in given)
                    always = always and certain
        return found, bool(found) and always

    def _call_origins(self, module: ModuleIndex, node: ast.Call, path: tuple[int, ...]) -> Iterator[NodeRef]:
        if (made := made_by_default(module, node)) is not None and self.classes_of(module, made.func):
            yield NodeRef(module, made, path)
            return
        followed = False
        for callee in self.callees(module, node):
            if isinstance(target := callee.node, FUNCTIONS) and target.name not in ("__init__", "__call__", "forward"):
                for value in chosen(callee, self.returns(target), NodeRef(module, node)):
                    followed = True
                    yield from self.points_to(value.module, value.node, path)
            elif isinstance(callee.node, ast.Lambda):
                followed = True
                yield from self.points_to(callee.module, callee.node.body, path)
        if followed or self.db.partial:
            return
        if isinstance(func := node.func, ast.Attribute):
            if func.attr in self._in_order and path and path[0] < len(node.args):
                yield from self.points_to(module, node.args[path[0]], path[1:])
                return
            if func.attr in self._in_order and not path and len(node.args) == 1:
                yield from self.points_to(module, node.args[0])
                return
            if func.attr in SELF_METHODS and not self.names(module, func) & {"torch.cuda"}:
                yield from self.points_to(module, func.value, path)
                return
        if node.args and (names := self.names(module, func)) & _SAME_VALUE:
            yield from self.points_to(module, node.args[-1 if "typing.cast" in names else 0], path)
            return
        yield NodeRef(module, node, path)

    @query
    def returns(self, function: FunctionNode) -> list[ast.expr]:
        """Values that a function returns (not those of functions inside it)."""
        values: list[ast.expr] = []
        todo: list[ast.AST] = list(function.body)
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Return) and node.value is not None:
                values.append(node.value)
            elif not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda, ast.expr)):
                todo.extend(children(node))
        return sorted(values, key=lambda value: (value.lineno, value.col_offset))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def callees(self, module: ModuleIndex, call: ast.Call) -> list[NodeRef]:
        """Functions of the tree that a call may reach; a class gives its ``__init__``, an instance its ``__call__`` or
        ``forward``. Those that lack an argument are left out if others get all."""
        found, partial = list[NodeRef](), set[NodeRef]()
        for ref in self.points_to(module, call.func):
            match ref.node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                    found.append(NodeRef(ref.module, ref.node))
                case ast.ClassDef():
                    if made := self.method(ref.module, ref.node, "__init__"):
                        found.append(made)
                case ast.Call() if not ref.path:
                    if "functools.partial" in self.names(ref.module, ref.node.func) and ref.node.args:
                        inner = self.points_to(ref.module, ref.node.args[0])
                        found += (part for part in inner if isinstance(part.node, FUNCTIONS))
                        partial.update(inner)
                        continue
                    for where, owner in self.classes_of(*self.unwrapped(ref)):
                        called = self.method(where, owner, "__call__") or self.method(where, owner, "forward")
                        if called is not None:
                            found.append(called)
        return fitting(dict.fromkeys(found), call, partial)

    def unwrapped(self, ref: NodeRef) -> tuple[ModuleIndex, ast.expr]:
        """The model in ``DataParallel(model)``; else the expression itself."""
        assert isinstance(ref.node, ast.Call)
        if ref.node.args and last_name(ref.node.func) in _WRAPPERS:
            return ref.module, ref.node.args[0]
        return ref.module, ref.node

    @cyclic(_NOTHING)
    def call_sites(self, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...]:
        """Calls in the tree that reach ``function``."""
        return self._some_sites(module, function, None)

    @cyclic(_NOTHING)
    def first_sites(self, module: ModuleIndex, function: FunctionNode, most: int = MAX_CALLERS) -> tuple[NodeRef, ...]:
        """The first of these calls, which takes no search of the whole tree for what is called everywhere."""
        return self._some_sites(module, function, most)

    def _some_sites(self, module: ModuleIndex, function: FunctionNode, most: int | None) -> tuple[NodeRef, ...]:
        found = (NodeRef(where, call) for where, call in call_sites(self._project, self, module, function))
        return tuple(itertools.islice(found, most))
