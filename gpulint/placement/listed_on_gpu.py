"""Lists of samples that the program moved to the GPU one by one, in the function that makes a loader of them or in one
that fills or returns the list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode

_COPIES = frozenset({"list", "tuple", "sorted", "deepcopy", "copy"})
_ADDS = frozenset({"append", "insert"})
MAX_STEPS = 30
"""Most expressions that are looked at to find out what one list holds."""


@dataclass(frozen=True, slots=True)
class _Fill:
    """Where a function stores what it moved to the GPU in a list."""

    function: FunctionNode | None
    name: str
    line: int


def lists_gpu_items(project: Project, source: NodeRef) -> bool:
    """Return whether a list may hold samples that were moved to a GPU: ``[graph.to(device) for graph in graphs]``,
    ``graphs[i] = graph.to(device)``, a list that a function of the tree returns after that."""
    todo, seen = [source], set[tuple[ast.AST, tuple[int, ...]]]()
    while todo and len(seen) < MAX_STEPS:
        one = todo.pop()
        if (one.node, one.path) in seen:
            continue
        seen.add((one.node, one.path))
        if not one.path and _is_filled(project, one):
            return True
        todo += _held(project, one)
    return False


def _is_filled(project: Project, value: NodeRef) -> bool:
    """Return whether a list is made of moved samples, or gets them above in the same function or in one that it is
    passed to there."""
    module, node = value.module, value.node
    match node:
        case ast.ListComp(elt=ast.Call() as made):
            move = project.fact(DeviceTransfers).transfer_at(module, made)
            return move is not None and move.to_gpu
        case ast.Name(id=name):
            function = module.function(node)
            if any(
                one.function is function and one.name == name and one.line < node.lineno
                for one in _fills(project, module)
            ):
                return True
            return any(_fills_argument(project, module, call, use) for call, use in _calls_above(module, node))
    return False


def _calls_above(module: ModuleIndex, name: ast.Name) -> Iterator[tuple[ast.Call, ast.Name]]:
    """Yield the calls above a use of a list that get it for what else they do: ``prepare(graphs, device)``."""
    function = module.function(name)
    for use in module.uses.get(name.id, ()):
        call = module.syntax.parents.get(use)
        if not isinstance(use, ast.Name) or use.lineno >= name.lineno or module.function(use) is not function:
            continue
        if isinstance(call, ast.Call) and isinstance(module.syntax.parents.get(call), ast.Expr):
            yield call, use


def _fills_argument(project: Project, module: ModuleIndex, call: ast.Call, given: ast.Name) -> bool:
    for called in project.fact(Resolver).callees(module, call):
        function = called.node
        if not isinstance(function, FUNCTIONS):
            continue
        filled = (one.name for one in _fills(project, called.module) if one.function is function)
        if any(argument_of(function, call, name) is given for name in filled):
            return True
    return False


def _held(project: Project, value: NodeRef) -> Iterator[NodeRef]:
    """Yield the expressions that a list comes from."""
    module, node, path = value.module, value.node, value.path
    match node:
        case ast.Name(id=name):
            for binding in reaching(module, module.scope(node).lookup(name), node):
                if binding.kind is BindingKind.ASSIGN and binding.value is not None:
                    yield NodeRef(module, binding.value, (*binding.path, *path))
                elif binding.kind is BindingKind.PARAMETER and isinstance(binding.scope.node, FUNCTIONS):
                    yield from _passed(project, module, binding.scope.node, name, path)
        case ast.Tuple(elts=elements) if path and path[0] < len(elements):
            yield NodeRef(module, elements[path[0]], path[1:])
        case ast.Subscript(value=whole, slice=ast.Slice()) if not path:
            yield NodeRef(module, whole)
        case ast.BinOp(left=left, op=ast.Add(), right=right) if not path:
            yield from (NodeRef(module, left), NodeRef(module, right))
        case ast.Call(func=func, args=[whole, *_]) if not path and last_name(func) in _COPIES:
            yield NodeRef(module, whole)
        case ast.Call():
            for called in project.fact(Resolver).callees(module, node):
                if isinstance(called.node, FUNCTIONS):
                    for returned in project.fact(Resolver).returns(called.node):
                        yield NodeRef(called.module, returned, path)


def _passed(
    project: Project, module: ModuleIndex, function: FunctionNode, name: str, path: tuple[int, ...]
) -> Iterator[NodeRef]:
    for site in project.fact(Resolver).first_sites(module, function):
        given = argument_of(function, site.node, name) if isinstance(site.node, ast.Call) else None
        if given is not None and not isinstance(given, ast.Starred):
            yield NodeRef(site.module, given, path)


@query
def _fills(project: Project, module: ModuleIndex) -> tuple[_Fill, ...]:
    """Return where the functions of a module put samples on the GPU into lists."""
    found = list[_Fill]()
    for move in project.fact(DeviceTransfers).transfers(module):
        if not move.to_gpu:
            continue
        function = module.function(move.node)
        found += (_Fill(function, name, move.node.lineno) for name in _lists_of(module, move.node, move.value))
    return tuple(found)


def _lists_of(module: ModuleIndex, move: ast.Call, value: ast.expr) -> Iterator[str]:
    """Yield the names of the lists whose items are what a call moved."""
    parent = module.syntax.parents.get(move)
    if (name := _stored_in(module, move)) is not None:
        yield name
    match parent:
        case ast.Expr():  # objects of PyTorch Geometric move in place
            yield from _lists_through(module, move, value)
        case ast.ListComp(elt=element) if element is move and (name := _stored_in(module, parent)) is not None:
            yield name
        case ast.Assign(targets=[ast.Name(id=moved)]):
            function = module.function(move)
            for use in module.uses.get(moved, ()):
                if module.function(use) is function and (name := _stored_in(module, use)) is not None:
                    yield name


def _stored_in(module: ModuleIndex, value: ast.AST) -> str | None:
    """Return the list that a statement puts a value into: ``graphs[i] = value``, ``graphs.append(value)``."""
    match module.syntax.parents.get(value):
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=stored) if stored is value:
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=adds), args=[*_, last]) if last is value:
            return name if adds in _ADDS else None
    return None


def _lists_through(module: ModuleIndex, move: ast.Call, value: ast.expr) -> Iterator[str]:
    """Yield the list whose items a loop goes through: ``for graph in graphs: graph.to(device)``."""
    if not isinstance(value, ast.Name):
        return
    for binding in reaching(module, module.scope(value).lookup(value.id), value):
        iterated = binding.value if binding.kind is BindingKind.LOOP else None
        if isinstance(iterated, ast.Call) and last_name(iterated.func) == "enumerate" and iterated.args:
            iterated = iterated.args[0]
        if isinstance(iterated, ast.Name):
            yield iterated.id
