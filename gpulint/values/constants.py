"""Constant values of expressions, with where each one is set; whatever is not constant is listed as unknown."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.finding import Place
from gpulint.numerals import MAX_DIGITS
from gpulint.query import cyclic
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.values import environment_numbers, held_values, strings, tracker_config
from gpulint.workspace.module_index import ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

_BINARY: dict[type[ast.operator], Callable[[int | float, int | float], int | float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_CONVERSIONS = frozenset(
    {"int", "float", "str", "bool", "pathlib.Path", "Path", "os.path.expanduser", "os.path.abspath"}
)
_NUMBERS = frozenset({"int", "float"})
_JOINS = frozenset({"os.path.join", "posixpath.join"})
_BACKENDS = {f"torch.distributed.Backend.{name.upper()}": name for name in ("nccl", "gloo", "mpi")}
"""Constants that PyTorch gives names to."""


@dataclass(frozen=True, slots=True)
class Value:
    """One constant an expression may have. ``source`` says who sets it: ``literal``, ``default`` (of an option or a
    dataclass field, so somebody may override it), ``environment``, ``launcher`` or ``config``."""

    value: object
    place: Place
    source: str = "literal"


_NO_VALUES: tuple[Value, ...] = ()
_MAX_COMBINATIONS = 256
"""Of the possible operands of one operation; chains of sums of variables that are set often would have billions."""


_MAX_VALUES = 100
"""Most values of one expression. A path that grows by itself (``args.dir = join(args.dir, "x")``) has no end."""
_MAX_TEXT = 10_000
"""Longest text, and most parts of a list, that is computed; ``b = a + a; c = b + b; ...`` doubles with each line."""
_MAX_BITS = 1_000


@dataclass(frozen=True, slots=True)
class ConstantSet:
    """What is known of an expression: its possible constants and the expressions that could not be resolved."""

    values: tuple[Value, ...]
    unknown: tuple[NodeRef, ...] = ()

    @property
    def complete(self) -> bool:
        """True if nothing about the value is unknown."""
        return bool(self.values) and not self.unknown

    @property
    def constants(self) -> list[object]:
        return [value.value for value in self.values]

    def every(self, test: Callable[[object], bool]) -> bool:
        """Return whether the value is wholly known and every possibility passes ``test``."""
        return self.complete and all(test(value.value) for value in self.values)

    def any(self, test: Callable[[object], bool]) -> bool:
        """Return whether some known possibility passes ``test``."""
        return any(test(value.value) for value in self.values)


class Constants:
    """Constant values in one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        from gpulint.values.cli_options import Options  # they take constants in turn
        from gpulint.values.config_files import ConfigFiles

        self.configs = ConfigFiles(project)
        self.options = Options(project, self.configs)
        self.db = project.db

    def place(self, ref: NodeRef, message: str = "") -> Place:
        """Return where a node stands, for a related place."""
        node = ref.node
        if isinstance(node, ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias):
            return Place(ref.module.path, ref.module.syntax.span(node), message)
        inner = next((child for child in walk(node) if isinstance(child, ast.expr)), None)
        assert inner is not None
        return Place(ref.module.path, ref.module.syntax.span(inner), message)

    def of(self, module: ModuleIndex, node: ast.AST, path: tuple[int, ...] = ()) -> ConstantSet:
        """The possible constants of an expression."""
        if (first := _first_choice(module, node)) is not None and (chosen := self._of(module, first)).every(bool):
            return chosen  # the rest of `chosen or default` does not count
        return self._of(module, node, path)

    def _of(self, module: ModuleIndex, node: ast.AST, path: tuple[int, ...] = ()) -> ConstantSet:
        values: list[Value] = []
        unknown: list[NodeRef] = []
        for ref in self._project.fact(Resolver).points_to(module, node, path):
            found = self._constants(ref)
            values.extend(found)
            if not found:
                unknown.append(ref)
        known = values_key(values)
        if known and unknown:  # a default is in force where the file that may replace it does not
            unknown = [ref for ref in unknown if not self.configs.lacks(ref)]
        if len(known) > _MAX_VALUES:
            module.report_limit(f"an expression has more than {_MAX_VALUES} values")
            known = known[:_MAX_VALUES]
            unknown.append(NodeRef(module, node, path))
        return ConstantSet(tuple(dict.fromkeys(known)), tuple(unknown))

    def _constants(self, ref: NodeRef) -> tuple[Value, ...]:
        if ref.path and not isinstance(ref.node, ast.Attribute):
            return ()
        if (given := self._from_files(ref)) is not None:
            return tuple(given)
        return self._values(ref.module, ref.node, ref.path)

    def _from_files(self, ref: NodeRef) -> list[Value] | None:
        """Return what files set a field of a class, or pass for a parameter, whatever its default is; None if
        none does."""
        around = ref.module.syntax.parents.get(ref.node)
        if isinstance(ref.node, ast.AnnAssign) or isinstance(around, ast.AnnAssign):
            from gpulint.values.environment_files import EnvironmentFiles  # their names are constants in turn

            return self._project.fact(EnvironmentFiles).field(ref) or None
        if isinstance(around, ast.arguments):
            from gpulint.values.instantiated import Instantiated

            return self._project.fact(Instantiated).passed(ref)
        return None

    @cyclic(_NO_VALUES)
    def _values(self, module: ModuleIndex, node: ast.AST, path: tuple[int, ...]) -> tuple[Value, ...]:
        values = filter(_is_small, self._evaluate(NodeRef(module, node, path)))
        return tuple(islice(values, _MAX_VALUES + 1))

    def _evaluate(self, ref: NodeRef) -> Iterator[Value]:
        module = ref.module
        match ref.node:
            case ast.Constant(value=constant):
                yield Value(constant, self.place(ref))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                for known in self.of(module, operand).values:
                    if isinstance(known.value, int | float):
                        yield Value(-known.value, known.place, known.source)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                if (inner := self.of(module, operand)).complete:
                    yield from (Value(not known.value, known.place, known.source) for known in inner.values)
            case ast.BinOp():
                yield from self._binary(ref, ref.node)
            case ast.JoinedStr(values=parts):
                yield from self._joined(ref, parts)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                items = [self.of(module, part) for part in parts]
                if all(item.complete and len(item.values) == 1 for item in items):
                    yield Value(tuple(item.values[0].value for item in items), self.place(ref))
            case ast.Call():
                yield from self._call(ref, ref.node)
            case ast.Subscript(value=base, slice=ast.Constant(value=str(key))) if self._project.fact(Resolver).names(
                module, base
            ) == {"os.environ"}:
                yield from self.options.environment(key)
            case ast.Attribute(attr="NCCL" | "GLOO" | "MPI"):
                names = self._project.fact(Resolver).names(module, ref.node)
                yield from (Value(_BACKENDS[name], self.place(ref)) for name in names & _BACKENDS.keys())
            case ast.Subscript(slice=ast.Name() | ast.Attribute() | ast.Subscript()):
                yield from self.texts(strings.held(self._project, module, ref.node))
            case ast.Attribute() | ast.Subscript() | ast.arg():
                from gpulint.values import tree_settings  # it reads files, whose paths are constants in turn
                from gpulint.values.unknown_overrides import is_passed_unknown

                found = [*self.options.lookup(ref), *self.configs.lookup(ref)]
                if not found and isinstance(ref.node, ast.Subscript) and isinstance(ref.node.value, ast.Subscript):
                    found = self.texts(strings.held(self._project, module, ref.node))
                found = found or list(self._of_run(ref))
                if not found and not is_passed_unknown(self.configs, ref):
                    found = list(tree_settings.anywhere(self._project, ref))
                yield from found

    def _of_run(self, ref: NodeRef) -> Iterator[Value]:
        for given in tracker_config.settings(self._project, ref):
            yield from (Value(known.value, known.place, "default") for known in self.of(*given).values)

    def texts(self, refs: list[NodeRef]) -> list[Value]:
        """Return what is taken from a table if it is known text; numbers in a table are choices, no defaults."""
        known = [self.of(*ref) for ref in refs]
        values = [value for one in known for value in one.values]
        whole = all(one.complete for one in known) and all(isinstance(value.value, str) for value in values)
        return values if whole else []

    def _binary(self, ref: NodeRef, node: ast.BinOp) -> Iterator[Value]:
        if isinstance(node.op, ast.Mod) and (made := strings.made(self, ref.module, node)) is not None:
            yield Value(made[0], self.place(ref), made[1])
            return
        left, right = self.of(ref.module, node.left), self.of(ref.module, node.right)
        if not left.complete or not right.complete or len(left.values) * len(right.values) > _MAX_COMBINATIONS:
            return
        apply = _BINARY.get(type(node.op))
        for a in left.values:
            for b in right.values:
                source = a.source if a.source != "literal" else b.source
                if isinstance(node.op, ast.Div) and isinstance(a.value, str) and isinstance(b.value, str):
                    yield Value(f"{a.value.rstrip('/')}/{b.value}", self.place(ref), source)
                elif isinstance(node.op, ast.Add) and isinstance(a.value, str) and isinstance(b.value, str):
                    yield Value(a.value + b.value, self.place(ref), source)
                elif apply is not None and isinstance(a.value, int | float) and isinstance(b.value, int | float):
                    try:
                        yield Value(apply(a.value, b.value), self.place(ref), source)
                    except (ZeroDivisionError, OverflowError):
                        return

    def _joined(self, ref: NodeRef, parts: list[ast.expr]) -> Iterator[Value]:
        text, source = "", "literal"
        for part in parts:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            known = self.of(ref.module, inner)
            if not known.complete or len(known.values) != 1:
                if not text or isinstance(part, ast.Constant):
                    return
                # The head of a path already tells where it leads; the unknown rest is marked.
                text += "{}"
                continue
            text += str(known.values[0].value)
            source = known.values[0].source if known.values[0].source != "literal" else source
        yield Value(text, self.place(ref), source)

    def _call(self, ref: NodeRef, node: ast.Call) -> Iterator[Value]:
        module = ref.module
        names = self._project.fact(Resolver).call_names(module, node)
        if names & _CONVERSIONS and len(node.args) == 1 and not node.keywords:
            inner = self.of(module, node.args[0])
            source = "environment" if inner.unknown and names & _NUMBERS else ""
            if source and not all(environment_numbers.may_be_unset(self._project, one) for one in inner.unknown):
                return  # ``int(settings.get("workers") or 0)`` is 0 only where the settings lack it
            for value in inner.values:
                yield Value(_convert(names, value.value), value.place, source or value.source)
        elif names & environment_numbers.ENVIRONMENT and node.args:
            yield from self._of_environment(module, node)
        elif names & _JOINS and node.args:
            yield from self._join(ref, node)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "get_hparam", "pop") and node.args:
            yield from held_values.item(self, self._project, ref, node)
        elif isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            yield from held_values.attribute(self, self._project, ref, node)
        elif (made := strings.made(self, module, node)) is not None:
            yield Value(made[0], self.place(ref), made[1])
        else:
            yield from self.options.default_of_call(ref, node)

    def _of_environment(self, module: ModuleIndex, node: ast.Call) -> Iterator[Value]:
        known = self.of(module, node.args[0])
        name = str(known.values[0].value) if known.complete and len(known.values) == 1 else ""
        if name:
            yield from self.options.environment(name)
        if len(node.args) > 1 and not environment_numbers.is_set_in_jobs(self._project, name):
            for value in self.of(module, node.args[1]).values:
                yield Value(value.value, value.place, "environment")

    def _join(self, ref: NodeRef, node: ast.Call) -> Iterator[Value]:
        """A joined path, with ``{}`` for each part that is not constant; nothing if its head is unknown."""
        head = self.of(ref.module, node.args[0])
        for value in head.values:
            if not isinstance(value.value, str):
                continue  # None, which the program has tested for
            text = value.value.rstrip("/")
            for part in node.args[1:]:
                known = self.of(ref.module, part)
                text += "/" + (str(known.values[0].value) if known.complete and len(known.values) == 1 else "{}")
            yield Value(text, value.place, value.source)


def _first_choice(module: ModuleIndex, node: ast.AST) -> ast.expr | None:
    """``args.model`` of ``args.model or "large"``, also by a name that is bound once."""
    if isinstance(node, ast.Name):
        bindings = module.scope(node).lookup(node.id)
        value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
        node = value if value is not None else node
    return node.values[0] if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else None


def _is_small(value: Value) -> bool:
    """Return whether a value is small enough to be computed with."""
    parts: list[object] = [value.value]
    for count, part in enumerate(parts):
        if count > _MAX_TEXT:
            return False
        if isinstance(part, tuple):
            parts += part
        elif isinstance(part, str | bytes):
            if len(part) > _MAX_TEXT:
                return False
        elif isinstance(part, int) and part.bit_length() > _MAX_BITS:
            return False
    return True


def values_key(values: list[Value]) -> list[Value]:
    """Values once each, the first place kept."""
    seen: dict[tuple[str, str], Value] = {}
    for value in values:
        seen.setdefault((repr(value.value), value.source), value)
    return list(seen.values())


def _convert(names: frozenset[str], value: object) -> object:
    try:
        if "int" in names:
            return value if isinstance(value, str) and len(value) > MAX_DIGITS else int(value)  # type: ignore[call-overload]
        if "float" in names:
            return float(value)  # type: ignore[arg-type]
        if "bool" in names:
            return bool(value)
    except (TypeError, ValueError, OverflowError):
        return value
    return value
