"""What a call passes for a parameter: by keyword, by position, through ``**`` dictionaries or ``functools.partial``."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.facts.scopes import FUNCTIONS, FunctionNode, ModuleScopes, Ref, last_name
from gpulint.records import dataclass

if TYPE_CHECKING:
    from gpulint.facts.values import Known, Value
    from gpulint.project import Project


class Passed(enum.Enum):
    """Whether a call passes an argument."""

    NEVER = enum.auto()
    SOMETIMES = enum.auto()
    """On some path only, e.g. ``if cuda: kwargs.update(pin_memory=True)``."""
    ALWAYS = enum.auto()
    UNKNOWN = enum.auto()
    """A ``**mapping`` that cannot be followed may hold it."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call: ``refs`` are the expressions that may be passed."""

    passed: Passed
    refs: tuple[Ref, ...] = ()
    unknown: bool = False
    """A mapping that cannot be followed may set it as well."""

    @property
    def is_absent(self) -> bool:
        return self.passed is Passed.NEVER


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key of an unpacked mapping; ``certain`` when every path sets it."""

    ref: Ref
    certain: bool


class Arguments:
    """Arguments of the calls of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def of(self, scopes: ModuleScopes, call: ast.Call, name: str, position: int | None = None) -> Argument:
        """The argument for parameter ``name`` (0-based ``position`` when it may be passed by position)."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return Argument(Passed.ALWAYS, (Ref(scopes, keyword.value),))
        if position is not None:
            for index, value in enumerate(call.args):
                if isinstance(value, ast.Starred):
                    return Argument(Passed.UNKNOWN, unknown=True)
                if index == position:
                    return Argument(Passed.ALWAYS, (Ref(scopes, value),))
        refs: list[Ref] = []
        certain = unknown = False
        for keyword in call.keywords:
            if keyword.arg is None:
                entries, closed = self.mapping(scopes, keyword.value, name)
                refs.extend(entry.ref for entry in entries)
                certain = certain or (closed and any(entry.certain for entry in entries))
                unknown = unknown or not closed
        for made in self._partials(scopes, call):
            inner = self.of(made.scopes, made.node, name, None) if isinstance(made.node, ast.Call) else None
            if inner is not None:
                refs.extend(inner.refs)
                certain = certain or inner.passed is Passed.ALWAYS
                unknown = unknown or inner.unknown
        if certain and refs:
            return Argument(Passed.ALWAYS, tuple(refs), unknown)
        if refs:
            return Argument(Passed.SOMETIMES, tuple(refs), unknown)
        return Argument(Passed.UNKNOWN if unknown else Passed.NEVER, unknown=unknown)

    def value(self, scopes: ModuleScopes, call: ast.Call, name: str, position: int | None = None) -> Known:
        """Possible constants of an argument, over all expressions that may be passed for it."""
        from gpulint.facts.values import Known

        argument = self.of(scopes, call, name, position)
        values: list[Value] = []
        unknown: list[Ref] = []
        for ref in argument.refs:
            known = self._project.values.of(ref.scopes, ref.node)
            values.extend(known.values)
            unknown.extend(known.unknown)
        if argument.unknown:
            unknown.append(Ref(scopes, call))
        return Known(tuple(values), tuple(unknown))

    def _partials(self, scopes: ModuleScopes, call: ast.Call) -> Iterator[Ref]:
        resolver = self._project.resolver
        if not isinstance(call.func, ast.Name | ast.Attribute):
            return
        for ref in resolver.origins(scopes, call.func):
            if (
                isinstance(ref.node, ast.Call)
                and ref.node is not call
                and "functools.partial" in resolver.names(ref.scopes, ref.node.func)
            ):
                yield ref

    def mapping(self, scopes: ModuleScopes, node: ast.expr, key: str) -> tuple[tuple[_Entry, ...], bool]:
        """(what a mapping may hold under ``key``, whether all of its keys are known)."""
        nothing: tuple[tuple[_Entry, ...], bool] = ((), False)
        # Values are found in mappings and keys of mappings are values, so both share a cache.
        memo = self._project.values.memo
        return memo.ask(("mapping", node, key), lambda: self._find_mapping(scopes, node, key), nothing)

    def _find_mapping(self, scopes: ModuleScopes, node: ast.expr, key: str) -> tuple[tuple[_Entry, ...], bool]:
        entries: list[_Entry] = []
        closed = True
        origins = self._project.resolver.origins(scopes, node)
        for ref in origins:
            found, known = self._of_origin(ref, key)
            entries.extend(_Entry(entry.ref, entry.certain and len(origins) == 1) for entry in found)
            closed = closed and known
        # The mapping may have grown where it is used, and under the name that its maker gave it (in a caller, say).
        names = {(scopes.path, scopes.function(node), ast.unparse(node)): Ref(scopes, node)}
        for ref in origins:
            for target in _targets(ref):
                names.setdefault(
                    (ref.scopes.path, ref.scopes.function(target), ast.unparse(target)), Ref(ref.scopes, target)
                )
        for ref in names.values():
            assert isinstance(ref.node, ast.expr)
            found, known = self._updates(ref.scopes, ref.node, key)
            entries.extend(_Entry(entry.ref, entry.certain and ref.node is node) for entry in found)
            closed = closed and known
        return tuple(dict.fromkeys(entries)), closed

    def _of_origin(self, ref: Ref, key: str) -> tuple[list[_Entry], bool]:
        match ref.node:
            case ast.Dict(keys=keys, values=values):
                return self._of_items(ref, [(k, v) for k, v in zip(keys, values, strict=True)], key)
            case ast.Call(func=ast.Name(id="dict"), args=args, keywords=keywords):
                items: list[tuple[ast.expr | None, ast.expr]] = [(None, arg) for arg in args]
                items += [(ast.Constant(k.arg) if k.arg is not None else None, k.value) for k in keywords]
                return self._of_items(ref, items, key)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._of_items(ref, [(None, left), (None, right)], key)
            case ast.arg():
                return self._of_kwargs(ref, key)
            case ast.Constant(value=None):
                return [], True
        return [], False

    def _of_items(self, ref: Ref, items: list[tuple[ast.expr | None, ast.expr]], key: str) -> tuple[list[_Entry], bool]:
        entries: list[_Entry] = []
        closed = True
        for name, value in items:
            if name is None:
                found, known = self.mapping(ref.scopes, value, key)
                entries.extend(found)
                closed = closed and known
            elif not isinstance(name, ast.Constant):
                known_name = self._project.values.of(ref.scopes, name)
                closed = closed and known_name.complete
                if known_name.any(lambda constant: constant == key):
                    entries.append(_Entry(Ref(ref.scopes, value), len(known_name.values) == 1))
            elif name.value == key:
                entries.append(_Entry(Ref(ref.scopes, value), True))
        return entries, closed

    def _of_kwargs(self, ref: Ref, key: str) -> tuple[list[_Entry], bool]:
        """What the call sites of a function put into its ``**kwargs``."""
        assert isinstance(ref.node, ast.arg)
        parents = ref.scopes.module.parents
        arguments = parents.get(ref.node)
        function = parents.get(arguments) if arguments is not None else None
        if not isinstance(function, FUNCTIONS) or function.args.kwarg is not ref.node:
            return [], False
        sites = self._project.resolver.call_sites(ref.scopes, function)
        entries: list[_Entry] = []
        closed = bool(sites)
        for site in sites:
            assert isinstance(site.node, ast.Call)
            for keyword in site.node.keywords:
                if keyword.arg == key:
                    entries.append(_Entry(Ref(site.scopes, keyword.value), len(sites) == 1))
                elif keyword.arg is None and not _hands_on(site, function):
                    found, known = self.mapping(site.scopes, keyword.value, key)
                    entries.extend(_Entry(entry.ref, entry.certain and len(sites) == 1) for entry in found)
                    closed = closed and known
        return entries, closed

    def _updates(self, scopes: ModuleScopes, node: ast.expr, key: str) -> tuple[list[_Entry], bool]:
        """``m.update(...)``, ``m.setdefault(...)`` and ``m["key"] = ...`` on the same name in the same function."""
        name = last_name(node)
        if not name or isinstance(node, ast.Call):
            return [], True
        here = scopes.function(node)
        text = ast.unparse(node)
        entries: list[_Entry] = []
        closed = True
        for target, value, statement in scopes.stores.get(name, []):
            if not isinstance(target, ast.Subscript) or scopes.function(statement) is not here:
                continue
            if ast.unparse(target.value) != text:
                continue
            if isinstance(target.slice, ast.Constant):
                if target.slice.value == key and value is not None:
                    entries.append(_Entry(Ref(scopes, value), not _conditional(scopes, statement, node)))
            else:
                closed = False
        for method in ("update", "setdefault"):
            for call in scopes.calls_by_name.get(method, []):
                func = call.func
                if (
                    not isinstance(func, ast.Attribute)
                    or scopes.function(call) is not here
                    or ast.unparse(func.value) != text
                ):
                    continue
                certain = not _conditional(scopes, call, node)
                if method == "setdefault":
                    if len(call.args) == 2 and isinstance(call.args[0], ast.Constant) and call.args[0].value == key:
                        entries.append(_Entry(Ref(scopes, call.args[1]), certain))
                    continue
                items: list[tuple[ast.expr | None, ast.expr]] = [(None, arg) for arg in call.args]
                items += [(ast.Constant(k.arg) if k.arg is not None else None, k.value) for k in call.keywords]
                found, known = self._of_items(Ref(scopes, call), items, key)
                entries.extend(_Entry(entry.ref, entry.certain and certain) for entry in found)
                closed = closed and known
        return entries, closed


def _hands_on(site: Ref, function: FunctionNode) -> bool:
    """Does a function that calls itself only hand on the ``**kwargs`` that it got?"""
    assert isinstance(site.node, ast.Call) and function.args.kwarg is not None
    own = f"**{function.args.kwarg.arg}"
    return site.scopes.function(site.node) is function and any(
        f"**{ast.unparse(keyword.value)}" == own for keyword in site.node.keywords if keyword.arg is None
    )


def _targets(ref: Ref) -> list[ast.expr]:
    """The names that an assigned expression gets where it stands."""
    parent = ref.scopes.module.parents.get(ref.node)
    match parent:
        case ast.Assign(targets=targets, value=value) if value is ref.node:
            return [target for target in targets if isinstance(target, ast.Name | ast.Attribute)]
        case ast.AnnAssign(target=target, value=value) if value is ref.node:
            return [target]
    return []


def _conditional(scopes: ModuleScopes, statement: ast.AST, use: ast.AST) -> bool:
    """Does ``statement`` stand under a condition that does not also hold at ``use``?"""
    around_use = set(scopes.module.ancestors(use))
    return any(
        isinstance(up, ast.If | ast.For | ast.While | ast.ExceptHandler) and up not in around_use
        for up in scopes.module.ancestors(statement)
    )
