"""Which uses of a method's name may mean the method: those whose receiver may be an instance of its class."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.argument_binding import RECEIVERS
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef


def may_mean(
    project: Project, module: ModuleIndex, method: FunctionNode, where: ModuleIndex, use: ast.Attribute
) -> bool:
    """Return whether ``x.name`` may be a method of that name: not where all that ``x`` may be are instances of classes
    which have another method of the name, and share no subclass with the method's own class."""
    home = module.syntax.parents.get(method)
    if not isinstance(home, ast.ClassDef):
        return True
    resolver = project.fact(Resolver)
    if isinstance(use.value, ast.Name) and use.value.id in RECEIVERS:
        owner = where.class_of(use)
        classes = [(where, owner)] if owner is not None else []
    else:
        origins = resolver.points_to(where, use.value)
        refs = [ref for ref in origins if not is_outside_instance(project, ref)]
        if not refs:
            return False
        made = [
            resolver.classes_of(ref.module, ref.node) if isinstance(ref.node, ast.Call) and not ref.path else ()
            for ref in refs
        ]
        classes = [one for found in made for one in found] if all(made) else []
    own = family(project, module, home)
    for place, other in classes:
        found = resolver.method(place, other, use.attr)
        if found is None or found.node is method or not own.isdisjoint(family(project, place, other)):
            return True
    return not classes


def is_outside_instance(project: Project, ref: NodeRef) -> bool:
    """Return whether an expression makes an instance of a class of a library, whose methods are the library's:
    ``Trainer(model)`` of ``from library import Trainer``."""
    if not isinstance(ref.node, ast.Call) or ref.path:
        return False
    resolver = project.fact(Resolver)
    names = resolver.call_names(ref.module, ref.node)
    return (
        bool(names)
        and all("." in name and name.rpartition(".")[2][:1].isupper() for name in names)
        and not any(project.module_path(name.partition(".")[0], ref.module.path) for name in names)
        and not resolver.classes_of(ref.module, ref.node)
    )


def is_of_outside(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is of a method of such instances alone."""
    if not isinstance(call.func, ast.Attribute):
        return False
    refs = project.fact(Resolver).points_to(module, call.func.value)
    return all(is_outside_instance(project, ref) for ref in refs)


@query
def family(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> frozenset[tuple[Path, bytes]]:
    """A class with all that derive from it, by the words of their names."""
    words = project.word_index
    found, todo = {(module.path, word_of(owner.name))}, [word_of(owner.name)]
    while todo:
        subclasses = {*words.subclasses(todo.pop())} - found
        found |= subclasses
        todo += [subclass for _, subclass in subclasses]
    return frozenset(found)
