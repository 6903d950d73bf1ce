"""Whether files outside of a module refer to what it defines, not only to something of the same name."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.importing_modules import importing_files, named
from gpulint.workspace.module_index import BindingKind

if TYPE_CHECKING:
    from collections.abc import Set
    from pathlib import Path

    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


@query
def named_elsewhere(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether another file imports a definition of the module, reads it from an object that could be the module,
    or names it beside the module (``package.module:main``)."""
    home = module.path
    names = {name} if _is_unlisted(module, name) else {name, "*"}
    if any(_refers(project, path, name, names) for path in importing_files(project, home, name)):
        return True
    beside = rb"\b%s\s*[:.]\s*%s\b" % (re.escape(named(home).encode()), re.escape(name.encode()))
    return project.is_like_in_other_files(beside)


def _is_unlisted(module: ModuleIndex, name: str) -> bool:
    """Return whether ``from module import *`` leaves a name out: it is not in the list ``__all__``, or is private."""
    listed = module.top.lookup("__all__")
    if not listed:
        return name.startswith("_")
    if module.uses.get("__all__"):
        return False  # it grows
    values = (one.node.value if isinstance(one.node, ast.Assign | ast.AugAssign) else None for one in listed)
    return all(_lacks(value, name) for value in values)


def _lacks(value: ast.expr | None, name: str) -> bool:
    """Return whether a list of names lacks one, or is that of another module (``__all__ += layers.__all__``)."""
    match value:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return all(isinstance(part, ast.Constant) and part.value != name for part in parts)
        case ast.Attribute(attr="__all__"):
            return True
    return False


def _refers(project: Project, path: Path, name: str, names: Set[str]) -> bool:
    other = project.module_at(path)
    if other is None:
        return True
    taken = {alias.name for node in other.syntax.of(ast.ImportFrom) for alias in node.names}
    if not taken.isdisjoint(names):
        return True
    return any(
        part.attr == name and isinstance(part.value, ast.Name | ast.Attribute) and not _is_of_python(other, part.value)
        for part in other.syntax.of(ast.Attribute)
    )


def _is_of_python(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a name is that of a module of Python itself (``unittest.main``)."""
    bound = module.scope(value).lookup(value.id) if isinstance(value, ast.Name) else ()
    return bool(bound) and all(
        one.kind is BindingKind.IMPORT and one.target.partition(".")[0] in sys.stdlib_module_names for one in bound
    )
