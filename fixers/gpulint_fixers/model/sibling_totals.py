"""Totals of what the call that computes a loss returns beside it: they may keep the same graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.model.kept_graphs import carries_no_graph

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, ModuleIndex, NodeRef


@dataclass(frozen=True, slots=True)
class Beside:
    """The values that are added up as they are, and are part of the loss; and the name of one that may have a graph."""

    tensors: tuple[ast.expr, ...] = ()
    unknown: str = ""


def sibling_totals(project: Project, module: ModuleIndex, loss: ast.expr) -> Beside:
    """Return what a loop adds up besides a loss: ``loss, recon, kld = criterion(...)``, then ``total += recon``."""
    call, names = _made_with(module, loss)
    loop = next((up for up in module.syntax.ancestors(loss) if isinstance(up, LOOPS)), None)
    if call is None or loop is None or not isinstance(loss, ast.Name):
        return Beside()
    functions = project.fact(Resolver).callees(module, call)
    tensors, unknown = list[ast.expr](), ""
    for name, value in _totals(loop, {*names} - {loss.id}):
        if _made_with(module, value)[0] is not call:
            continue
        kinds = {_kind(project, one, names.index(loss.id), names.index(name), len(names)) for one in functions}
        kinds.discard("")
        if kinds == {"tensor"}:
            tensors.append(value)
        elif kinds - {"free"}:
            unknown = unknown or name
    return Beside(tuple(tensors), unknown)


def _made_with(module: ModuleIndex, value: ast.expr) -> tuple[ast.Call | None, list[str]]:
    """The call that sets a variable together with others, and their names in order."""
    bound = reaching(module, module.scope(value).lookup(value.id), value) if isinstance(value, ast.Name) else []
    for binding in bound:
        for up in (binding.node, *module.syntax.ancestors(binding.node)):
            match up:
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call() as call):
                    return call, [target.id if isinstance(target, ast.Name) else "" for target in targets]
                case ast.stmt():
                    break
    return None, []


def _totals(loop: ast.AST, names: set[str]) -> Iterator[tuple[str, ast.Name]]:
    """``total += name`` and ``values.append(name)`` in a loop."""
    for part in walk(loop):
        match part:
            case ast.AugAssign(op=ast.Add(), value=ast.Name(id=name) as value) if name in names:
                yield name, value
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[ast.Name(id=name) as value])) if (
                name in names
            ):
                yield name, value


def _kind(project: Project, function: NodeRef, loss: int, other: int, count: int) -> str:
    """Return whether a function's value beside the loss is ``free`` of graphs, a ``tensor`` that the loss is computed
    of, or ``unknown``; empty if the function returns something else."""
    node = function.node
    if not isinstance(node, FUNCTIONS) or isinstance(node, ast.Lambda):
        return ""
    kinds = set[str]()
    for value in project.fact(Resolver).returns(node):
        if not isinstance(value, ast.Tuple) or len(value.elts) != count:
            return ""
        part = value.elts[other]
        if carries_no_graph(project, function.module, node, part):
            kinds.add("free")
        else:
            kinds.add("tensor" if _is_term(node, value.elts[loss], part) else "unknown")
    return kinds.pop() if len(kinds) == 1 else "unknown" if kinds else ""


def _is_term(function: FunctionNode, loss: ast.expr, part: ast.expr) -> bool:
    """Return whether the loss is a sum with a value that a call computes: a float could not be told from a tensor."""
    whole, own = _value(function, loss), _value(function, part)
    if own is None or not any(isinstance(inner, ast.Call) for inner in walk(own)) or whole is None:
        return False
    texts = {ast.unparse(inner) for inner in walk(whole) if isinstance(inner, ast.expr)}
    return ast.unparse(part) in texts or ast.unparse(own) in texts


def _value(function: FunctionNode, value: ast.expr) -> ast.expr | None:
    """Return what a variable of a function is set to, if only once."""
    if not isinstance(value, ast.Name):
        return value
    found = [
        part.value
        for part in walk(function)
        if isinstance(part, ast.Assign) and any(isinstance(t, ast.Name) and t.id == value.id for t in part.targets)
    ]
    return found[0] if len(found) == 1 else None
