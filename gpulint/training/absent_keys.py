"""Settings that are off by default and that nothing in the tree sets: ``config.get("save_all", False)``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

_PLAIN = re.compile(r"[A-Za-z_]\w*")
_OF_MACHINES = regex.compile(r"rank|world|gpu|cuda|node|proc|distributed|device|dp_|ddp|parallel|train", re.IGNORECASE)
"""Settings that go with the machine, or that whoever trains sets."""


def is_absent_key(project: Project, asked: ast.expr) -> bool:
    """Return whether a test asks a table for a setting that is off by default and that nothing in the tree sets."""
    match asked:
        case ast.Call(
            func=ast.Attribute(attr="get"),
            args=[ast.Constant(value=str(key)), ast.Constant(value=default)],
            keywords=[],
        ):
            plain = _PLAIN.fullmatch(key) is not None and not _OF_MACHINES.search(key)
            return not default and plain and _is_only_read(project, key)
    return False


@query
def _is_only_read(project: Project, key: str) -> bool:
    """Return whether all that names a setting reads it: no other file of the tree, no literal, keyword or option."""
    word = word_of(key)
    if project.is_in_other_files(word):
        return False
    name = re.escape(key)
    text = re.compile(rf"""["'](?:--)?{name}["']|--{name.replace("_", "[-_]")}\b""".encode())
    read = re.compile(rf"""\.get\(\s*["']{name}["']""".encode())
    sets = re.compile(rf"(?:[(,]\s*|[.]){name}\s*=(?!=)".encode())
    for path in project.python_files_with(word):
        source = project.data(path)
        if len(text.findall(source)) != len(read.findall(source)) or sets.search(source):
            return False
    return True
