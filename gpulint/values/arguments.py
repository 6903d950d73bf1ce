"""What a call passes for a parameter: by keyword, by position, through ``**`` dictionaries or ``functools.partial``."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.query import cyclic
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import attribute_of
from gpulint.semantic.dictionary_items import viewed
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, last_name, source_text

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.values.constants import ConstantSet, Value


class ArgumentState(enum.Enum):
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

    passed: ArgumentState
    refs: tuple[NodeRef, ...] = ()
    unknown: bool = False
    """A mapping that cannot be followed may set it as well."""

    @property
    def is_absent(self) -> bool:
        return self.passed is ArgumentState.NEVER


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key of an unpacked mapping; ``certain`` when every path sets it."""

    ref: NodeRef
    certain: bool


_NOTHING: tuple[tuple[_Entry, ...], bool] = ((), False)


class Arguments:
    """Arguments of the calls of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    def of(self, module: ModuleIndex, call: ast.Call, name: str, position: int | None = None) -> Argument:
        """The argument for parameter ``name`` (0-based ``position`` when it may be passed by position)."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return Argument(ArgumentState.ALWAYS, (NodeRef(module, keyword.value),))
        if position is not None:
            for index, value in enumerate(call.args):
                if isinstance(value, ast.Starred):
                    return Argument(ArgumentState.UNKNOWN, unknown=True)
                if index == position:
                    return Argument(ArgumentState.ALWAYS, (NodeRef(module, value),))
        refs: list[NodeRef] = []
        certain = unknown = False
        for keyword in call.keywords:
            if keyword.arg is None:
                entries, closed = self.mapping(module, keyword.value, name)
                refs.extend(entry.ref for entry in entries)
                certain = certain or (closed and any(entry.certain for entry in entries))
                unknown = unknown or not closed
        for made in self._partials(module, call):
            inner = self.of(made.module, made.node, name, None) if isinstance(made.node, ast.Call) else None
            if inner is not None:
                refs.extend(inner.refs)
                certain = certain or inner.passed is ArgumentState.ALWAYS
                unknown = unknown or inner.unknown
        if certain and refs:
            return Argument(ArgumentState.ALWAYS, tuple(refs), unknown)
        if refs:
            return Argument(ArgumentState.SOMETIMES, tuple(refs), unknown)
        return Argument(ArgumentState.UNKNOWN if unknown else ArgumentState.NEVER, unknown=unknown)

    def value(self, module: ModuleIndex, call: ast.Call, name: str, position: int | None = None) -> ConstantSet:
        """Possible constants of an argument, over all expressions that may be passed for it."""
        from gpulint.values.constants import ConstantSet

        argument = self.of(module, call, name, position)
        values: list[Value] = []
        unknown: list[NodeRef] = []
        for ref in argument.refs:
            known = self._project.fact(Constants).of(ref.module, ref.node)
            values.extend(known.values)
            unknown.extend(known.unknown)
        if argument.unknown:
            unknown.append(NodeRef(module, call))
        return ConstantSet(tuple(values), tuple(unknown))

    def _partials(self, module: ModuleIndex, call: ast.Call) -> Iterator[NodeRef]:
        resolver = self._project.fact(Resolver)
        if not isinstance(call.func, ast.Name | ast.Attribute):
            return
        for ref in resolver.points_to(module, call.func):
            if (
                isinstance(ref.node, ast.Call)
                and ref.node is not call
                and "functools.partial" in resolver.names(ref.module, ref.node.func)
            ):
                yield ref

    @cyclic(_NOTHING)
    def mapping(self, module: ModuleIndex, node: ast.expr, key: str) -> tuple[tuple[_Entry, ...], bool]:
        """(what a mapping may hold under ``key``, whether all of its keys are known)."""
        origins = self._project.fact(Resolver).points_to(module, node)
        entries, closed = _of_each([self._of_origin(ref, key) for ref in origins])
        # The mapping may have grown where it is used, and under the name that its maker gave it (in a caller, say).
        names = {(module, module.function(node), source_text(module, node)): NodeRef(module, node)}
        for ref in origins:
            for target in _targets(ref):
                named = ref.module, ref.module.function(target), source_text(ref.module, target)
                names.setdefault(named, NodeRef(ref.module, target))
        for ref in names.values():
            assert isinstance(ref.node, ast.expr)
            found, known = self._updates(ref.module, ref.node, key)
            entries.extend(_Entry(entry.ref, entry.certain and ref.node is node) for entry in found)
            closed = closed and known
        return tuple(dict.fromkeys(entries)), closed

    def _of_origin(self, ref: NodeRef, key: str) -> tuple[list[_Entry], bool]:
        if (held := viewed(ref.node)) is not None:
            view = NodeRef(ref.module, attribute_of(ref.module, held, key))
            known = self._project.fact(Constants).of(*view)
            return ([_Entry(view, True)], True) if known.values else ([], False)
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
            case ast.Attribute() | ast.Subscript():
                return self._of_file(ref, key)
        return [], False

    def _of_file(self, ref: NodeRef, key: str) -> tuple[list[_Entry], bool]:
        """Return what a section of a configuration file (``cfg.loader``) holds, if the possible files are known."""
        assert isinstance(ref.node, ast.expr)
        sections = list(self._project.fact(Constants).configs.sections(ref))
        if not any(key in names for names in sections):
            return [], bool(sections) and all(sections)
        certain = all(key in names for names in sections)
        return [_Entry(NodeRef(ref.module, attribute_of(ref.module, ref.node, key)), certain)], all(sections)

    def _of_items(
        self, ref: NodeRef, items: list[tuple[ast.expr | None, ast.expr]], key: str
    ) -> tuple[list[_Entry], bool]:
        entries: list[_Entry] = []
        closed = True
        for name, value in items:
            if name is None:
                found, known = self.mapping(ref.module, value, key)
                entries.extend(found)
                closed = closed and known
            elif not isinstance(name, ast.Constant):
                known_name = self._project.fact(Constants).of(ref.module, name)
                closed = closed and known_name.complete
                if known_name.any(lambda constant: constant == key):
                    entries.append(_Entry(NodeRef(ref.module, value), len(known_name.values) == 1))
            elif name.value == key:
                entries.append(_Entry(NodeRef(ref.module, value), True))
        return entries, closed

    def _of_kwargs(self, ref: NodeRef, key: str) -> tuple[list[_Entry], bool]:
        """Return what the call sites of a function put into its ``**kwargs``."""
        assert isinstance(ref.node, ast.arg)
        parents = ref.module.syntax.parents
        arguments = parents.get(ref.node)
        function = parents.get(arguments) if arguments is not None else None
        if not isinstance(function, FUNCTIONS) or function.args.kwarg is not ref.node:
            return [], False
        sites = self._project.fact(Resolver).call_sites(ref.module, function)
        return _of_each([self._of_site(site, function, key) for site in sites]) if sites else ([], False)

    def _of_site(self, site: NodeRef, function: FunctionNode, key: str) -> tuple[list[_Entry], bool]:
        """Return what one call puts into the ``**kwargs`` of a function."""
        entries: list[_Entry] = []
        closed = True
        assert isinstance(site.node, ast.Call)
        for keyword in site.node.keywords:
            if keyword.arg == key:
                entries.append(_Entry(NodeRef(site.module, keyword.value), True))
            elif keyword.arg is None and not _hands_on(site, function):
                found, known = self.mapping(site.module, keyword.value, key)
                entries.extend(found)
                closed = closed and known
        return entries, closed

    def _updates(self, module: ModuleIndex, node: ast.expr, key: str) -> tuple[list[_Entry], bool]:
        """``m.update(...)``, ``m.setdefault(...)`` and ``m["key"] = ...`` on the same name in the same function."""
        name = last_name(node)
        if not name or isinstance(node, ast.Call):
            return [], True
        stores, calls = module.stores.get(name, ()), module.calls_by_name
        if not stores and "update" not in calls and "setdefault" not in calls:
            return [], True
        here = module.function(node)
        text = source_text(module, node)
        entries: list[_Entry] = []
        closed = True
        for target, value, statement in stores:
            if not isinstance(target, ast.Subscript) or module.function(statement) is not here:
                continue
            if source_text(module, target.value) != text:
                continue
            if isinstance(target.slice, ast.Constant):
                if target.slice.value == key and value is not None:
                    entries.append(_Entry(NodeRef(module, value), not _conditional(module, statement, node)))
            else:
                closed = False
        for method in ("update", "setdefault"):
            for call in calls.get(method, ()):
                func = call.func
                if (
                    not isinstance(func, ast.Attribute)
                    or module.function(call) is not here
                    or source_text(module, func.value) != text
                ):
                    continue
                certain = not _conditional(module, call, node)
                if method == "setdefault":
                    if len(call.args) == 2 and isinstance(call.args[0], ast.Constant) and call.args[0].value == key:
                        entries.append(_Entry(NodeRef(module, call.args[1]), certain))
                    continue
                items: list[tuple[ast.expr | None, ast.expr]] = [(None, arg) for arg in call.args]
                items += [(ast.Constant(k.arg) if k.arg is not None else None, k.value) for k in call.keywords]
                found, known = self._of_items(NodeRef(module, call), items, key)
                entries.extend(_Entry(entry.ref, entry.certain and certain) for entry in found)
                closed = closed and known
        return entries, closed


def _of_each(answers: list[tuple[list[_Entry], bool]]) -> tuple[list[_Entry], bool]:
    """The answers of all mappings that one may be; a key is certain if each of them certainly has it."""
    certain = all(any(entry.certain for entry in entries) for entries, _ in answers)
    found = [_Entry(entry.ref, entry.certain and certain) for entries, _ in answers for entry in entries]
    return found, all(closed for _, closed in answers)


def _hands_on(site: NodeRef, function: FunctionNode) -> bool:
    """Return whether a function that calls itself only passes on the ``**kwargs`` that it got."""
    assert isinstance(site.node, ast.Call) and function.args.kwarg is not None
    own = f"**{function.args.kwarg.arg}"
    return site.module.function(site.node) is function and any(
        f"**{ast.unparse(keyword.value)}" == own for keyword in site.node.keywords if keyword.arg is None
    )


def _targets(ref: NodeRef) -> list[ast.expr]:
    """The names that an assigned expression gets where it stands."""
    parent = ref.module.syntax.parents.get(ref.node)
    match parent:
        case ast.Assign(targets=targets, value=value) if value is ref.node:
            return [target for target in targets if isinstance(target, ast.Name | ast.Attribute)]
        case ast.AnnAssign(target=target, value=value) if value is ref.node:
            return [target]
    return []


def _conditional(module: ModuleIndex, statement: ast.AST, use: ast.AST) -> bool:
    """Return whether ``statement`` is under a condition that does not also hold at ``use``."""
    around_use = set(module.syntax.ancestors(use))
    return any(
        isinstance(up, ast.If | ast.For | ast.While | ast.ExceptHandler) and up not in around_use
        for up in module.syntax.ancestors(statement)
    )
