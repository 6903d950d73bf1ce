"""Scopes and bindings of one module, collected in a single pass over its tree."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from gpulint.documents.python import PythonModule, children

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode: TypeAlias = (
    ast.Module | ast.ClassDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | FunctionNode
)
LoopNode: TypeAlias = ast.For | ast.AsyncFor | ast.While

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (ast.Module, ast.ClassDef, ast.Lambda, *FUNCTIONS, *COMPREHENSIONS)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_BINDING = (ast.NamedExpr, ast.Lambda, *COMPREHENSIONS)
"""Expressions that bind names or open a scope."""


class Bound(enum.Enum):
    """How a name gets its value."""

    IMPORT = enum.auto()
    ASSIGN = enum.auto()
    AUGMENT = enum.auto()
    LOOP = enum.auto()
    WITH = enum.auto()
    PARAMETER = enum.auto()
    FUNCTION = enum.auto()
    CLASS = enum.auto()
    OTHER = enum.auto()


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One binding. ``path`` picks the element of ``value`` that unpacking takes (``a, (b, c) = v`` binds c to (1,
    1))."""

    kind: Bound
    node: ast.AST
    scope: Scope
    value: ast.expr | None = None
    path: tuple[int, ...] = ()
    target: str = ""
    """Dotted name for an import; relative ones keep their leading dots."""


@dataclass(eq=False)
class Scope:
    """A module, class, function, lambda or comprehension with the names it binds."""

    node: ScopeNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    """Names declared global or nonlocal here."""

    def lookup(self, name: str) -> list[Binding]:
        """Bindings of ``name`` in the nearest scope that has it; class bodies are invisible from inner functions."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and not (scope is not self and isinstance(scope.node, ast.ClassDef)):
                return scope.bindings[name]
            scope = scope.parent
        return []


class ModuleScopes:
    """All scopes, bindings and the call, loop, function and class index of one module."""

    def __init__(self, module: PythonModule, name: str = "__main__") -> None:
        self.module = module
        self.name = name
        """Dotted name of the module from the project root."""
        self.path = module.path
        self.folder = str(module.path.parent)
        self.scope_of: dict[ast.AST, Scope] = {}
        """The scope that a scope-making node opens."""
        self.calls: list[ast.Call] = []
        self.loops: list[LoopNode] = []
        self.functions: list[FunctionNode] = []
        self.classes: list[ast.ClassDef] = []
        self.attributes: dict[tuple[ast.ClassDef, str], list[Binding]] = {}
        """``self.name = value`` inside the methods of a class."""
        self.stores: dict[str, list[tuple[ast.expr, ast.expr | None, ast.stmt]]] = {}
        """``target[...] = value`` and ``target.attr = value`` by the last name of the target."""
        self.imports: list[Binding] = []
        self.strings: set[str] = set()
        self.blocks: dict[ast.AST, tuple[dict[ast.AST, str], set[ast.AST]]] = {}
        """Kept for :mod:`gpulint.facts.reaching`: the blocks and loops around a node."""
        self.reaching: dict[tuple[ast.AST, Binding], list[Binding]] = {}
        """The same for (use, first binding of its name): the bindings in force."""
        self.top = self._open(module.tree, None)
        self._body(module.tree.body, self.top)

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which ``node`` is evaluated (decorators and defaults count as outside of their function)."""
        inner, parents, scope_of = node, self.module.parents, self.scope_of
        while (up := parents.get(inner)) is not None:
            opened = scope_of.get(up)
            if opened is not None and not self._outside(up, inner):
                return opened
            inner = up
        return self.top

    def function(self, node: ast.AST) -> FunctionNode | None:
        """The innermost function around ``node``."""
        parents = self.module.parents
        up = parents.get(node)
        while up is not None and not isinstance(up, FUNCTIONS):
            up = parents.get(up)
        return up

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around ``node``."""
        for up in self.module.ancestors(node):
            if isinstance(up, ast.ClassDef):
                return up
        return None

    @cached_property
    def packages(self) -> frozenset[str]:
        """First components of what the module imports."""
        return frozenset(binding.target.split(".", 1)[0] for binding in self.imports)

    @cached_property
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """Calls by the last component of what they call (``torch.save(x)`` under ``save``)."""
        table: dict[str, list[ast.Call]] = {}
        for call in self.calls:
            if name := last_name(call.func):
                table.setdefault(name, []).append(call)
        return table

    @cached_property
    def aliases(self) -> dict[str, set[str]]:
        """Last component of what is imported or assigned -> names it goes by in this module, in any scope (``DL`` for
        ``DataLoader``)."""
        table: dict[str, set[str]] = {}
        for scope in self.scope_of.values():
            for name, bindings in scope.bindings.items():
                for binding in bindings:
                    if binding.kind is Bound.IMPORT:
                        table.setdefault(binding.target.rsplit(".", 1)[-1], set()).add(name)
                    elif binding.kind is Bound.ASSIGN and binding.value is not None:
                        for value in branches(binding.value):
                            if isinstance(value, ast.Name | ast.Attribute):
                                table.setdefault(last_name(value), set()).add(name)
        return table

    @cached_property
    def handed_over(self) -> dict[str, list[tuple[ast.Call, ast.expr]]]:
        """Names that are passed as arguments: last component -> (call, argument)."""
        table: dict[str, list[tuple[ast.Call, ast.expr]]] = {}
        for call in self.calls:
            for value in [*call.args, *(keyword.value for keyword in call.keywords)]:
                if isinstance(value, ast.Name | ast.Attribute):
                    table.setdefault(last_name(value), []).append((call, value))
        return table

    @staticmethod
    def _outside(scope: ast.AST, child: ast.AST) -> bool:
        """Is ``child`` of a scope-making node evaluated outside of the scope that the node opens?"""
        if isinstance(scope, FUNCTIONS):
            return child in scope.decorator_list or child is scope.returns or child is scope.args
        if isinstance(scope, ast.Lambda):
            return child is scope.args
        if isinstance(scope, ast.ClassDef):
            return child in scope.decorator_list or child in scope.bases or child in scope.keywords
        if isinstance(scope, COMPREHENSIONS):
            return False
        return False

    def _open(self, node: ScopeNode, parent: Scope | None) -> Scope:
        scope = Scope(node, parent)
        self.scope_of[node] = scope
        return scope

    def _bind(self, scope: Scope, name: str, kind: Bound, node: ast.AST, **more: object) -> None:
        home = scope
        if name in scope.outer:
            home = self.top
        elif isinstance(scope.node, COMPREHENSIONS) and kind is not Bound.LOOP:
            while isinstance(home.node, COMPREHENSIONS) and home.parent is not None:
                home = home.parent
        binding = Binding(kind, node, home, **more)  # type: ignore[arg-type]
        home.bindings.setdefault(name, []).append(binding)
        if kind is Bound.IMPORT:
            self.imports.append(binding)

    def _target(
        self,
        target: ast.expr,
        scope: Scope,
        kind: Bound,
        node: ast.AST,
        value: ast.expr | None,
        path: tuple[int, ...] = (),
    ) -> None:
        match target:
            case ast.Name(id=name):
                self._bind(scope, name, kind, node, value=value, path=path)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                starred = next((i for i, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
                for index, part in enumerate(parts):
                    known = starred is None or index < starred
                    place = index if known else index - len(parts)
                    self._target(part, scope, kind, node, value if index != starred else None, (*path, place))
            case ast.Starred(value=inner):
                self._target(inner, scope, kind, node, None)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                home = self.class_of_scope(scope)
                if home is not None:
                    binding = Binding(kind, node, scope, value, path)
                    self.attributes.setdefault((home, name), []).append(binding)
                self._expression(target.value, scope)
            case ast.Attribute() | ast.Subscript():
                base = target.value
                if (name := last_name(base)) and isinstance(node, ast.stmt):
                    self.stores.setdefault(name, []).append((target, value if not path else None, node))
                self._expression(base, scope)
                if isinstance(target, ast.Subscript):
                    self._expression(target.slice, scope)

    def class_of_scope(self, scope: Scope | None) -> ast.ClassDef | None:
        while scope is not None:
            if isinstance(scope.node, ast.ClassDef):
                return scope.node
            scope = scope.parent
        return None

    def _body(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        for statement in body:
            self._statement(statement, scope)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        kind = type(node)
        if kind is ast.Expr or kind is ast.Return:
            if node.value is not None:  # type: ignore[attr-defined]
                self._expression(node.value, scope)  # type: ignore[attr-defined]
            return
        if kind is ast.If:
            self._expression(node.test, scope)  # type: ignore[attr-defined]
            self._body(node.body, scope)  # type: ignore[attr-defined]
            self._body(node.orelse, scope)  # type: ignore[attr-defined]
            return
        match node:
            case ast.Assign(targets=targets, value=value):
                self._expression(value, scope)
                for target in targets:
                    self._target(target, scope, Bound.ASSIGN, node, value)
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.split(".", 1)[0]
                    self._bind(
                        scope, alias.asname or top, Bound.IMPORT, node, target=alias.name if alias.asname else top
                    )
                    if not alias.asname and top != alias.name:
                        self.imports.append(Binding(Bound.IMPORT, node, scope, target=alias.name))
            case ast.ImportFrom(module=module, names=names, level=level):
                base = "." * level + (module or "")
                for alias in names:
                    dotted = f"{base}.{alias.name}" if module else f"{base}{alias.name}"
                    self._bind(scope, alias.asname or alias.name, Bound.IMPORT, node, target=dotted)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._bind(scope, node.name, Bound.FUNCTION, node)
                self.functions.append(node)
                self._each(node.decorator_list, scope)
                self._arguments(node.args, scope, self._open(node, scope))
                self._body(node.body, self.scope_of[node])
            case ast.ClassDef():
                self._bind(scope, node.name, Bound.CLASS, node)
                self.classes.append(node)
                self._each([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)], scope)
                self._body(node.body, self._open(node, scope))
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self._expression(value, scope)
                self._target(target, scope, Bound.ASSIGN, node, value)
            case ast.AugAssign(target=target, value=value):
                self._expression(value, scope)
                self._target(target, scope, Bound.AUGMENT, node, None)
            case ast.For() | ast.AsyncFor():
                self.loops.append(node)
                self._expression(node.iter, scope)
                self._target(node.target, scope, Bound.LOOP, node, node.iter)
                self._body(node.body, scope)
                self._body(node.orelse, scope)
            case ast.While():
                self.loops.append(node)
                self._expression(node.test, scope)
                self._body(node.body, scope)
                self._body(node.orelse, scope)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(item.context_expr, scope)
                    if item.optional_vars is not None:
                        self._target(item.optional_vars, scope, Bound.WITH, node, item.context_expr)
                self._body(node.body, scope)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                scope.outer.update(names)
            case ast.Match():
                self._expression(node.subject, scope)
                for case in node.cases:
                    for part in ast.walk(case.pattern):
                        if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
                            self._bind(scope, part.name, Bound.OTHER, node)
                    if case.guard is not None:
                        self._expression(case.guard, scope)
                    self._body(case.body, scope)
            case _:
                self._generic(node, scope)

    def _generic(self, node: ast.AST, scope: Scope) -> None:
        for child in children(node):
            if isinstance(child, ast.expr):
                self._expression(child, scope)
            elif isinstance(child, ast.stmt):
                self._statement(child, scope)
            elif isinstance(child, ast.ExceptHandler):
                if child.name:
                    self._bind(scope, child.name, Bound.OTHER, child)
                self._generic(child, scope)
            else:
                self._generic(child, scope)

    def _each(self, nodes: Iterable[ast.expr | None], scope: Scope) -> None:
        for node in nodes:
            if node is not None:
                self._expression(node, scope)

    def _arguments(self, args: ast.arguments, outside: Scope, inside: Scope) -> None:
        self._each([*args.defaults, *args.kw_defaults], outside)
        positional = [*args.posonlyargs, *args.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
        for arg, default in [
            *zip(positional, defaults, strict=True),
            *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        ]:
            self._bind(inside, arg.arg, Bound.PARAMETER, arg, value=default)
        for extra in (args.vararg, args.kwarg):
            if extra is not None:
                self._bind(inside, extra.arg, Bound.PARAMETER, extra)

    def _expression(self, node: ast.expr, scope: Scope) -> None:
        kind = type(node)
        if kind is ast.Name:
            return
        if kind is ast.Attribute:
            self._expression(node.value, scope)  # type: ignore[attr-defined]
            return
        if kind is ast.Constant:
            value = node.value  # type: ignore[attr-defined]
            if type(value) is str and len(value) < 200:
                self.strings.add(value)
            return
        if isinstance(node, ast.Call):
            self.calls.append(node)
            self._expression(node.func, scope)
            for argument in node.args:
                self._expression(argument, scope)
            for keyword in node.keywords:
                self._expression(keyword.value, scope)
            return
        if kind not in _BINDING:
            self._generic(node, scope)
            return
        match node:
            case ast.NamedExpr(target=target, value=value):
                self._expression(value, scope)
                self._target(target, scope, Bound.ASSIGN, node, value)
            case ast.Lambda():
                inside = self._open(node, scope)
                self._arguments(node.args, scope, inside)
                self._expression(node.body, inside)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inside = self._open(node, scope)
                for generator in node.generators:
                    self._expression(generator.iter, inside)
                    self._target(generator.target, inside, Bound.LOOP, generator, generator.iter)
                    self._each(generator.ifs, inside)
                if isinstance(node, ast.DictComp):
                    self._each([node.key, node.value], inside)
                else:
                    self._expression(node.elt, inside)


def last_name(node: ast.expr) -> str:
    """Last component of a name, attribute chain, call or subscript (``a.b.c(x)[0]`` gives ``c``), else ''."""
    kind = type(node)
    if kind is ast.Attribute:
        return node.attr  # type: ignore[attr-defined, no-any-return]
    if kind is ast.Name:
        return node.id  # type: ignore[attr-defined, no-any-return]
    while isinstance(node, ast.Call | ast.Subscript | ast.Await):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def branches(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that ``a if x else b`` chooses from; else the expression itself."""
    if isinstance(node, ast.IfExp):
        yield from branches(node.body)
        yield from branches(node.orelse)
    else:
        yield node


def dotted(node: ast.expr) -> str:
    """``a.b.c`` of a plain attribute chain, else ''."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])
