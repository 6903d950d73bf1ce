"""Numbers that a function reads from the GPU only to return them to the training loop: the function returns the
tensors, and the loop reads them where it needs numbers."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait
from gpulint_rules.data.unread_totals import unread_total

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import LOOPS, BindingKind, FunctionNode, LoopNode, ModuleIndex, NodeRef
from gpulint_fixers.edits.statements import insert_below
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.changed_tensors import is_changed
from gpulint_fixers.waits.clocks import measures_steps
from gpulint_fixers.waits.deferred_reads import Variable, defer
from gpulint_fixers.waits.device_reads import DeviceRead, reads_of, uses_other_library
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.fix_kinds import READ_ELSEWHERE
from gpulint_fixers.waits.returns.promised_numbers import promises_number
from gpulint_fixers.waits.returns.return_types import annotated
from gpulint_fixers.waits.returns.returned_copies import returned_copies
from gpulint_fixers.waits.returns.returned_means import mean_of_list
from gpulint_fixers.waits.returns.returned_tables import returned_table, sites_of, training_loop
from gpulint_fixers.waits.returns.taken_values import taken


@dataclass(frozen=True, slots=True)
class _Returned:
    """A read of a function, and where in the tuple that the function returns it is (-1: it is all that it returns)."""

    read: DeviceRead
    at: int
    edits: tuple[Edit, ...] = ()
    """What the function computes otherwise, of tensors."""


@dataclass(frozen=True, slots=True)
class _Site:
    """The call of a function in the loop."""

    project: Project
    module: ModuleIndex
    loop: LoopNode
    call: ast.Call

    def variable(self, name: str) -> Variable:
        document = self.project.document(self.module.path)
        assert document is not None
        return Variable(self.module, document, self.loop, name)

    def statement(self) -> ast.AST | None:
        return self.module.syntax.parents.get(self.call)


def returned(project: Project, found: HostWait, statement: ast.stmt) -> Fix | Declined:
    """``return loss.item()``, or ``value = loss.item()`` and ``return value, count``."""
    made = _returned(project, found, statement)
    if made == READ_ELSEWHERE and (name := unread_total(found.module, found.syncs[0].node)):
        return Declined(f"nothing reads `{name}`, which may be a mistake: remove it by hand, or use it")
    return made


def _returned(project: Project, found: HostWait, statement: ast.stmt) -> Fix | Declined:
    if any(sync.kind in (SyncKind.TEST, SyncKind.SELECT) for sync in found.syncs):
        return Declined("the value decides what the program does next")
    if predates_device_argument(found.module) or uses_other_library(found.module):
        return READ_ELSEWHERE
    loop = found.context.loop.node
    if isinstance(loop, LOOPS) and measures_steps(project, found.context.loop.module, loop):
        return Declined("the loop measures time, for which it has to wait")
    if (copies := returned_copies(project, found, statement)) is not None:
        return copies
    function, table = found.module.function(statement), returned_table(project, found, statement)
    if isinstance(table, Fix) or function is None or isinstance(function, ast.Lambda):
        return table
    if promises_number(function):
        return Declined(f"`{function.name}` says that it returns a number; read it less often where it is called")
    sites = sites_of(project, found, function)
    loops = _in_loops(project, sites) if sites is not None else None
    if sites is None or loops is None:
        return table
    reads = reads_of(project, found)
    if isinstance(reads, Declined):
        return READ_ELSEWHERE
    given = [_given(found.module, function, statement, read) for read in reads]
    edits = list[Edit]()
    for one in given:
        if one is None:
            return READ_ELSEWHERE
        edits += (one.read.replaced(found.module, _suffix(found.module, one.read, sites)), *one.edits)
        for site in loops:
            made = _used(site, found.module, one)
            if isinstance(made, Declined):
                return made
            edits += made
    for other in sites:
        is_used = any(other.node is site.call for site in loops)
        made = _at_once(other, found.module, [one for one in given if one]) if not is_used else ()
        if isinstance(made, Declined):
            return made
        edits += made
    shown = annotated(found.module, function, [one.at for one in given if one])
    if isinstance(shown, Declined):
        return shown
    edits += shown
    what = "a tensor" if len(reads) == 1 else "tensors"
    return Fix(
        f"let `{function.name}` return {what}, and read the numbers where the loop uses them",
        Safety.UNSAFE,
        tuple(dict.fromkeys(edits)),
    )


def _in_loops(project: Project, sites: tuple[NodeRef, ...]) -> list[_Site] | None:
    """The calls of the function in bodies of training loops; None if a function that such a loop calls has one."""
    found = list[_Site]()
    for site in sites:
        loop = training_loop(project, site)
        if loop is not None and isinstance(site.node, ast.Call):
            found.append(_Site(project, site.module, loop, site.node))
        elif project.fact(LoopContexts).in_role(site.module, site.node, Role.STEP) is not None:
            return None
    return found or None


def _at_once(site: NodeRef, callee: ModuleIndex, given: list[_Returned]) -> tuple[Edit, ...] | Declined:
    """Conversions of what another call returns, such as that for validation: ``float(step(batch))``."""
    module, statement = site.module, site.module.syntax.parents.get(site.node)
    assert isinstance(site.node, ast.Call)
    if isinstance(statement, ast.Expr):
        return ()
    lines = list[str]()
    for one in given:
        convert = "int" if is_integer(callee, one.read.tensor) else "float"
        if one.at < 0:
            start, end = module.syntax.offsets(site.node)
            before = Edit(module.path, module.syntax.span_at(start, start), f"{convert}(")
            return before, Edit(module.path, module.syntax.span_at(end, end), ")")
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=parts)]) if one.at < len(parts):
                part = parts[one.at]
                if not isinstance(part, ast.Name) or any(isinstance(other, ast.Starred) for other in parts):
                    return READ_ELSEWHERE
                if part.id != "_":
                    lines.append(f"{part.id} = {convert}({part.id})")
            case _:
                return READ_ELSEWHERE
    if not lines or not isinstance(statement, ast.stmt):
        return ()
    edit = insert_below(module.syntax, statement, "\n".join(lines))
    return (edit,) if edit is not None else READ_ELSEWHERE


def _given(module: ModuleIndex, function: FunctionNode, statement: ast.stmt, read: DeviceRead) -> _Returned | None:
    """Return where a read is in what the function returns; None if it is used otherwise too."""
    returns = [
        node for node in ast.walk(function) if isinstance(node, ast.Return) and module.function(node) is function
    ]
    if len(returns) != 1 or (value := returns[0].value) is None:
        return None
    place: ast.expr | None = read.whole
    more: tuple[Edit, ...] = ()
    if (mean := mean_of_list(module, function, statement, read)) is not None:
        place, more = mean[0], mean[1:]
    elif isinstance(statement, ast.Assign):
        place = _only_use(module, statement) if _is_scaled(statement.value, read.whole) else None
    elif not isinstance(statement, ast.Return):
        return None
    if value is place:
        return _Returned(read, -1, more)
    if isinstance(value, ast.Tuple) and place in value.elts:
        return _Returned(read, value.elts.index(place), more)
    return None


def _only_use(module: ModuleIndex, statement: ast.Assign) -> ast.Name | None:
    """The use of the variable that an assignment sets, if there is one alone."""
    match statement.targets:
        case [ast.Name(id=name)]:
            bindings = module.scope(statement).bindings.get(name, [])
            loads = [node for node in module.named.get(name, []) if isinstance(node.ctx, ast.Load)]
            uses = [
                node
                for node in loads
                if module.scope(node).lookup(name) is bindings
                and any(one.node in (statement, statement.targets[0]) for one in reaching(module, bindings, node))
            ]
            return uses[0] if len(uses) == 1 else None
    return None


def _is_scaled(value: ast.expr, whole: ast.expr) -> bool:
    """``loss.item()``, ``float(total) ** 0.5``."""
    match value:
        case ast.BinOp(left=left, op=ast.Pow() | ast.Div() | ast.Mult(), right=right):
            return left is whole and not any(isinstance(part, ast.Call | ast.Name) for part in walk(right))
    return value is whole


def _suffix(module: ModuleIndex, read: DeviceRead, sites: tuple[NodeRef, ...]) -> str:
    """Return what follows the tensor: nothing where it has no gradient anyway, as a number to which tensors were
    added, and a copy where the tensor itself changes later."""
    if is_integer(module, read.tensor):
        return ""
    values = module.scope(read.whole).lookup(read.tensor.id) if isinstance(read.tensor, ast.Name) else ()
    starts = any(isinstance(binding.value, ast.Constant) for binding in values)
    if starts and any(binding.kind is BindingKind.AUGMENT for binding in values):
        return ""
    is_new = isinstance(module.syntax.parents.get(read.whole), ast.BinOp)
    return ".detach()" if is_new or not is_changed(module, read.tensor, sites) else ".detach().clone()"


def _used(site: _Site, callee: ModuleIndex, one: _Returned) -> tuple[Edit, ...] | Declined:
    """Edits of the loop, after which it may get a tensor from the function."""
    parent = site.statement()
    if one.at < 0 and isinstance(parent, ast.AugAssign | ast.Call):
        statement = parent if isinstance(parent, ast.stmt) else site.module.syntax.parents.get(parent)
        return _taken(site, callee, one, statement, site.call)
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return READ_ELSEWHERE
    target: ast.expr = parent.targets[0]
    if one.at >= 0:
        if not isinstance(target, ast.Tuple) or any(isinstance(part, ast.Starred) for part in target.elts):
            return READ_ELSEWHERE
        target = target.elts[one.at]
    if not isinstance(target, ast.Name):
        return READ_ELSEWHERE
    return () if target.id == "_" else _held(site, callee, one, parent, target.id)


def _held(site: _Site, callee: ModuleIndex, one: _Returned, parent: ast.stmt, name: str) -> tuple[Edit, ...] | Declined:
    """The uses of the variable that gets the value: what it is added or appended to, and all else as a number."""
    variable = site.variable(name)
    nodes = variable.occurrences()
    if nodes is None:
        return Declined(f"other functions use `{name}` as well")
    if sum(isinstance(node.ctx, ast.Store) for node in nodes) != 1:
        return Declined(f"`{name}` is set elsewhere as well")
    edits, own = list[Edit](), {parent}
    for node in nodes:
        statement = variable.statement(node)
        if statement is parent or not variable.is_inside(node):
            continue
        made = _taken(site, callee, one, statement, node)
        if not isinstance(made, Declined):
            edits += made
            own.add(statement)
    convert = "int({})" if is_integer(callee, one.read.tensor) else "float({})"
    read = defer(site.project, variable, convert, own=own)
    return read if isinstance(read, Declined) else (*edits, *read.edits)


def _taken(
    site: _Site, callee: ModuleIndex, one: _Returned, statement: ast.AST | None, value: ast.expr
) -> tuple[Edit, ...] | Declined:
    """``total += value`` and ``values.append(value)``, where ``value`` may be a tensor from now on."""
    integers = is_integer(callee, one.read.tensor)
    return taken(site.project, site.module, site.loop, statement, value, integers=integers)
