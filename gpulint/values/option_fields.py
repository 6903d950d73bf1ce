"""Fields of classes that a library makes options of the program of."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulint.finding import Place
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_LIBRARIES = frozenset({"draccus", "jsonargparse", "pyrallis", "simple_parsing", "tyro"})


def is_option(project: Project, place: Place) -> bool:
    """Return whether the constant at a place is the default of a field (``workers: int = 0``) of a class in a module
    that uses such a library, or that one which does imports."""
    module = project.module_at(place.path)
    if module is None:
        return False
    fields = (
        part.value
        for part in module.syntax.of(ast.AnnAssign)
        if part.value is not None and isinstance(module.syntax.parents.get(part), ast.ClassDef)
    )
    owner = next((value for value in fields if module.syntax.span(value) == place.span), None)
    if owner is None:
        return False
    users = project.users_of(module, {name for name in (getattr(module.class_of(owner), "name", None),) if name})
    return any(not one.packages.isdisjoint(_LIBRARIES) for one in (module, *users))


def declares(module: ModuleIndex, name: str) -> bool:
    """Return whether a module that uses such a library has a class with a field of that name."""
    return not module.packages.isdisjoint(_LIBRARIES) and any(
        isinstance(part.target, ast.Name)
        and part.target.id == name
        and isinstance(module.syntax.parents.get(part), ast.ClassDef)
        for part in module.syntax.of(ast.AnnAssign)
    )
