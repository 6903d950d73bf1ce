"""Modules of one name: Python takes the one beside the script, unless the script runs as a member of a package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project


def is_hidden(project: Project, name: str, importer: Path, found: Path) -> bool:
    """Return whether a dotted name, which means something in the file ``found`` to its importer, is also the name of
    something in another file from the root, which the importer does not get then."""
    folder = importer.parent
    if folder == project.root or found.parent == project.root:
        return False
    beside = found.is_relative_to(folder) and not project.module_name(found).startswith(name.partition(".")[0] + ".")
    if not beside or _at_root(project, name) in (None, found):
        return False
    return not project.contains(importer, b"sys.path.insert") and not _is_member(project, importer)


@query
def _at_root(project: Project, name: str) -> Path | None:
    """The file that defines what a dotted name means at the root."""
    found = project.definition_of(name, project.root / "*")
    return found[0] if found is not None else None


@query
def _is_member(project: Project, path: Path) -> bool:
    """Return whether the tree imports or starts a file as a member of the package that its folder is
    (``from pkg.train import main``, ``from .train import main``, ``python -m pkg.train``)."""
    folder, stem = path.parent, path.stem
    if project.files_with(f"-m {folder.name}.{stem}".encode()):
        return True
    words = frozenset({word_of(stem), word_of(folder.name)})
    return any(
        any(part.startswith(".") or f"{folder.name}.{stem}" in part for part in project.imports(user))
        and path in project.imported(user)
        for user in project.word_index.importing(words)
    )
