"""Classes of the tree that have the name of a library's class which uses a GPU by itself: a ``Trainer`` of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import cyclic
from gpulint.semantic.hardware_words import GpuWords

if TYPE_CHECKING:
    from gpulint.project import Project

_CLASS = regex.compile(
    rb"^[ \t]*class[ \t]+(\w+)[ \t]*(?:\([ \t]*(?:(?:abc\.)?ABC|object)?[ \t]*\)[ \t]*)?:", re.MULTILINE
)
"""A class without bases."""
_ATTRIBUTE = regex.compile(rb"\.([A-Z]\w*)")


@cyclic(False)
def names_only_own_classes(project: Project, path: Path) -> bool:
    """Return whether all that says that a module uses a GPU are names of classes of the tree, which name no device
    either."""
    text = project.data(path)
    names = project.models.derived(GpuWords).only_classes(text)
    if not names or names & set(_ATTRIBUTE.findall(text)):
        return False
    missing = names - set(_CLASS.findall(text))
    bound = [name.rpartition(".") for name in project.imports(path)]
    taken = [(last.encode(), above) for above, _, last in bound if last.encode() in names]
    if {last for last, _ in taken} != missing:
        return False  # the name of a base as well, or not known
    homes = [project.module_path(project.absolute(above, path), path) for _, above in taken]
    return all(home is not None and home != path and names_only_own_classes(project, home) for home in homes)
