"""Tables of numbers that a function reads from the GPU and returns: ``return loss, {"kl": kl.item()}``. The function
returns tensors, and the table is converted where the training loop logs it and below all other calls."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait, check

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import LOOPS, FunctionNode, LoopNode, ModuleIndex, NodeRef, last_name
from gpulint_fixers.deferred_reads import Variable, defer
from gpulint_fixers.device_reads import DeviceRead, device_read, is_integer, reads_of
from gpulint_fixers.log_intervals import logged_seldom
from gpulint_fixers.return_types import promises_numbers
from gpulint_fixers.statements import insert_above, insert_below
from gpulint_fixers.taken_values import taken

_NO = Declined("the value is read in a function that the loop calls; return the tensor and read it less often")
_MOST_SITES = 6


@dataclass(frozen=True, slots=True)
class _Table:
    """What a function returns that holds numbers it has read."""

    reads: tuple[DeviceRead, ...]
    at: int
    """Where in the returned tuple it is; -1: it is all that is returned."""
    is_dict: bool
    is_mixed: bool
    """Whether it holds numbers of the host as well."""
    name: str = ""
    """The function's own variable that holds it, if it is one."""

    def convert(self, name: str) -> str:
        """A line that makes numbers of the table's tensors."""
        return f"{name} = {self.inline.format(name)}"

    @property
    def inline(self) -> str:
        """The expression for it, with a place for the table's name."""
        if not self.is_dict:
            return "tuple(map(float, {}))"
        value = "float(value) if torch.is_tensor(value) else value" if self.is_mixed else "float(value)"
        return f"{{{{key: {value} for key, value in {{}}.items()}}}}"


def returned_table(project: Project, found: HostWait, statement: ast.stmt) -> Fix | Declined:
    """Let the function return tensors in a table, and read them where the table is used."""
    module, function = found.module, found.module.function(statement)
    if function is None or isinstance(function, ast.Lambda):
        return _NO
    table = _table(project, module, function, reads_of(found))
    sites = sites_of(project, found, function) if table is not None else None
    if table is None or sites is None:
        return _NO
    if promises_numbers(function):
        return Declined("the function's docstring says that it returns numbers")
    loop = found.context.loop.node
    if table.is_mixed and not all("torch" in site.module.top.bindings for site in sites):
        return _NO
    edits = [read.replaced(module, ".detach()") for read in table.reads]
    edits += _annotated(module, function, table)
    for site in sites:
        inside = site.node is found.context.calls[0].node and isinstance(loop, LOOPS)
        made = _used(project, site, table, loop if inside and isinstance(loop, LOOPS) else None)
        if isinstance(made, Declined):
            return made
        edits += made
    return Fix(
        f"let `{function.name}` return tensors, and read them where they are logged",
        Safety.UNSAFE,
        tuple(dict.fromkeys(edits)),
    )


def _annotated(module: ModuleIndex, function: ast.FunctionDef | ast.AsyncFunctionDef, table: _Table) -> list[Edit]:
    """``dict[str, torch.Tensor]`` in the function's annotation, where it says ``dict[str, float]``."""
    if "torch" not in module.top.bindings:
        return []
    shown = [function.returns] if function.returns is not None else []
    own = (part for part in walk(function) if isinstance(part, ast.AnnAssign) and isinstance(part.value, ast.Dict))
    shown += [part.annotation for part in own if ast.unparse(part.target) == table.name]
    name = "torch.Tensor | float" if table.is_mixed else "torch.Tensor"
    return [
        Edit(module.path, module.syntax.span(value), name)
        for annotation in shown
        for part in walk(annotation)
        if isinstance(part, ast.Subscript)
        and last_name(part.value).lower() == "dict"
        and isinstance(part.slice, ast.Tuple)
        for value in part.slice.elts[1:]
        if isinstance(value, ast.Name) and value.id == "float"
    ]


def sites_of(project: Project, found: HostWait, function: FunctionNode) -> tuple[NodeRef, ...] | None:
    """All calls of the function, one of them in the body of a training loop; None if some are unknown."""
    context = found.context
    if len(context.calls) != 1 or context.role is not Role.STEP or not isinstance(context.loop.node, LOOPS):
        return None
    resolver, first = project.fact(Resolver), context.calls[0]
    sites = resolver.call_sites(found.module, function)
    if not 0 < len(sites) <= _MOST_SITES or first.node not in [site.node for site in sites]:
        return None
    if first.module is not context.loop.module or context.loop.node not in first.module.syntax.ancestors(first.node):
        return None
    for site in sites:
        if not isinstance(site.node, ast.Call):
            return None
        if [callee.node for callee in resolver.callees(site.module, site.node)] != [function]:
            return None
    return sites


def _table(
    project: Project, module: ModuleIndex, function: FunctionNode, reads: list[DeviceRead] | Declined
) -> _Table | None:
    """The table that the function returns, all of whose values are numbers that it reads."""
    returns = [
        node for node in ast.walk(function) if isinstance(node, ast.Return) and module.function(node) is function
    ]
    if isinstance(reads, Declined) or len(returns) != 1 or (value := returns[0].value) is None:
        return None
    for at, part in enumerate(value.elts) if isinstance(value, ast.Tuple) else ((-1, value),):
        shown, more = part, list[ast.expr]()
        if isinstance(part, ast.Name):
            made = _built(module, function, part)
            if made is None:
                continue
            shown, more = made
        held = _values(project, module, shown, more)
        if held is not None and {read.whole for read in reads} <= {read.whole for read in held[0]}:
            own = part.id if isinstance(part, ast.Name) else ""
            return _Table(tuple(held[0]), at, isinstance(shown, ast.Dict), held[1], own)
    return None


def _built(module: ModuleIndex, function: FunctionNode, name: ast.Name) -> tuple[ast.expr, list[ast.expr]] | None:
    """Return how a table starts, and the values that are stored in it under constant keys; None if more is done."""
    start, stored = None, list[ast.expr]()
    bindings = module.scope(name).lookup(name.id)
    for node in module.named.get(name.id, []):
        if node is name or module.scope(node).lookup(name.id) is not bindings:
            continue
        up = module.syntax.parents.get(node)
        match up, module.syntax.parents.get(up) if up is not None else None:
            case (
                (
                    ast.Assign(targets=[ast.Name()], value=ast.Dict() | ast.Tuple() as value)
                    | ast.AnnAssign(value=ast.Dict() as value)
                ),
                _,
            ) if start is None:
                start = value
            case ast.Subscript(ctx=ast.Store()), ast.Assign(targets=[_], value=value) if isinstance(start, ast.Dict):
                stored.append(value)
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[asked]), _ if asked is node:
                pass
            case _:
                return None
    return (start, stored) if start is not None and module.function(start) is function else None


@query
def _reported(project: Project, module: ModuleIndex) -> frozenset[ast.AST]:
    """Values that are known to be on the GPU, as the rule reports them for a module."""
    document = project.document(module.path)
    assert document is not None
    payloads = (finding.payload for finding in check(document, project))
    return frozenset(sync.node for found in payloads if isinstance(found, HostWait) for sync in found.syncs)


def _values(
    project: Project, module: ModuleIndex, shown: ast.expr, more: list[ast.expr]
) -> tuple[list[DeviceRead], bool] | None:
    """The reads of a table, and whether it holds numbers of the host as well; None if it holds anything else."""
    if not isinstance(shown, ast.Dict | ast.Tuple):
        return None
    given: list[ast.expr] = [*(shown.values if isinstance(shown, ast.Dict) else shown.elts), *more]
    if isinstance(shown, ast.Dict) and not all(isinstance(key, ast.Constant) for key in shown.keys):
        return None
    found, mixed = list[DeviceRead](), False
    for value in given:
        for part in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            if (read := _read(project, module, part)) is not None:
                found.append(read)
            elif isinstance(shown, ast.Dict) and _is_host_number(module, part):
                mixed = True
            else:
                return None
    return (found, mixed) if found else None


def _is_host_number(module: ModuleIndex, value: ast.expr, depth: int = 0) -> bool:
    """``0.0``, ``float(weight)``, ``len(batch)``, or a variable that is one of these."""
    match value:
        case ast.Constant(value=int() | float()):
            return True
        case ast.Call(func=ast.Name(id="len" | "round")):
            return True
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
            return _is_host_number(module, inner, depth) or isinstance(inner, ast.Subscript)
        case ast.BinOp(left=left, right=right):
            return _is_host_number(module, left, depth) and _is_host_number(module, right, depth)
        case ast.Name(id=name) if depth < _MOST_SITES:
            bound = reaching(module, module.scope(value).lookup(name), value)
            return bool(bound) and all(
                one.value is not None and not one.path and _is_host_number(module, one.value, depth + 1)
                for one in bound
            )
    return False


def _read(project: Project, module: ModuleIndex, value: ast.expr) -> DeviceRead | None:
    """The read of one number on the GPU that is no count, and nothing more."""
    if not isinstance(value, ast.Call) or _reported(project, module).isdisjoint(walk(value)):
        return None
    read = device_read(module, _innermost(value))
    return read if read is not None and read.whole is value and not is_integer(module, read.tensor) else None


def _innermost(value: ast.Call) -> ast.expr:
    """``loss.item()`` of ``float(loss.item())``."""
    match value:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Call(func=ast.Attribute()) as inner]):
            return inner
    return value


def _used(project: Project, site: NodeRef, table: _Table, loop: LoopNode | None) -> tuple[Edit, ...] | Declined:
    """Edits below one call, or where the loop uses what it gets."""
    module = site.module
    statement = module.syntax.parents.get(site.node)
    if isinstance(statement, ast.Expr):
        return ()
    name = _name(statement, table)
    if name is None or not isinstance(statement, ast.Assign):
        return _NO
    if name == "_":
        return ()
    document = project.document(module.path)
    assert document is not None
    if loop is not None:
        return _in_loop(project, Variable(module, document, loop, name), statement, table)
    edit = insert_below(module.syntax, statement, table.convert(name))
    return (edit,) if edit is not None else _NO


def _in_loop(project: Project, variable: Variable, statement: ast.Assign, table: _Table) -> tuple[Edit, ...] | Declined:
    """Sums and lists of single values, sums of all of them, and a conversion above what logs the table now and then."""
    module, name = variable.module, variable.name
    nodes = variable.occurrences()
    if nodes is None or sum(isinstance(node.ctx, ast.Store) for node in nodes) != 1:
        return Declined(f"`{name}` is set elsewhere as well")
    if not all(variable.is_inside(node) for node in nodes):
        return Declined(f"`{name}` is used after the loop")
    edits, own, logged = list[Edit](), set[ast.stmt]({statement}), dict[tuple[ast.AST, str], ast.stmt]()
    last = 0
    for node in nodes:
        use, entry = variable.statement(node), module.syntax.parents.get(node)
        if use is statement:
            continue
        if logged_seldom(project, module, node) and (place := module.syntax.place(use)) is not None:
            block = (module.syntax.parents[use], place[0])
            logged[block] = min(logged.get(block, use), use, key=lambda one: one.lineno)
            own.add(use)
        elif isinstance(entry, ast.Subscript) and isinstance(entry.slice, ast.Constant):
            made = taken(project, module, variable.loop, use, entry, integers=False)
            if not isinstance(made, Declined):
                edits += made
                own.add(use)
                last = max(last, use.lineno)
    if any(first.lineno < last for first in logged.values()):
        return Declined(f"`{name}` is logged before it is added up")
    for first in logged.values():
        above = insert_above(module.syntax, first, table.convert(name))
        if above is None:
            return Declined("the statement shares its line with another one")
        edits.append(above)
    rest = defer(project, variable, table.inline, own=own)
    return rest if isinstance(rest, Declined) else (*edits, *rest.edits)


def _name(statement: ast.AST | None, table: _Table) -> str | None:
    """The variable that gets the table from a call."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if table.at < 0:
            return name
        case ast.Assign(targets=[ast.Tuple(elts=parts)]) if 0 <= table.at < len(parts):
            part = parts[table.at]
            starred = any(isinstance(one, ast.Starred) for one in parts)
            return part.id if isinstance(part, ast.Name) and not starred else None
    return None
