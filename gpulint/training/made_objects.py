"""Which of several objects a constructor keeps under one name, by what the constructor is given on the way to a use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.training.call_values import is_kept_out
from gpulint.training.constructor_calls import constructor_calls, is_own, makers, receiver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project


def is_other_object(project: Project, method: FunctionNode, site: NodeRef, calls: tuple[NodeRef, ...]) -> bool:
    """Return whether a call, which ``calls`` lead to, never reaches a method, for the constructor of the object around
    it makes the method's object only where it is given something else: ``self.head = Slow() if slow else Fast()`` of
    ``Net()``."""
    base = receiver(site, method)
    if not isinstance(base, ast.Attribute):
        return False
    made = [ref for ref in project.fact(Resolver).points_to(site.module, base) if _has_method(project, ref, method)]
    return bool(made) and all(_is_left_out(project, base, ref, site, calls) for ref in made)


def _has_method(project: Project, ref: NodeRef, method: FunctionNode) -> bool:
    """Return whether what is made there may be an object with that very method."""
    resolver = project.fact(Resolver)
    if not isinstance(ref.node, ast.Call):
        return True  # anything
    owners = resolver.classes_of(*resolver.unwrapped(ref))
    found = [resolver.method(where, owner, method.name) for where, owner in owners]
    return not found or any(one is not None and one.node is method for one in found)


def _is_left_out(
    project: Project, base: ast.Attribute, made: NodeRef, site: NodeRef, calls: tuple[NodeRef, ...]
) -> bool:
    """Return whether no call of the constructor that made the object around ``base`` gets to what is made."""
    constructor = made.module.function(made.node) if isinstance(made.node, ast.Call) else None
    if not isinstance(constructor, FUNCTIONS) or constructor.name != "__init__":
        return False
    home = made.module.syntax.parents.get(constructor)
    resolver = project.fact(Resolver)
    holders = resolver.classes_of(site.module, base.value)
    if not any(owner is home for where, holder in holders for _, owner in resolver.mro(where, holder)):
        return False
    init = NodeRef(made.module, constructor)
    if is_own(base.value):
        chains = constructor_calls(project, init, site, calls)
    else:
        chains = makers(project, site.module, base.value, constructor)
    return bool(chains) and all(is_kept_out(project, made.module, made.node, chain) for chain in chains)
