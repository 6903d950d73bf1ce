"""Numbers that reach nothing but the log of Lightning, by variables, tables and what functions return: Lightning takes
the tensors, and reads them when it writes its log."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait
from gpulint_rules.data.lightning_logs import is_handed_to_lightning

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.records import dataclass, field
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import COMPREHENSIONS, FunctionNode, ModuleIndex, last_name
from gpulint_fixers.waits.changed_tensors import is_changed
from gpulint_fixers.waits.device_reads import DeviceRead, reads_of
from gpulint_fixers.waits.returned_logs import HANDS_OVER
from gpulint_fixers.waits.returns.known_calls import known_sites
from gpulint_fixers.waits.returns.return_types import annotated

_WITHOUT_GRAPH = frozenset({"detach", "argmax", "argmin", "eq", "ne", "ge", "gt", "le", "lt"})
"""Methods whose result has no graph."""
_WORD = b"lightning"
_WHOLE = -1
"""The place of a value that is all that a function returns."""


def handed_to_log(project: Project, found: HostWait) -> Fix | None:
    """``acc = hits.mean().item()`` and ``self.log("acc", acc)``; None if something else gets one of the numbers."""
    reads = reads_of(project, found)
    if isinstance(reads, Declined) or not reads or not project.python_files_with(_WORD):
        return None
    flow = _Flow(project)
    if not all(flow.ends_in_log(found.module, read.whole) for read in reads) or not flow.logs:
        return None
    edits = [_as_tensor(found.module, read) for read in reads]
    for (module, function), places in flow.returned.items():
        types = annotated(module, function, places)
        if isinstance(types, Declined):
            return None
        edits += types
    return Fix(HANDS_OVER, Safety.UNSAFE, tuple(dict.fromkeys(edits)))


def _as_tensor(module: ModuleIndex, read: DeviceRead) -> Edit:
    """The edit that leaves the tensor, without parentheses that only its method needed."""
    suffix, text = _suffix(module, read.tensor), module.syntax.text(read.tensor)
    within = isinstance(module.syntax.parents.get(read.whole), ast.BinOp)
    if suffix or within or not isinstance(read.tensor, ast.BinOp) or "\n" in text or read.copies:
        return read.replaced(module, suffix)
    return Edit(module.path, module.syntax.span(read.whole), text)


def _suffix(module: ModuleIndex, tensor: ast.expr) -> str:
    """Return what follows the tensor: nothing where it has no graph, and a copy where the tensor itself may change."""
    if not _has_graph(tensor):
        return ""
    return (
        ".detach()" if not isinstance(tensor, ast.Name) or not is_changed(module, tensor, ()) else ".detach().clone()"
    )


def _has_graph(tensor: ast.expr) -> bool:
    """Return whether a tensor may have a graph, by how it is computed: ``(guess == y).float().mean()`` has none."""
    match tensor:
        case ast.Compare() | ast.Constant():
            return False
        case ast.BinOp(left=left, right=right):
            return _has_graph(left) or _has_graph(right)
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=args):
            return name not in _WITHOUT_GRAPH and (_has_graph(inner) or any(map(_has_graph, args)))
    return True


@dataclass(slots=True)
class _Flow:
    """Where the number goes."""

    project: Project
    seen: set[ast.AST] = field(default_factory=set)
    logs: list[ast.AST] = field(default_factory=list)
    """The values that calls of the log get."""
    returned: dict[tuple[ModuleIndex, FunctionNode], list[int]] = field(default_factory=dict)
    """The functions that return it, and at which places."""

    def ends_in_log(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether all that gets the value of an expression, or a table with it, is the log."""
        if node in self.seen:
            return True
        self.seen.add(node)
        match up := module.syntax.parents.get(node):
            case ast.keyword(arg="value" | "dictionary"):
                return self._is_logged(module, node, module.syntax.parents.get(up))
            case ast.Call(args=[_, value, *_], func=ast.Attribute(attr="log")) if value is node:
                return self._is_logged(module, node, up)
            case ast.Call(args=[value, *_], func=ast.Attribute(attr="log_dict")) if value is node:
                return self._is_logged(module, node, up)
            case ast.Call(args=[value], func=ast.Attribute(attr="update", value=ast.Name() as table)) if value is node:
                return self._is_kept(module, table)
            case ast.Call(args=values) if node in values:
                return self._is_passed(module, up, values.index(node))
            case ast.Dict(values=values):
                return node in values and self.ends_in_log(module, up)
            case ast.IfExp(body=body, orelse=other):
                return node in (body, other) and self.ends_in_log(module, up)
            case ast.DictComp(value=value) if value is node:
                return self.ends_in_log(module, up)
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
                other = right if left is node else left
                return isinstance(other, ast.Constant) and self.ends_in_log(module, up)
            case ast.Subscript(value=table, slice=ast.Constant(value=str()) | ast.JoinedStr(), ctx=ast.Load()):
                return table is node and self.ends_in_log(module, up)
            case ast.Attribute(attr="items"):
                return self._is_gone_through(module, up)
            case ast.Assign(targets=[target], value=value) if value is node:
                return self._is_assigned(module, up, target)
            case ast.Tuple() if isinstance(module.syntax.parents.get(up), ast.Return):
                return self._is_returned(module, up, up.elts.index(node))
            case ast.Return():
                return self._is_returned(module, up, _WHOLE)
        return False

    def _is_logged(self, module: ModuleIndex, node: ast.expr, call: ast.AST | None) -> bool:
        """``self.log("acc", acc)``"""
        self.logs.append(node)
        logs = isinstance(call, ast.Call) and last_name(call.func) in ("log", "log_dict")
        return logs and is_handed_to_lightning(module, node)

    def _is_assigned(self, module: ModuleIndex, statement: ast.Assign, target: ast.expr) -> bool:
        match target:
            case ast.Name(id=name):
                return self._is_read(module, name, target, statement)
            case ast.Subscript(value=ast.Name() as table, slice=ast.Constant(value=str()) | ast.JoinedStr()):
                return self._is_kept(module, table)
        return False

    def _is_read(self, module: ModuleIndex, name: str, within: ast.AST, made: ast.AST) -> bool:
        """Return whether all uses of a variable that see the value which ``made`` gives it end in the log."""
        bindings = module.scope(within).lookup(name)
        for node in module.named.get(name, []):
            if node is within or module.scope(node).lookup(name) is not bindings:
                continue
            changes = isinstance(node.ctx, ast.Del) or isinstance(module.syntax.parents.get(node), ast.AugAssign)
            if isinstance(node.ctx, ast.Store) and not changes:
                continue
            if not any(one.node in (made, within) for one in reaching(module, bindings, node)):
                continue
            up = module.syntax.parents.get(node)
            if isinstance(up, ast.Subscript) and isinstance(up.ctx, ast.Store) and up.value is node:
                continue  # another entry of a table
            if changes or not self.ends_in_log(module, node):
                return False
        return True

    def _is_kept(self, module: ModuleIndex, table: ast.Name) -> bool:
        """Return whether a table of the function, to which the value is added, only ends in the log."""
        bound = reaching(module, module.scope(table).lookup(table.id), table)
        return bool(bound) and all(
            isinstance(one.node, ast.Assign)
            and isinstance(one.value, ast.Dict | ast.DictComp)
            and not one.path
            and isinstance(target := one.node.targets[0], ast.Name)
            and self._is_read(module, target.id, target, one.node)
            for one in bound
        )

    def _is_gone_through(self, module: ModuleIndex, items: ast.Attribute) -> bool:
        """``for name, value in table.items()``, also in a comprehension."""
        call = module.syntax.parents.get(items)
        match loop := module.syntax.parents.get(call) if isinstance(call, ast.Call) else None:
            case ast.For(target=ast.Tuple(elts=[ast.Name(), ast.Name() as value]), iter=source) if source is call:
                region: ast.AST = loop
            case ast.comprehension(target=ast.Tuple(elts=[ast.Name(), ast.Name() as value]), ifs=[]):
                region = next(up for up in module.syntax.ancestors(items) if isinstance(up, COMPREHENSIONS))
            case _:
                return False
        uses = [part for part in walk(region) if isinstance(part, ast.Name) and part.id == value.id]
        loads = [part for part in uses if isinstance(part.ctx, ast.Load)]
        return len(uses) == len(loads) + 1 and all(self.ends_in_log(module, part) for part in loads)

    def _is_passed(self, module: ModuleIndex, call: ast.Call, at: int) -> bool:
        """Return whether the function that gets the value as an argument only logs it: ``self.record(acc)``."""
        callees = self.project.fact(Resolver).callees(module, call)
        if len(callees) != 1 or any(isinstance(one, ast.Starred) for one in call.args):
            return False
        where, function = callees[0].module, callees[0].node
        if not isinstance(function, ast.FunctionDef) or function.decorator_list:
            return False
        names = [*function.args.posonlyargs, *function.args.args]
        if where.class_of(function) is not None:
            if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != "self":
                return False
            at += 1
        return at < len(names) and self._is_read(where, names[at].arg, function.body[0], names[at])

    def _is_returned(self, module: ModuleIndex, node: ast.AST, place: int) -> bool:
        """Return whether all calls of the function around a ``return`` only log the value."""
        function = module.function(node)
        if function is None or isinstance(function, ast.Lambda):
            return False
        sites = known_sites(self.project, module, function)
        self.returned.setdefault((module, function), []).append(place)
        return bool(sites) and all(
            isinstance(one.node, ast.Call) and self._is_taken(one.module, one.node, place) for one in sites or ()
        )

    def _is_taken(self, module: ModuleIndex, call: ast.Call, place: int) -> bool:
        up = module.syntax.parents.get(call)
        if place == _WHOLE or isinstance(up, ast.Expr):
            return isinstance(up, ast.Expr) or self.ends_in_log(module, call)
        match up:
            case ast.Assign(targets=[ast.Tuple(elts=parts)]) if place < len(parts):
                part = parts[place]
                starred = any(isinstance(one, ast.Starred) for one in parts)
                return isinstance(part, ast.Name) and not starred and self._is_read(module, part.id, part, up)
            case ast.Return():
                return self._is_returned(module, up, place)
        return False
