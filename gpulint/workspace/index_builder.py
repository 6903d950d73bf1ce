"""One pass over a module's tree that finds its scopes, what they bind, and its calls, loops and stores."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from gpulint.documents.call_syntax import with_defaults
from gpulint.documents.compact import FIELDS, KINDS, Attribute, Call, Constant, Name, both
from gpulint.documents.exits import ends_block
from gpulint.documents.python import PythonModule, children, walk
from gpulint.workspace.module_index import (
    COMPREHENSIONS,
    Binding,
    BindingKind,
    FunctionNode,
    LoopNode,
    ModuleIndex,
    Scope,
    ScopeNode,
    last_name,
)

_BINDING = both(ast.NamedExpr, ast.Lambda, *COMPREHENSIONS)
"""Expressions that bind names or open a scope."""
_COMPREHENSIONS = both(*COMPREHENSIONS)
_PASSED = both(ast.Assign, ast.AugAssign, ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
"""Statements that control always passes, of those that are many."""
_Expr, _Return, _If, _Assign = KINDS[ast.Expr], KINDS[ast.Return], KINDS[ast.If], KINDS[ast.Assign]


def index_module(syntax: PythonModule, name: str = "__main__") -> ModuleIndex:
    """The scopes of a module that goes by a dotted name. Raises RecursionError where the tree is too deep."""
    module = ModuleIndex(syntax, name)
    _IndexBuilder(module).body(syntax.tree.body, module.top)
    return module


class _IndexBuilder:
    def __init__(self, module: ModuleIndex) -> None:
        self.module = module

    def _open(self, node: ScopeNode, parent: Scope) -> Scope:
        scope = self.module.scope_of[node] = Scope(node, parent)
        return scope

    def _bind(
        self,
        scope: Scope,
        name: str,
        kind: BindingKind,
        node: ast.AST,
        value: ast.expr | None = None,
        path: tuple[int, ...] = (),
        target: str = "",
    ) -> None:
        home = scope
        if name in scope.outer:
            home = self.module.top
        elif type(scope.node) in _COMPREHENSIONS and kind is not BindingKind.LOOP:
            while isinstance(home.node, COMPREHENSIONS) and home.parent is not None:
                home = home.parent
        binding = Binding(kind, node, home, value, path, target)
        bindings = home.bindings
        if name in bindings:
            bindings[name].append(binding)
        else:
            bindings[name] = [binding]
        if kind is BindingKind.IMPORT:
            self.module.imports.append(binding)

    def _target(
        self,
        target: ast.expr,
        scope: Scope,
        kind: BindingKind,
        node: ast.AST,
        value: ast.expr | None,
        path: tuple[int, ...] = (),
    ) -> None:
        if type(target) is Name:
            self._bind(scope, target.id, kind, node, value, path)  # type: ignore[attr-defined]
            return
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                starred = next((i for i, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
                for index, part in enumerate(parts):
                    known = starred is None or index < starred
                    place = index if known else index - len(parts)
                    self._target(part, scope, kind, node, value if index != starred else None, (*path, place))
            case ast.Starred(value=inner):
                self._target(inner, scope, kind, node, None)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                owner = _class_of(scope)
                if owner is not None:
                    binding = Binding(kind, node, scope, value, path)
                    self.module.attributes.setdefault((owner, name), []).append(binding)
                self._expression(target.value, scope)
            case ast.Attribute() | ast.Subscript():
                base = target.value
                if (name := last_name(base)) and isinstance(node, ast.stmt):
                    self.module.stores.setdefault(name, []).append((target, value if not path else None, node))
                self._expression(base, scope)
                if isinstance(target, ast.Subscript):
                    self._expression(target.slice, scope)

    def body(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        for number, statement in enumerate(body, 1):
            self._statement(statement, scope)
            if number < len(body) and type(statement) not in _PASSED and ends_block(self.module.syntax, statement):
                self._unreached(body[number:], scope)
                return

    def _unreached(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Take in what is bound where nothing runs, as type checkers may read it; nothing is called there."""
        calls, loops = len(self.module.calls), len(self.module.loops)
        self.body(body, scope)
        del self.module.calls[calls:], self.module.loops[loops:]
        self.module.unreached.update(body)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        kind = type(node)
        if kind is _Expr or kind is _Return:
            if node.value is not None:  # type: ignore[attr-defined]
                self._expression(node.value, scope)  # type: ignore[attr-defined]
            return
        if kind is _If:
            self._expression(node.test, scope)  # type: ignore[attr-defined]
            within = self._unreached if _is_false(node.test) else self.body  # type: ignore[attr-defined]
            within(node.body, scope)  # type: ignore[attr-defined]
            self.body(node.orelse, scope)  # type: ignore[attr-defined]
            return
        if kind is _Assign:
            value = node.value  # type: ignore[attr-defined]
            self._expression(value, scope)
            for target in node.targets:  # type: ignore[attr-defined]
                self._target(target, scope, BindingKind.ASSIGN, node, value)
            return
        match node:
            case ast.AnnAssign() | ast.AugAssign():
                self._assignment(node, scope)
            case ast.Import() | ast.ImportFrom():
                self._import(node, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._definition(node, scope)
            case ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith() | ast.Match():
                self._block(node, scope)
            case ast.Try() | ast.TryStar():
                self._try(node, scope)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                scope.outer |= frozenset(names)
            case _:
                self._generic(node, scope)

    def _assignment(self, node: ast.AnnAssign | ast.AugAssign, scope: Scope) -> None:
        match node:
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self._expression(value, scope)
                self._target(target, scope, BindingKind.ASSIGN, node, value)
            case ast.AugAssign(target=target, value=value):
                self._expression(value, scope)
                self._target(target, scope, BindingKind.AUGMENT, node, None)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.split(".", 1)[0]
                    self._bind(
                        scope, alias.asname or top, BindingKind.IMPORT, node, target=alias.name if alias.asname else top
                    )
                    if not alias.asname and top != alias.name:
                        self.module.imports.append(Binding(BindingKind.IMPORT, node, scope, target=alias.name))
            case ast.ImportFrom(module=origin, names=names, level=level):
                base = "." * level + (origin or "")
                for alias in names:
                    dotted = f"{base}.{alias.name}" if origin else f"{base}{alias.name}"
                    self._bind(scope, alias.asname or alias.name, BindingKind.IMPORT, node, target=dotted)

    def _definition(self, node: FunctionNode | ast.ClassDef, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._bind(scope, node.name, BindingKind.FUNCTION, node)
                self.module.functions.append(node)
                self._each(node.decorator_list, scope)
                inside = self._open(node, scope)
                self._arguments(node.args, scope, inside)
                self.body(node.body, inside)
            case ast.ClassDef():
                self._bind(scope, node.name, BindingKind.CLASS, node)
                self.module.classes.append(node)
                self._each([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)], scope)
                self.body(node.body, self._open(node, scope))

    def _block(self, node: LoopNode | ast.With | ast.AsyncWith | ast.Match, scope: Scope) -> None:
        match node:
            case ast.For() | ast.AsyncFor():
                self.module.loops.append(node)
                self._expression(node.iter, scope)
                self._target(node.target, scope, BindingKind.LOOP, node, node.iter)
                self.body(node.body, scope)
                self.body(node.orelse, scope)
            case ast.While():
                self.module.loops.append(node)
                self._expression(node.test, scope)
                self.body(node.body, scope)
                self.body(node.orelse, scope)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(item.context_expr, scope)
                    if item.optional_vars is not None:
                        self._target(item.optional_vars, scope, BindingKind.WITH, node, item.context_expr)
                self.body(node.body, scope)
            case ast.Match():
                self._expression(node.subject, scope)
                for case in node.cases:
                    for part in walk(case.pattern):
                        if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
                            self._bind(scope, part.name, BindingKind.OTHER, node)
                    if case.guard is not None:
                        self._expression(case.guard, scope)
                    self.body(case.body, scope)

    def _try(self, node: ast.Try | ast.TryStar, scope: Scope) -> None:
        self.body(node.body, scope)
        for handler in node.handlers:
            if handler.name:
                self._bind(scope, handler.name, BindingKind.OTHER, handler)
            self._each([handler.type], scope)
            self.body(handler.body, scope)
        self.body(node.orelse, scope)
        self.body(node.finalbody, scope)

    def _generic(self, node: ast.AST, scope: Scope) -> None:
        for child in children(node):
            if isinstance(child, ast.expr):
                self._expression(child, scope)
            elif isinstance(child, ast.stmt):
                self._statement(child, scope)
            else:
                self._generic(child, scope)

    def _each(self, nodes: Iterable[ast.expr | None], scope: Scope) -> None:
        for node in nodes:
            if node is not None:
                self._expression(node, scope)

    def _arguments(self, args: ast.arguments, outside: Scope, inside: Scope) -> None:
        self._each([*args.defaults, *args.kw_defaults], outside)
        for arg, default in with_defaults(args):
            self._bind(inside, arg.arg, BindingKind.PARAMETER, arg, default)
        for extra in (args.vararg, args.kwarg):
            if extra is not None:
                self._bind(inside, extra.arg, BindingKind.PARAMETER, extra)

    def _expression(self, node: ast.expr, scope: Scope) -> None:
        # This runs for nearly every node of every module.
        kind = type(node)
        while kind is Attribute:
            node = node.value  # type: ignore[attr-defined]
            kind = type(node)
        if kind is Name:
            return
        if kind is Constant:
            value = node.value  # type: ignore[attr-defined]
            if type(value) is str and len(value) < 200:
                self.module.strings.add(value)
            return
        if kind is Call:
            self.module.calls.append(node)  # type: ignore[arg-type]
            if type(node.func) is not Name:  # type: ignore[attr-defined]
                self._expression(node.func, scope)  # type: ignore[attr-defined]
            for argument in node.args:  # type: ignore[attr-defined]
                if type(argument) is not Name:
                    self._expression(argument, scope)
            for keyword in node.keywords:  # type: ignore[attr-defined]
                if type(keyword.value) is not Name:
                    self._expression(keyword.value, scope)
            return
        if kind not in _BINDING:
            for field in FIELDS[kind]:
                value = getattr(node, field)
                if type(value) is list:
                    for part in value:
                        if part is not None and type(part) is not Name:
                            self._expression(part, scope)
                elif value is not None and type(value) is not Name:
                    self._expression(value, scope)
            return
        self._binding_expression(node, scope)

    def _binding_expression(self, node: ast.expr, scope: Scope) -> None:
        match node:
            case ast.NamedExpr(target=target, value=value):
                self._expression(value, scope)
                self._target(target, scope, BindingKind.ASSIGN, node, value)
            case ast.Lambda():
                inside = self._open(node, scope)
                self._arguments(node.args, scope, inside)
                self._expression(node.body, inside)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inside = self._open(node, scope)
                for generator in node.generators:
                    self._expression(generator.iter, inside)
                    self._target(generator.target, inside, BindingKind.LOOP, generator, generator.iter)
                    self._each(generator.ifs, inside)
                if isinstance(node, ast.DictComp):
                    self._each([node.key, node.value], inside)
                else:
                    self._expression(node.elt, inside)


def _is_false(test: ast.expr) -> bool:
    """Return whether a test is written so that it never holds (``False and debug``)."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_is_false(part) for part in test.values)
    return isinstance(test, ast.Constant) and not test.value


def _class_of(scope: Scope | None) -> ast.ClassDef | None:
    """The innermost class around a scope, or that the scope is."""
    while scope is not None:
        if isinstance(scope.node, ast.ClassDef):
            return scope.node
        scope = scope.parent
    return None
