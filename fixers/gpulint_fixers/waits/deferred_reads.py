"""Sums and lists of numbers that are kept on the GPU while a loop runs, and read after it or where they are logged.

A variable that holds such a sum is a tensor inside of the loop and a number again after it, so that only the loop has
to know. Sums in double precision on the GPU are those of Python's numbers, bit for bit."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain

from gpulint.documents import Document
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.lookups_by_name import reader_of_all
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, Binding, BindingKind, LoopNode, ModuleIndex
from gpulint_fixers.edits.places import in_each_place, in_f_string, in_place_of, is_entry, shows
from gpulint_fixers.edits.statements import insert_above, insert_after, is_after_handler_of, is_handler_of
from gpulint_fixers.edits.string_places import is_converted
from gpulint_fixers.waits.integer_uses import takes_integers
from gpulint_fixers.waits.lists.list_reads import (
    counts,
    extends,
    fit,
    is_of_list,
    is_of_table,
    loop_of_history,
    numbers_below,
    partial_reads,
    reads_each,
)
from gpulint_fixers.waits.logs.log_intervals import Interval, interval, logged_seldom
from gpulint_fixers.waits.logs.logging_runs import log_run
from gpulint_fixers.waits.logs.throttled_runs import throttled
from gpulint_fixers.waits.logs.whole_runs import with_reads_above
from gpulint_fixers.waits.made_tensors import kept_as_tensor
from gpulint_fixers.waits.mixed_values import is_of_tensors, reads_number
from gpulint_fixers.waits.read_blocks import block_of, is_converted_above, is_repeated, joined
from gpulint_fixers.waits.repeated_sums import read_below_all

_NESTED = (*FUNCTIONS, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Deferred:
    """The edits after which a variable may hold a tensor inside of its loop."""

    edits: tuple[Edit, ...]
    logs: Interval | None = None
    """How often it is logged now, where that was every step."""
    reasons: tuple[str, ...] = ()
    """What else changes: values that are computed of it on the GPU as well."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a function (or of a script) that a loop adds to."""

    module: ModuleIndex
    document: Document
    loop: LoopNode
    name: str
    definition: ast.Assign | None = None
    """The assignment of the loop whose value alone counts; None for a variable that the loop adds to."""
    integers: bool = False
    """Whether the values are counts."""
    through: frozenset[str] = frozenset()
    """Variables of which it is computed on the GPU."""
    entries: bool = False
    """Whether it is a table, of which uses may take single entries."""
    is_whole: bool = True
    """Whether all of it may be converted; a table with other entries may not."""
    ignored: frozenset[ast.Name] = frozenset()
    """Uses that see no difference."""

    def occurrences(self) -> list[ast.Name] | None:
        """Return where it is read, set or deleted; None if it is not only the function's own.

        With a definition only what may see its value counts, and other values must be numbers."""
        module, owner = self.module, self.module.scope(self.loop)
        bindings = owner.bindings.get(self.name)
        if not bindings or any(self.name in scope.outer for scope in module.scope_of.values()):
            return None
        found, function = [], module.function(self.loop)
        for node in module.named.get(self.name, []):
            if module.scope(node).lookup(self.name) is not bindings or node in self.ignored:
                continue
            inner = [up for up in module.syntax.ancestors(node) if isinstance(up, _NESTED)]
            if isinstance(node.ctx, ast.Del) or (inner and inner[0] is not function) or (inner and function is None):
                return None
            found.append(node)
        return found if self.definition is None else self._defined(found)

    def _defined(self, nodes: list[ast.Name]) -> list[ast.Name] | None:
        """The uses among ``nodes`` that may see the definition's value; None if others are mixed up with it."""
        assert self.definition is not None
        bindings, found = self.module.scope(self.loop).bindings[self.name], list[ast.Name]()
        for node in nodes:
            changed = not isinstance(node.ctx, ast.Load)
            if changed and not isinstance(self.module.syntax.parents.get(node), ast.AugAssign):
                continue
            seen = reaching(self.module, bindings, node)
            if not any(self._is_definition(binding) for binding in seen):
                continue
            others = [binding for binding in seen if not self._is_definition(binding)]
            if changed:
                return None
            plain = all(isinstance(binding.value, ast.Constant) for binding in others) and not self.is_inside(node)
            if (
                not plain
                and not is_of_tensors(self.module, self.definition)
                and not all(self.is_inside(binding.node) and reads_number(self.module, binding) for binding in others)
            ):
                return None
            found.append(node)
        return found

    def _is_definition(self, binding: Binding) -> bool:
        assert self.definition is not None
        return binding.node is self.definition or binding.node in self.definition.targets

    def initial(self) -> list[ast.expr] | None:
        """Return what it is set to besides what is added to it, before or in the loop; None if that is not known."""
        values = list[ast.expr]()
        for binding in self._live():
            if binding.kind is BindingKind.AUGMENT or extends(binding.value, self.name):
                continue
            value = binding.value
            for step in binding.path:
                if not isinstance(value, ast.Tuple | ast.List) or step >= len(value.elts):
                    return None
                value = value.elts[step]
            if binding.kind is not BindingKind.ASSIGN or value is None:
                return None
            values.append(value)
        return values

    def _live(self) -> list[Binding]:
        """The bindings in force before an iteration, and those of the loop itself."""
        bindings = self.module.scope(self.loop).bindings.get(self.name, [])
        before = reaching(self.module, bindings, self.loop.body[0])
        return [binding for binding in bindings if binding in before or self.is_inside(binding.node)]

    def is_set_anew(self, node: ast.Name) -> bool:
        """Return whether a use outside of the loop sees another value than the loop's."""
        if self.definition is not None:
            return False
        bindings = self.module.scope(self.loop).bindings.get(self.name, [])
        return not set(self._live()).intersection(reaching(self.module, bindings, node))

    def statement(self, node: ast.AST) -> ast.stmt:
        return next(up for up in self.module.syntax.ancestors(node) if isinstance(up, ast.stmt))

    def is_inside(self, node: ast.AST) -> bool:
        return self.loop in self.module.syntax.ancestors(node)


def defer(
    project: Project, variable: Variable, convert: str, *, own: set[ast.stmt], in_place: bool = True
) -> Deferred | Declined:
    """Turn a variable back into what it was (``"float({})"``) wherever its value is used.

    ``own`` are the statements that add to it. Without ``in_place`` what the loop has left is converted below it, also
    where it is used once.
    """
    nodes = variable.occurrences()
    if nodes is None:
        return Declined(f"other functions use `{variable.name}` as well")
    if (look := reader_of_all(variable.module, variable.module.function(variable.loop))) is not None:
        return Declined(f"`{look}()` may read `{variable.name}` as well")
    reads = [
        node
        for node in nodes
        if variable.statement(node) not in own and (isinstance(node.ctx, ast.Load) or _is_changed(variable, node))
    ]
    if "float(" in convert and any(takes_integers(variable.module, node) for node in reads):
        return Declined(f"`{variable.name}` is used as an integer, which may be no float")
    inside = [node for node in reads if variable.is_inside(node)]
    outside = [node for node in reads if not variable.is_inside(node) and not variable.is_set_anew(node)]
    made = _inside(project, variable, convert, inside)
    if isinstance(made, Declined):
        return made
    after: list[Edit] | Declined | None = None
    if "float(" in convert:
        after = kept_as_tensor(project, variable.module, outside)
    if after is None:
        after = read_below_all(variable, convert, own, outside) or _outside(
            variable, convert, outside, in_place=in_place
        )
    return after if isinstance(after, Declined) else Deferred((*made.edits, *after), made.logs, made.reasons)


def _is_changed(variable: Variable, node: ast.Name) -> bool:
    """``total /= n``, which reads the variable as well."""
    return isinstance(variable.module.syntax.parents.get(node), ast.AugAssign)


def _inside(project: Project, variable: Variable, convert: str, reads: list[ast.Name]) -> Deferred | Declined:
    from gpulint_fixers.waits.passed_on import passed_on, tested  # what is computed of the variable is deferred, too

    edits, logs, reasons = list[Edit](), None, list[str]()
    seldom: dict[tuple[ast.AST, str], dict[ast.stmt, list[ast.Name]]] = {}
    tests = tested(project, variable, reads)
    if isinstance(tests, Declined):
        return tests
    for test in tests:
        edits += test.edits
        reasons += test.reasons
        for statement, names in _by_statement(variable, test.inside).items():
            seldom.setdefault(block_of(variable.module, statement), {})[statement] = names
    looked_at = {node for test in tests for node in test.nodes}
    for statement, names in _by_statement(variable, [node for node in reads if node not in looked_at]).items():
        if logged_seldom(project, variable.module, names[0]):
            seldom.setdefault(block_of(variable.module, statement), {})[statement] = names
            continue
        run = log_run(project, variable.module, statement)
        if run is None:
            if is_of_table(convert) and not all(is_entry(variable.module, node) for node in names):
                return Declined(f"`{variable.name}` is kept as a whole")
            onward = passed_on(project, variable, statement, names)
            if isinstance(onward, Declined):
                return onward
            edits += onward.edits
            reasons += onward.reasons
            continue
        run = [*with_reads_above(project, variable.module, tuple(run), variable.loop)]
        when = interval(project, variable.module, variable.loop, run[0])
        if isinstance(when, Declined):
            return when
        wrapped = throttled(variable.document, variable.module, run, when)
        if isinstance(wrapped, Declined):
            return wrapped
        few = partial_reads(variable.module, names, convert)
        inner = in_each_place(variable.module, names, convert, entries=variable.entries) if few is None else few
        if inner is None and not all(shows(variable.module, node, convert) for node in names):
            return Declined(f"`{variable.name}` is part of a string")
        edits += (*wrapped, *(inner or ()))
        logs = when
    shown = _shown_seldom(variable, convert, joined(variable.module, seldom, convert, variable.is_whole))
    if isinstance(shown, Declined):
        return shown
    return Deferred(tuple(dict.fromkeys([*edits, *shown])), logs, tuple(dict.fromkeys(reasons)))


def _shown_seldom(
    variable: Variable, convert: str, blocks: Iterable[dict[ast.stmt, list[ast.Name]]]
) -> list[Edit] | Declined:
    """Convert the uses in blocks that not every step runs."""
    edits, converted = list[Edit](), set[ast.stmt]()
    for statements in sorted(blocks, key=lambda one: min(statement.lineno for statement in one)):
        if all(is_converted_above(variable.module, one, converted, [*additions(variable)]) for one in statements):
            continue
        names = [*chain.from_iterable(statements.values())]
        shown = not is_of_list(convert) and all(shows(variable.module, node, convert) for node in names)
        few = [] if shown else partial_reads(variable.module, names, convert)
        if not variable.is_whole:
            few = in_each_place(variable.module, names, convert, entries=True)
            if few is None:
                return Declined(f"`{variable.name}` is part of a string")
        if few is not None:
            edits += few
            continue
        read = _converted(variable, statements, convert, in_place=not is_of_list(convert))
        if isinstance(read, Declined):
            return read
        edits += read
        if len(statements) > 1:
            converted.add(min(statements, key=lambda statement: statement.lineno))
    return edits


def _by_statement(variable: Variable, reads: list[ast.Name]) -> dict[ast.stmt, list[ast.Name]]:
    found: dict[ast.stmt, list[ast.Name]] = {}
    for node in reads:
        found.setdefault(variable.statement(node), []).append(node)
    return found


def _converted(
    variable: Variable, statements: dict[ast.stmt, list[ast.Name]], convert: str, *, in_place: bool = True
) -> list[Edit] | Declined:
    """Convert the uses in one statement of a block in their places, those in several by a line above the first."""
    first = min(statements, key=lambda statement: statement.lineno)
    if (
        in_place
        and len(statements) == 1
        and (inner := in_place_of(variable.module, statements[first], convert)) is not None
    ):
        return inner
    if hasattr(first, "body") and not (isinstance(first, ast.If) and len(statements) > 1):
        return Declined(f"`{variable.name}` is part of a string in the condition of a block")
    last = max(statement.lineno for statement in statements)
    if any(first.lineno < addition.lineno < last for addition in additions(variable)):
        return Declined(f"`{variable.name}` is added to between two uses")
    edit = insert_above(variable.module.syntax, first, f"{variable.name} = {convert.format(variable.name)}")
    return [edit] if edit is not None else Declined("the statement shares its line with another one")


def _outside(variable: Variable, convert: str, reads: list[ast.Name], *, in_place: bool) -> list[Edit] | Declined:
    """Convert after the loop, for all that reads the variable there."""
    module, loop = variable.module, variable.loop
    edits = list[Edit]()
    if reads_each(convert):
        reads = [node for node in reads if not counts(module.syntax.parents.get(node))]
        history = loop_of_history(module, loop, variable.initial() or [])
        near = [node for node in reads if history in module.syntax.ancestors(node)] if history is not loop else []
        few = partial_reads(module, near, convert)
        if few is None:
            return Declined(
                f"`{variable.name}` is read after each run of the loop with all that earlier ones have added"
            )
        below = None if fit(module, few) else numbers_below(module, loop, variable.name, convert, reads)
        if below is not None:
            return [below]
        reads, loop, edits = [node for node in reads if node not in near], history, few
    if all(is_converted(module, node, convert) for node in reads):
        return edits
    if loop.orelse:
        return Declined("the loop has an `else`")
    if any(is_handler_of(module, node, loop) for node in reads):
        return Declined(f"`{variable.name}` is read where an exception ends the loop")
    plain = not in_f_string(module, reads[0]) and isinstance(reads[0].ctx, ast.Load)
    in_place = in_place and not (is_of_list(convert) and loops_around(module, loop))
    if in_place and len(reads) == 1 and plain and not is_repeated(module, reads[0], loop):
        made = _converted(variable, {variable.statement(reads[0]): reads}, convert)
        return made if isinstance(made, Declined) else [*edits, *made]
    if any(is_after_handler_of(module, node, loop) for node in reads):
        return Declined(f"`{variable.name}` is read where an exception ends the loop")
    edit = insert_after(module, loop, f"{variable.name} = {convert.format(variable.name)}")
    return [*edits, edit] if edit is not None else Declined("the loop shares a line with another statement")


def additions(variable: Variable) -> Iterator[ast.AugAssign]:
    """Statements of the loop that add to the variable."""
    for node in walk(variable.loop):
        match node:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add() | ast.Sub()) if name == variable.name:
                yield node


def loops_around(module: ModuleIndex, node: ast.AST) -> list[ast.AST]:
    """The loops around a place, the loop itself not among them."""
    return [up for up in module.syntax.ancestors(node) if isinstance(up, LOOPS)]
