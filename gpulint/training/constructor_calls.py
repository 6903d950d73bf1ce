"""Which calls made the object whose method a chain of calls reaches, and what its constructor was given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.argument_binding import RECEIVERS
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

Chain = tuple[NodeRef, ...]
"""The call that makes an object and, where its class has a constructor of its own, that of ``super().__init__``."""

MAX_CALLS = 12
"""Most calls of a constructor that are compared."""
MAX_WRAPPERS = 3
"""Most wrappers around a model (``DataParallel``) that are looked into."""


def receiver(site: NodeRef, method: FunctionNode) -> ast.expr | None:
    """The object of a call that reaches a method: ``self.net`` of ``self.net(x)`` and ``self.net.step(x)``."""
    func = site.node.func if isinstance(site.node, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == method.name:
        return func.value
    return func if method.name in ("forward", "__call__") else None


def is_own(node: ast.expr) -> bool:
    """Return whether a receiver is the object itself (``self``)."""
    return isinstance(node, ast.Name) and node.id in RECEIVERS


def constructor_calls(project: Project, init: NodeRef, place: NodeRef, calls: tuple[NodeRef, ...]) -> tuple[Chain, ...]:
    """The calls of a constructor that may have made the object whose method ``place`` stands in, where ``calls`` led to
    it: the last one if it makes an object, else those that its receiver comes from, or all of the tree. None if one of
    them is not seen."""
    constructor, method = init.node, _function(place.module, place.node)
    assert isinstance(constructor, FUNCTIONS)
    for number in range(len(calls), 0, -1):
        site = calls[number - 1]
        if (made := _made_by(project, site, constructor)) is not None:
            return made
        base = receiver(site, method) if method is not None else None
        if base is None:
            break
        if not is_own(base):
            return makers(project, site.module, base, constructor) or _all_calls(project, init.module, constructor)
        method = _function(site.module, site.node)
    return _all_calls(project, init.module, constructor)


def _made_by(project: Project, site: NodeRef, constructor: FunctionNode) -> tuple[Chain, ...] | None:
    """The call itself, if it makes an object with that constructor."""
    resolver = project.fact(Resolver)
    if not isinstance(site.node, ast.Call):
        return None
    found = [
        chain
        for ref in resolver.points_to(site.module, site.node.func)
        if isinstance(ref.node, ast.ClassDef)
        for chain in _reaching(project, ref.module, ref.node, constructor, site)
    ]
    return tuple(found) or None


def makers(
    project: Project, module: ModuleIndex, base: ast.expr, constructor: FunctionNode, depth: int = MAX_WRAPPERS
) -> tuple[Chain, ...]:
    """The calls that reach a constructor when what ``base`` may be is made; none if one is not seen."""
    resolver = project.fact(Resolver)
    found = list[Chain]()
    for ref in resolver.points_to(module, base):
        if not isinstance(ref.node, ast.Call) or ref.path:
            return ()
        where, made = resolver.unwrapped(ref)
        if made is not ref.node:
            if depth and made is not base:
                found += makers(project, where, made, constructor, depth - 1)
            continue
        reached = [
            _reaching(project, home, owner, constructor, ref) for home, owner in resolver.classes_of(where, made)
        ]
        if not reached or not all(reached):
            return ()
        found += (chain for chains in reached for chain in chains)
    return tuple(dict.fromkeys(found)) if len(found) <= MAX_CALLS else ()


def _function(module: ModuleIndex, node: ast.AST) -> FunctionNode | None:
    """The method around a place, also around functions inside of it."""
    functions = [up for up in module.syntax.ancestors(node) if isinstance(up, FUNCTIONS)]
    return functions[-1] if functions else None


def _reaching(
    project: Project, module: ModuleIndex, owner: ast.ClassDef, constructor: FunctionNode, made: NodeRef
) -> list[Chain]:
    """The call that makes an instance of a class, or that of ``super().__init__`` where the class has its own
    constructor."""
    init = project.fact(Resolver).method(module, owner, "__init__")
    if init is None or init.node is constructor:
        return [(made,)] if init is not None else []
    inside = init.module.calls_of(init.node) if isinstance(init.node, FUNCTIONS) else ()
    callees = project.fact(Resolver).callees
    return [
        (made, NodeRef(init.module, call))
        for call in inside
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "__init__"
        and any(one.node is constructor for one in callees(init.module, call))
    ]


def _all_calls(project: Project, module: ModuleIndex, constructor: FunctionNode) -> tuple[Chain, ...]:
    owner = module.syntax.parents.get(constructor)
    if not isinstance(owner, ast.ClassDef):
        return ()
    found = project.fact(Resolver).call_sites(module, constructor)
    return tuple((call,) for call in found) if len(found) <= MAX_CALLS else ()
