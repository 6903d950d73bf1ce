"""Parsers of ``argparse``: where a parser is made, what declares its options, and what else happens to it, followed
through variables, groups of options and functions that return a parser, also those of other modules."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.query import cyclic, query
from gpulint.records import dataclass, field
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import Binding, BindingKind, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

GROUPS = frozenset({"add_argument_group", "add_mutually_exclusive_group"})
"""Methods that return a group, which has options of its parser."""
_PARSER = "argparse.ArgumentParser"
_UNKNOWN: Parser | None = None
_ALL_LINES = sys.maxsize
_BEFORE_PARENTS = 4
"""Positional arguments of a parser that change none of its options."""


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """A value that is a parser, ``ArgumentParser()`` or ``get_parser()``, and all that its module does with it."""

    module: ModuleIndex
    value: ast.Call
    calls: tuple[ast.Call, ...]
    """Calls of its methods and of those of its groups, in the order of the source."""
    sets: tuple[ast.Attribute, ...]
    """Attributes of it that are set."""
    returns: tuple[ast.Return, ...]
    """Where functions of the module return it."""
    names: frozenset[str]
    """Variables of the module, which other modules may use, that hold it or a group."""


@dataclass(frozen=True, slots=True, eq=False)
class Parser:
    """A parser that an expression is."""

    holders: tuple[Holder, ...]
    """Where it is made, and the calls that hand it on to the expression, in the order in which they return."""
    parents: tuple[Parser, ...]
    is_certain: bool
    """Whether its class has no other qualified name; ``from tools import *`` may bring another one."""

    @property
    def made(self) -> ast.Call:
        """The call of ``ArgumentParser``."""
        return self.holders[0].value

    @property
    def calls(self) -> tuple[ast.Call, ...]:
        """All calls of its methods and of those of its groups."""
        return tuple(call for holder in self.holders for call in holder.calls)


@cyclic(_UNKNOWN)
def parser_of(project: Project, module: ModuleIndex, node: ast.expr) -> Parser | None:
    """Return the parser that an expression certainly is; None if that, or what happens to the parser, is unknown."""
    if isinstance(node, ast.Name):
        value = _value(module, node)
        return parser_of(project, module, value) if value is not None else None
    holder = holder_of(module, node) if isinstance(node, ast.Call) else None
    if holder is None:
        return None
    if _PARSER in (names := project.fact(Resolver).call_names(module, holder.value)):
        parents = _parents(project, module, holder.value)
        return Parser((holder,), parents, len(names) == 1) if parents is not None else None
    returned = returned_by(project, module, holder.value)
    inner = parser_of(project, *returned) if returned is not None else None
    return replace(inner, holders=(*inner.holders, holder)) if inner is not None else None


def returned_by(project: Project, module: ModuleIndex, call: ast.Call) -> tuple[ModuleIndex, ast.expr] | None:
    """Return the one value that the one function of the tree returns that a call reaches."""
    resolver = project.fact(Resolver)
    found = resolver.callees(module, call)
    if len(found) != 1 or not isinstance(found[0].node, ast.FunctionDef) or found[0].node.decorator_list:
        return None
    values = resolver.returns(found[0].node)
    return (found[0].module, values[0]) if len(values) == 1 else None


def is_lent(project: Project, holder: Holder) -> bool:
    """Return whether another module may add options to a parser of this one, which a variable of the module holds."""
    home = holder.module.path
    paths = {path for name in holder.names for path in project.word_index.mentioning(word_of(name)) if path != home}
    users = (project.module_at(path) for path in paths)
    return any(user is not None and home in project.imported(user.path) for user in users)


def _parents(project: Project, module: ModuleIndex, made: ast.Call) -> tuple[Parser, ...] | None:
    """Return the parser of which another one takes the options, ``parents=[options()]``; None if it is unknown."""
    match keyword_value(made, "parents"):
        case None:
            return () if len(made.args) <= _BEFORE_PARENTS else None
        case ast.List(elts=[ast.Call(args=[], keywords=[]) as parent]):
            found = parser_of(project, module, parent)
            return (found,) if found is not None and not found.parents else None
    return None


def _value(module: ModuleIndex, name: ast.Name) -> ast.expr | None:
    """Return the one value that a variable has where it is read."""
    bindings = module.scope(name).lookup(name.id)
    if name.lineno > _last_line(module, bindings):
        return None
    return bindings[0].value if bindings[0].kind is BindingKind.ASSIGN and not bindings[0].path else None


def _last_line(module: ModuleIndex, bindings: Sequence[Binding]) -> int:
    """Return the line up to which a variable holds its first value, or any of its groups; 0 if that is unknown. The
    second value in ``args = parser(); args = args.parse_args()`` is no parser."""
    match bindings:
        case [_]:
            return _ALL_LINES
        case [first, Binding(node=ast.Assign(value=ast.Call(func=ast.Attribute(attr="parse_args"))) as second)] if (
            module.scope(second) is module.scope(first.node) and getattr(first.node, "lineno", 0) < second.lineno
        ):
            return second.lineno
        case [_, *_] if all(
            isinstance(one.value, ast.Call) and last_name(one.value.func) in GROUPS for one in bindings
        ):
            return _ALL_LINES
    return 0


@query
def holder_of(module: ModuleIndex, value: ast.Call) -> Holder | None:
    """Return what a module does with a value, if it is a parser; None if something unknown."""
    found = _Uses(module)
    if not found.follow(value):
        return None
    calls = sorted(found.calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))
    return Holder(module, value, tuple(calls), tuple(found.sets), tuple(found.returns), frozenset(found.names))


@dataclass(slots=True)
class _Uses:
    """What is done with a parser and its groups, as all uses of the variables that hold them show."""

    module: ModuleIndex
    calls: list[ast.Call] = field(default_factory=list)
    sets: list[ast.Attribute] = field(default_factory=list)
    returns: list[ast.Return] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    _seen: set[Binding] = field(default_factory=set)

    def follow(self, value: ast.expr, *, is_group: bool = False) -> bool:
        """Return whether all that is done with a parser, or a group of it, is known."""
        match self.module.syntax.parents.get(value):
            case ast.Attribute() as attribute:
                return self._attribute(attribute)
            case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
                return self._variable(target, value, is_group)
            case ast.Return() as handed if not is_group:
                self.returns.append(handed)
                return True
            case ast.List() as listed:
                up = self.module.syntax.parents.get(listed)
                return isinstance(up, ast.keyword) and up.arg == "parents"
            case ast.Expr():
                return True
        return False

    def _attribute(self, attribute: ast.Attribute) -> bool:
        if not isinstance(attribute.ctx, ast.Load):
            self.sets.append(attribute)
            return True
        call = self.module.syntax.parents.get(attribute)
        if not isinstance(call, ast.Call) or call.func is not attribute:
            return False
        self.calls.append(call)
        return attribute.attr not in GROUPS or self.follow(call, is_group=True)

    def _variable(self, target: ast.Name, value: ast.expr, is_group: bool) -> bool:
        scope = self.module.scope(target)
        bindings = scope.lookup(target.id)
        last = _last_line(self.module, bindings)
        if not last or value not in (one.value for one in (bindings if last == _ALL_LINES else bindings[:1])):
            return False
        if bindings[0] in self._seen:
            return True
        self._seen.add(bindings[0])
        if bindings[0].scope is self.module.top:
            self.names.add(target.id)
        uses = (use for use in self.module.uses.get(target.id, ()) if use.lineno <= last)
        own = (use for use in uses if self.module.scope(use).lookup(use.id) == bindings)
        return all(self.follow(use, is_group=is_group) for use in own)
