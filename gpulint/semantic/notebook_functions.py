"""Functions and classes of a notebook that none of its cells uses."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.notebook import NotebookDocument
from gpulint.query import query
from gpulint.semantic.unused_symbols import is_in_text, is_in_unused, owner_of
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_OWN_LINE = regex.compile(r"\s*[%!?]|[^=#]*=\s*[%!]|[^#]*\?\s*$")
"""Lines of IPython's own: ``%prun train()``, ``found = !python run.py``."""
_SHARES = regex.compile(r"\s*(?:#\s*\|?\s*(?:export|default_exp)\b|%%writefile\b|%(?:run|load)\b)")
"""Lines that hand cells to another program, or run other files in the notebook's own scope."""
_WORD = regex.compile(r"[A-Za-z_]\w*")


def is_in_unused_of_notebook(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a node is in a class or function of a notebook that no cell calls or names, nor another notebook
    that runs it."""
    owner = owner_of(module, node)
    return (
        owner is not None
        and is_in_unused(project, module, node)
        and not is_in_text(module, owner.name)
        and owner.name not in _words_of_ipython(project, module)
        and not _is_shared(project, module)
    )


@query
def _is_shared(project: Project, module: ModuleIndex) -> bool:
    """Return whether others may use what a notebook defines: it exports cells, runs files in its own scope, or is run
    or imported itself."""
    document = project.document(module.path)
    if not isinstance(document, NotebookDocument) or any(map(_SHARES.match, document.code_lines)):
        return True
    runs = re.compile(rb"%%run\b[^\n]*(?<![\w-])%b\b|\bimport_ipynb\b" % re.escape(module.path.stem.encode()))
    users = {path for mark in (b"%run", b"import_ipynb") for path in project.files_with(mark)}
    return any(project.finds(path, runs) for path in users - {module.path})


@query
def _words_of_ipython(project: Project, module: ModuleIndex) -> frozenset[str]:
    """The words of a notebook's lines that are IPython's own, and of its cells that are no Python."""
    document = project.document(module.path)
    if not isinstance(document, NotebookDocument):
        return frozenset()
    own = [line for line in document.code_lines if _OWN_LINE.match(line)]
    return frozenset(
        word for text in (*own, *(cell.source.text for cell in document.broken_cells)) for word in _WORD.findall(text)
    )
