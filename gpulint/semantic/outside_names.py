"""Whether files outside of a module refer to what it defines, not only to something of the same name."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.importing_modules import importing_files, named

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


@query
def named_elsewhere(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether another file imports a definition of the module, reads it from an object that could be the module,
    or names it beside the module (``package.module:main``)."""
    home = module.path
    if any(_refers(project, path, name) for path in importing_files(project, home, name)):
        return True
    beside = rb"\b%s\s*[:.]\s*%s\b" % (re.escape(named(home).encode()), re.escape(name.encode()))
    return project.is_like_in_other_files(beside)


def _refers(project: Project, path: Path, name: str) -> bool:
    other = project.module_at(path)
    if other is None:
        return True
    taken = {alias.name for node in other.syntax.of(ast.ImportFrom) for alias in node.names}
    if not taken.isdisjoint({name, "*"}):
        return True
    return any(
        part.attr == name and isinstance(part.value, ast.Name | ast.Attribute)
        for part in other.syntax.of(ast.Attribute)
    )
