"""What an expression may be: qualified names, the expressions that define it, the functions that a call reaches.

Everything is a set: when two assignments can reach a use, both count. Where nothing in the tree defines a value, the
unresolved expression itself is the answer, and whoever asked must treat it as unknown. Calls and assignments are
followed however long the chain; those in a cycle get what reaches the cycle from outside.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from gpulint.documents.python import children, walk
from gpulint.facts.callsites import sites
from gpulint.facts.classes import Classes
from gpulint.facts.names import BUILTINS
from gpulint.facts.passing import RECEIVERS, argument_of, given_by_name, under_name
from gpulint.facts.reaching import reaching
from gpulint.facts.scopes import FUNCTIONS, Binding, Bound, FunctionNode, ModuleScopes, Ref, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_ORIGINS = 30
"""More possible definitions than this count as unknown."""
MAX_CALLERS = 25
"""Most callers of one function whose arguments are followed."""
MAX_PATH = 3
"""How deep an element of an unpacked value is followed; ``x, y = f(x)`` in a cycle of calls would go on for ever."""
_SELF_METHODS = frozenset(
    {"to", "cuda", "eval", "train", "half", "float", "double", "bfloat16", "requires_grad_", "share_memory"}
)
_WRAPPERS = frozenset({"DataParallel", "DistributedDataParallel", "DDP"})
_SAME_VALUE = frozenset({"copy.deepcopy", "copy.copy", "torch.compile", "torch.jit.script", "typing.cast"})


class Resolver(Classes):
    """Answers for the modules of one project; every answer is cached."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._returns: dict[FunctionNode, list[ast.expr]] = {}
        self._in_order = frozenset(name for row in project.models.rows("mover") for name in row.in_order)
        """Methods of frameworks that hand back what they got, in order."""

    # -- defining expressions ------------------------------------------------------------------------------------------

    def origins(self, scopes: ModuleScopes, node: ast.AST, path: tuple[int, ...] = ()) -> tuple[Ref, ...]:
        """The expressions, definitions or parameters that may define the value of ``node``; never empty."""
        return self._memo.ask(
            (node, path),
            lambda: tuple(dict.fromkeys(self._find_origins(scopes, node, path))),
            (),
            lambda found: found if 0 < len(found) <= MAX_ORIGINS else (Ref(scopes, node, path),),
        )

    def _find_origins(self, scopes: ModuleScopes, node: ast.AST, path: tuple[int, ...]) -> Iterator[Ref]:
        if len(path) > MAX_PATH:
            return
        match node:
            case ast.Name(id=name):
                bindings = scopes.scope(node).lookup(name)
                for binding in reaching(scopes, bindings, node):
                    yield from self._binding_origins(scopes, binding, node, path)
                if not bindings and "*" in scopes.top.bindings and name not in BUILTINS:
                    yield from self._starred_origins(scopes, node, path)
            case ast.Attribute():
                yield from self._attribute_origins(scopes, node, path)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self.origins(scopes, body, path)
                yield from self.origins(scopes, orelse, path)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self.origins(scopes, value, path)
            case ast.NamedExpr(value=value) | ast.Await(value=value) | ast.Starred(value=value):
                yield from self.origins(scopes, value, path)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if path:
                if not any(isinstance(part, ast.Starred) for part in parts) and -len(parts) <= path[0] < len(parts):
                    yield from self.origins(scopes, parts[path[0]], path[1:])
            case ast.Subscript(value=base, slice=ast.Constant(value=int(index))) if not isinstance(index, bool):
                for ref in self.origins(scopes, base):
                    if isinstance(ref.node, ast.Tuple | ast.List) and not ref.path:
                        yield from self.origins(ref.scopes, ref.node, (index, *path))
                    elif isinstance(ref.node, ast.Dict) and (held := _under(ref.node, index)) is not None:
                        yield from self.origins(ref.scopes, held, path)
                    else:
                        yield Ref(scopes, node, path)
            case ast.Subscript(value=base, slice=ast.Constant(value=str(key))):
                yield from self._item_origins(scopes, node, base, key, path)
            case ast.Call():
                yield from self._call_origins(scopes, node, path)
            case _:
                yield Ref(scopes, node, path)

    def _starred_origins(self, scopes: ModuleScopes, node: ast.Name, path: tuple[int, ...]) -> Iterator[Ref]:
        """What a name that ``from module import *`` brings is bound to."""
        for star in scopes.top.bindings["*"]:
            module = self._project.absolute(star.target[:-2], scopes.path)
            for where, there in self._project.find(f"{module}.{node.id}", scopes):
                if where is not scopes:
                    yield from self._binding_origins(where, there, there.node, path)

    def _item_origins(
        self, scopes: ModuleScopes, node: ast.AST, base: ast.expr, key: str, path: tuple[int, ...]
    ) -> Iterator[Ref]:
        found = False
        for ref in self.origins(scopes, base):
            match ref.node:
                case ast.Dict(keys=keys, values=values):
                    for name, value in zip(keys, values, strict=True):
                        if isinstance(name, ast.Constant) and name.value == key:
                            found = True
                            yield from self.origins(ref.scopes, value, path)
                case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
                    for keyword in keywords:
                        if keyword.arg == key:
                            found = True
                            yield from self.origins(ref.scopes, keyword.value, path)
        for target, stored, _ in scopes.stored_under(last_name(base), key):
            if stored is None or not isinstance(target, ast.Subscript):
                continue
            if ast.unparse(target) == ast.unparse(node):
                found = True
                yield from self.origins(scopes, stored, path)
        if not found and not self._memo.partial:
            yield Ref(scopes, node, path)

    def _binding_origins(
        self, scopes: ModuleScopes, binding: Binding, use: ast.AST, path: tuple[int, ...]
    ) -> Iterator[Ref]:
        kind = binding.kind
        if kind in (Bound.ASSIGN, Bound.WITH) and binding.value is not None:
            yield from self.origins(scopes, binding.value, (*binding.path, *path))
        elif kind in (Bound.FUNCTION, Bound.CLASS):
            yield Ref(scopes, binding.node, path)
        elif kind is Bound.PARAMETER:
            yield from self._parameter_origins(scopes, binding, path)
        elif kind is Bound.IMPORT:
            nothing: tuple[Ref, ...] = ()
            found = self._memo.ask(("import", binding, path), partial(self._imported, scopes, binding, path), nothing)
            yield from found or (() if self._memo.partial else (Ref(scopes, use, path),))
        else:
            yield Ref(scopes, use if kind is Bound.LOOP else binding.node, path)

    def _imported(self, scopes: ModuleScopes, binding: Binding, path: tuple[int, ...]) -> tuple[Ref, ...]:
        found: list[Ref] = []
        for where, there in self._project.find(self._project.absolute(binding.target, scopes.path), scopes):
            found.extend(self._binding_origins(where, there, there.node, path))
        return tuple(dict.fromkeys(found))

    def _parameter_origins(self, scopes: ModuleScopes, binding: Binding, path: tuple[int, ...]) -> Iterator[Ref]:
        function = binding.scope.node
        assert isinstance(binding.node, ast.arg)
        if not isinstance(function, FUNCTIONS) or binding.node is function.args.kwarg:
            yield Ref(scopes, binding.node, path)  # what calls put into ``**kwargs`` is no expression of theirs
            return
        callers = self.first_sites(scopes, function)
        omitted = not callers and not self._memo.partial
        for site in callers:
            assert isinstance(site.node, ast.Call)
            argument = argument_of(function, site.node, binding.node.arg)
            if argument is None:
                omitted = True
            elif isinstance(argument, ast.Starred):
                held = under_name(site.scopes, argument, binding.node.arg)
                yield from (
                    self.origins(site.scopes, held, path) if held is not None else (Ref(site.scopes, argument, path),)
                )
            else:
                yield from self.origins(site.scopes, argument, path)
        if omitted:
            if binding.value is not None:
                yield from self.origins(scopes, binding.value, path)
            elif not callers or binding.node.arg not in RECEIVERS:
                yield Ref(scopes, binding.node, path)

    def _attribute_origins(self, scopes: ModuleScopes, node: ast.Attribute, path: tuple[int, ...]) -> Iterator[Ref]:
        wrapped = list(self._wrapped(scopes, node)) if node.attr == "module" else []
        for where, model in wrapped:
            yield from self.origins(where, model, path)
        if wrapped:
            return
        stored, certain = self._stored(scopes, node)
        for value in stored:
            yield from self.origins(scopes, value, path)
        if certain:
            return
        found = False
        for given in self._constructed(scopes, node):
            found = True
            yield from self.origins(given.scopes, given.node, path)
        for home, owner in self.classes_of(scopes, node.value) if not found else ():
            for where, binding in self.class_attribute(home, owner, node.attr):
                found = True
                if isinstance(binding.node, FUNCTIONS) and _is_property(binding.node):
                    for value in self.returns(binding.node):
                        yield from self.origins(where, value, path)
                else:
                    yield from self._binding_origins(where, binding, node, path)
        if not found and not self._memo.partial:
            for name in sorted(self.names(scopes, node)):
                for where, there in self._project.find(name, scopes):
                    found = True
                    yield from self._binding_origins(where, there, there.node, path)
        if not found and not self._memo.partial:
            yield Ref(scopes, node, path)

    def _wrapped(self, scopes: ModuleScopes, node: ast.Attribute) -> Iterator[tuple[ModuleScopes, ast.expr]]:
        """``model.module`` of ``model = DataParallel(net)``."""
        for ref in self.origins(scopes, node.value):
            if isinstance(ref.node, ast.Call) and (found := self._unwrapped(ref))[1] is not ref.node:
                yield found

    @staticmethod
    def _stored(scopes: ModuleScopes, node: ast.Attribute) -> tuple[list[ast.expr], bool]:
        """What the same function stores into ``config.name`` before this use, and whether one of these stores is
        certain."""
        if not isinstance(node.value, ast.Name) or node.value.id in RECEIVERS:
            return [], False
        function = scopes.function(node)
        home = function.body if function is not None else scopes.module.tree.body
        found: list[ast.expr] = []
        certain = False
        for target, value, statement in scopes.stored_under(node.value.id, node.attr):
            same = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
            if (
                not same
                or value is None
                or statement.lineno >= node.lineno
                or scopes.function(statement) is not function
            ):
                continue
            if statement in home:
                found, certain = [], True
            found.append(value)
        return found, certain

    def _constructed(self, scopes: ModuleScopes, node: ast.Attribute) -> Iterator[Ref]:
        """``Config(lr=1).lr`` of a class without ``__init__`` (dataclass, pydantic, attrs, Namespace) or with one that
        keeps its keywords as they are."""
        for ref in self.origins(scopes, node.value):
            if isinstance(ref.node, ast.Call) and not ref.path:
                given = given_by_name(ref.scopes, ref.node, node.attr)
                if given is not None and all(map(_keeps_keywords, self.callees(ref.scopes, ref.node))):
                    yield Ref(ref.scopes, given)

    def _call_origins(self, scopes: ModuleScopes, node: ast.Call, path: tuple[int, ...]) -> Iterator[Ref]:
        followed = False
        for callee in self.callees(scopes, node):
            if isinstance(callee.node, FUNCTIONS) and callee.node.name not in ("__init__", "__call__", "forward"):
                for value in self.returns(callee.node):
                    followed = True
                    yield from self.origins(callee.scopes, value, path)
            elif isinstance(callee.node, ast.Lambda):
                followed = True
                yield from self.origins(callee.scopes, callee.node.body, path)
        if followed or self._memo.partial:
            return
        func = node.func
        if isinstance(func, ast.Attribute):
            if func.attr in self._in_order and path and path[0] < len(node.args):
                yield from self.origins(scopes, node.args[path[0]], path[1:])
                return
            if func.attr in self._in_order and not path and len(node.args) == 1:
                yield from self.origins(scopes, node.args[0])
                return
            if func.attr in _SELF_METHODS and not self.names(scopes, func) & {"torch.cuda"}:
                yield from self.origins(scopes, func.value, path)
                return
        if node.args and (names := self.names(scopes, func)) & _SAME_VALUE:
            yield from self.origins(scopes, node.args[-1 if "typing.cast" in names else 0], path)
            return
        yield Ref(scopes, node, path)

    def returns(self, function: FunctionNode) -> list[ast.expr]:
        """Values that a function returns (not those of functions inside it)."""
        if function not in self._returns:
            self._returns[function] = self._find_returns(function)
        return self._returns[function]

    @staticmethod
    def _find_returns(function: FunctionNode) -> list[ast.expr]:
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

    def callees(self, scopes: ModuleScopes, call: ast.Call) -> list[Ref]:
        """Functions of the tree that a call may reach; a class gives its ``__init__``, an instance its ``__call__`` or
        ``forward``."""
        found: list[Ref] = []
        for ref in self.origins(scopes, call.func):
            match ref.node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                    found.append(Ref(ref.scopes, ref.node))
                case ast.ClassDef():
                    if made := self.method(ref.scopes, ref.node, "__init__"):
                        found.append(made)
                case ast.Call() if not ref.path:
                    if "functools.partial" in self.names(ref.scopes, ref.node.func) and ref.node.args:
                        for inner in self.origins(ref.scopes, ref.node.args[0]):
                            if isinstance(inner.node, FUNCTIONS):
                                found.append(inner)
                        continue
                    for where, owner in self.classes_of(*self._unwrapped(ref)):
                        called = self.method(where, owner, "__call__") or self.method(where, owner, "forward")
                        if called is not None:
                            found.append(called)
        return list(dict.fromkeys(found))

    def _unwrapped(self, ref: Ref) -> tuple[ModuleScopes, ast.expr]:
        """The model in ``DataParallel(model)``; else the expression itself."""
        assert isinstance(ref.node, ast.Call)
        if ref.node.args and last_name(ref.node.func) in _WRAPPERS:
            return ref.scopes, ref.node.args[0]
        return ref.scopes, ref.node

    def call_sites(self, scopes: ModuleScopes, function: FunctionNode) -> tuple[Ref, ...]:
        """Calls in the tree that reach ``function``."""
        return self._memo.ask(("sites", function), lambda: self._some_sites(scopes, function, None), ())

    def first_sites(self, scopes: ModuleScopes, function: FunctionNode) -> tuple[Ref, ...]:
        """The first of these calls, which takes no search of the whole tree for what is called everywhere."""
        return self._memo.ask(("first", function), lambda: self._some_sites(scopes, function, MAX_CALLERS), ())

    def _some_sites(self, scopes: ModuleScopes, function: FunctionNode, most: int | None) -> tuple[Ref, ...]:
        found = (Ref(where, call) for where, call in sites(self._project, self, scopes, function))
        return tuple(itertools.islice(found, most))


def _keeps_keywords(function: Ref) -> bool:
    """``for name, value in kwargs.items(): setattr(self, name, value)``."""
    return (
        isinstance(function.node, FUNCTIONS)
        and function.node.args.kwarg is not None
        and any(
            isinstance(part, ast.Call)
            and (last_name(part.func) == "setattr" or ast.unparse(part.func) == "self.__dict__.update")
            for part in walk(function.node)
        )
    )


def _is_property(function: FunctionNode) -> bool:
    return any(last_name(decorator) in ("property", "cached_property") for decorator in function.decorator_list)


def _under(table: ast.Dict, key: int) -> ast.expr | None:
    """The value that a dictionary has under a number."""
    for name, value in zip(table.keys, table.values, strict=True):
        if isinstance(name, ast.Constant) and name.value == key and not isinstance(name.value, bool):
            return value
    return None
