"""Scopes and bindings of one module, and what can be looked up in them by name (``collecting`` fills them)."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gpulint.documents.compact import Attribute, Name, both
from gpulint.documents.python import PythonModule
from gpulint.local_query import LocalDb
from gpulint.query import query
from gpulint.records import dataclass, field

if TYPE_CHECKING:
    from gpulint.semantic.argument_binding import CallbackCall

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode: TypeAlias = (
    ast.Module | ast.ClassDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | FunctionNode
)
LoopNode: TypeAlias = ast.For | ast.AsyncFor | ast.While

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (ast.Module, ast.ClassDef, ast.Lambda, *FUNCTIONS, *COMPREHENSIONS)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NAMES = (ast.Name, ast.Attribute)
_CHOSEN = both(*_NAMES, ast.IfExp)


class BindingKind(enum.Enum):
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

    kind: BindingKind
    node: ast.AST
    scope: Scope
    value: ast.expr | None = None
    path: tuple[int, ...] = ()
    target: str = ""
    """Dotted name for an import; relative ones keep their leading dots."""


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function, lambda or comprehension with the names it binds."""

    node: ScopeNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: frozenset[str] = frozenset()
    """Names declared global or nonlocal here."""

    def lookup(self, name: str) -> list[Binding]:
        """Bindings of ``name`` in the nearest scope that has it; class bodies are invisible from inner functions."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and not (scope is not self and isinstance(scope.node, ast.ClassDef)):
                return scope.bindings[name]
            scope = scope.parent
        return []


def _ignore(what: str) -> None:
    """Nobody wants to know."""


class ModuleIndex:
    """All scopes, bindings and the call, loop, function and class index of one module; ``collect_scopes`` makes it."""

    def __init__(self, syntax: PythonModule, name: str) -> None:
        self.syntax = syntax
        self.name = name
        """Dotted name of the module from the project root."""
        self.path = syntax.path
        self.folder = str(syntax.path.parent)
        self.top = Scope(syntax.tree, None)
        self.scope_of: dict[ast.AST, Scope] = {syntax.tree: self.top}
        """The scope that a scope-making node opens."""
        self._scopes: dict[ast.AST, Scope] = {}
        self._functions: dict[ast.AST, FunctionNode | None] = {}
        self.calls: list[ast.Call] = []
        self.loops: list[LoopNode] = []
        self.functions: list[FunctionNode] = []
        self.classes: list[ast.ClassDef] = []
        self.unreached: set[ast.stmt] = set()
        """Statements below one that always leaves their block, or under a test that never holds; ``calls`` and
        ``loops`` have nothing in them."""
        self.attributes: dict[tuple[ast.ClassDef, str], list[Binding]] = {}
        """``self.name = value`` inside the methods of a class."""
        self.stores: dict[str, list[tuple[ast.expr, ast.expr | None, ast.stmt]]] = {}
        """``target[...] = value`` and ``target.attr = value`` by the last name of the target."""
        self.imports: list[Binding] = []
        self.strings: set[str] = set()
        self.db = LocalDb()
        """Answers that depend on this module alone."""
        self.report_limit: Callable[[str], None] = _ignore
        """Takes up, each time, what there is too much of in the module to be analyzed."""
        self.blocks: dict[ast.AST, tuple[dict[ast.AST, str], set[ast.AST]]] = {}
        """Kept for :mod:`gpulint.semantic.reaching_definitions`: the blocks and loops around a node."""
        self.reaching: dict[tuple[ast.AST, Binding], Sequence[Binding] | None] = {}
        """The same for (use, first binding of its name): the bindings in force; None if there are too many."""
        self.starts: dict[Binding, list[tuple[int, int]]] = {}
        """The same for the first binding of a name: from where on each of its bindings holds."""
        self.exits: dict[tuple[ast.AST, str, bool], tuple[list[int], list[ast.expr]]] = {}
        """Kept for :mod:`gpulint.semantic.path_conditions`: where in a block early exits stand, and their tests."""
        self.handed_calls: dict[Hashable, CallbackCall] = {}
        """Kept for :mod:`gpulint.semantic.argument_binding`: the calls made of functions that are handed over."""
        self.unpacked: dict[tuple[ast.expr, tuple[str, str]], ast.expr] = {}
        """Kept for :mod:`gpulint.semantic.argument_binding`: what (``vars(args)``, name) passes under the name."""
        self.unpacked_items: set[ast.AST] = set()
        """Of these, those that a dictionary may lack."""

    def track_text(self, tell: Callable[[], object]) -> None:
        """Tell each time that somebody reads the text, or an answer that rests on it."""
        self.db.track(tell)
        self.syntax.tell_text_read = self.db.read_text

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which ``node`` is evaluated (decorators and defaults count as outside of their function)."""
        known = self._scopes.get(node)
        if known is None:
            known = self._scopes[node] = self._find_scope(node)
        return known

    def _find_scope(self, node: ast.AST) -> Scope:
        inner, scope_of = node, self.scope_of
        while (up := getattr(inner, "parent", None)) is not None:
            opened = scope_of.get(up)
            if opened is not None and not self._outside(up, inner):
                return opened
            inner = up
        return self.top

    def function(self, node: ast.AST) -> FunctionNode | None:
        """The innermost function around ``node``."""
        functions = self._functions
        if node in functions:
            return functions[node]
        up = getattr(node, "parent", None)
        while up is not None and not isinstance(up, FUNCTIONS):
            up = getattr(up, "parent", None)
        functions[node] = up
        return up

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around ``node``."""
        for up in self.syntax.ancestors(node):
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
                if name in table:
                    table[name].append(call)
                else:
                    table[name] = [call]
        return table

    def calls_where(self, holds: Callable[[str], object]) -> list[ast.Call]:
        """Calls whose last component meets a condition, in the order of ``calls``; each name is asked about once."""
        found = [calls for name, calls in self.calls_by_name.items() if holds(name)]
        if len(found) <= 1:
            return found[0] if found else []
        some = {call for calls in found for call in calls}
        return [call for call in self.calls if call in some]

    @cached_property
    def named(self) -> dict[str, list[ast.Name]]:
        """Where variables are read, set or deleted, by name, in source order."""
        table: dict[str, list[ast.Name]] = {}
        for node in sorted(self.syntax.of(ast.Name), key=lambda name: (name.lineno, name.col_offset)):
            table.setdefault(node.id, []).append(node)
        return table

    @cached_property
    def uses(self) -> dict[str, list[ast.Name]]:
        """Where variables are read, by name."""
        return {name: [one for one in nodes if isinstance(one.ctx, ast.Load)] for name, nodes in self.named.items()}

    def stored_under(self, name: str, key: object) -> list[tuple[ast.expr, ast.expr | None, ast.stmt]]:
        """Of ``stores``, what is stored into an attribute called ``key``, or under the constant ``key``."""
        return self._stored_under.get((name, key), [])

    @cached_property
    def _stored_under(self) -> dict[tuple[str, object], list[tuple[ast.expr, ast.expr | None, ast.stmt]]]:
        table: dict[tuple[str, object], list[tuple[ast.expr, ast.expr | None, ast.stmt]]] = {}
        for name, stores in self.stores.items():
            for store in stores:
                match store[0]:
                    case ast.Attribute(attr=key) | ast.Subscript(slice=ast.Constant(value=key)):
                        table.setdefault((name, key), []).append(store)
        return table

    @cached_property
    def classes_by_name(self) -> dict[str, ast.ClassDef]:
        """The first class of each name."""
        return {owner.name: owner for owner in reversed(self.classes)}

    @cached_property
    def aliases(self) -> dict[str, set[str]]:
        """Last component of what is imported or assigned -> names it goes by in this module, in any scope (``DL`` for
        ``DataLoader``)."""
        table: dict[str, set[str]] = {}
        for scope in self.scope_of.values():
            for name, bindings in scope.bindings.items():
                for binding in bindings:
                    if binding.kind is BindingKind.IMPORT:
                        table.setdefault(binding.target.rsplit(".", 1)[-1], set()).add(name)
                    elif binding.kind is BindingKind.ASSIGN and type(binding.value) in _CHOSEN:
                        for value in branches(binding.value):  # type: ignore[arg-type]
                            if isinstance(value, _NAMES):
                                table.setdefault(last_name(value), set()).add(name)
        return table

    def calls_of(self, function: ast.AST | None) -> list[ast.Call]:
        """Calls whose innermost function is ``function``, or outside of all functions; in the order of ``calls``."""
        return self._calls_of.get(function, [])

    @cached_property
    def _calls_of(self) -> dict[ast.AST | None, list[ast.Call]]:
        table: dict[ast.AST | None, list[ast.Call]] = {}
        for call in self.calls:
            table.setdefault(self.function(call), []).append(call)
        return table

    @cached_property
    def handed_over(self) -> dict[str, list[tuple[ast.Call, ast.expr]]]:
        """Names that are passed as arguments: last component -> (call, argument)."""
        table: dict[str, list[tuple[ast.Call, ast.expr]]] = {}
        for call in self.calls:
            for value in call.args:
                if isinstance(value, _NAMES):
                    table.setdefault(last_name(value), []).append((call, value))
            for keyword in call.keywords:
                if isinstance(keyword.value, _NAMES):
                    table.setdefault(last_name(keyword.value), []).append((call, keyword.value))
        return table

    @staticmethod
    def _outside(scope: ast.AST, child: ast.AST) -> bool:
        """Return whether ``child`` of a scope-making node is evaluated outside of the scope that the node opens."""
        if isinstance(scope, FUNCTIONS):
            return child in scope.decorator_list or child is scope.returns or child is scope.args
        if isinstance(scope, ast.Lambda):
            return child is scope.args
        if isinstance(scope, ast.ClassDef):
            return child in scope.decorator_list or child in scope.bases or child in scope.keywords
        return False


@query
def source_text(module: ModuleIndex, node: ast.expr) -> str:
    """An expression as text."""
    return ast.unparse(node)


class NodeRef(NamedTuple):
    """A syntax node in its module. ``path`` picks an element when the value was unpacked and could not be followed."""

    module: ModuleIndex
    node: ast.AST
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CallSite:
    """Something that a call of the program does."""

    call: NodeRef

    @property
    def node(self) -> ast.Call:
        assert isinstance(self.call.node, ast.Call)
        return self.call.node

    @property
    def module(self) -> ModuleIndex:
        return self.call.module


_AROUND = (ast.Call, ast.Subscript, ast.Await)


def last_name(node: ast.expr) -> str:
    """Last component of a name, attribute chain, call or subscript (``a.b.c(x)[0]`` gives ``c``), else ''."""
    kind = type(node)
    if kind is Attribute:
        return node.attr  # type: ignore[attr-defined, no-any-return]
    if kind is Name:
        return node.id  # type: ignore[attr-defined, no-any-return]
    while isinstance(node, _AROUND):
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
