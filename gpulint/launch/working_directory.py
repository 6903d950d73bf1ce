"""Where a command runs: ``cd`` and ``pushd`` followed through a script."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from itertools import islice

from gpulint import regex
from gpulint.documents.shell import SCRIPT_DIR, START_DIR, ArgWord, Command
from gpulint.documents.shell.flow import TooMany, backwards

MAX_CHANGES = 50
"""Changes of the folder that are followed back from a command; what was before them is unknown."""
SOMEWHERE = "<somewhere>"
"""Start of a path whose first folders come from a variable that nobody sets."""
HOME = "/~"
"""Start of a path in a home folder."""
_FILE_IN_FOLDER = regex.compile(r"(/[\w.+-]+)+/[\w+-]+\.(py|sh)")


def working_dir(command: Command, env: Mapping[str, str] | None = None, base: str | None = ".") -> str | None:
    """Folder that ``command`` runs in: relative to the script's start (``base``), or below a marker; None: unknown."""
    script = command.script
    try:
        changes = list(islice(backwards(script, script.folder_changes, command.start, command.blocks), MAX_CHANGES + 1))
    except TooMany:
        return None
    if len(changes) > MAX_CHANGES:
        base = None
    current, previous, stack = base, base, list[str | None]()
    for change, certain in changes[MAX_CHANGES - 1 :: -1]:
        name = change.words[0].value
        words = [word for word in script.argv(change, env)[1:] if word.text not in ("-P", "-L", "--")]
        if name == "popd":
            target = stack.pop() if stack else None
        elif not words:
            target = None
        elif words[0].text == "-":
            target = previous
        else:
            target = join(current, words[0].value)
        if name == "pushd":
            stack.append(current)
        previous, current = current, (target if certain or target == current else None)
    return current


def join(base: str | None, path: str | None) -> str | None:
    """``path`` as seen from ``base``; markers for the script's and the start folder count as absolute, as does
    ``~``."""
    if not path:
        return None
    path = plain_path(f"/{path}" if path.startswith(HOME[1:]) else path)
    if not path.startswith(("/", SCRIPT_DIR, START_DIR)):
        if base is None:
            return None
        path = f"{base}/{path}"
    marker = next((marker for marker in (SCRIPT_DIR, START_DIR) if path.startswith(marker)), None)
    if marker is None:
        return posixpath.normpath(path)
    below = posixpath.normpath(path.removeprefix(marker).lstrip("/"))
    return marker if below == "." else f"{marker}/{below}"


def below_unknown(word: ArgWord) -> str | None:
    """``<somewhere>/code/train.py`` for ``$HOME/code/train.py``: a file and its folders below one that is unknown."""
    last = max((at for at, atom in enumerate(word.atoms) if not atom.known), default=-1)
    tail = "".join(atom.text for atom in word.atoms[last + 1 :])
    return f"{SOMEWHERE}{tail}" if _FILE_IN_FOLDER.fullmatch(tail) else None


def plain_path(path: str) -> str:
    """``<start-dir>/<script-dir>/x`` (from ``$(pwd)/$(dirname $0)/x``) is ``<script-dir>/x``."""
    return path[max(path.rfind(SCRIPT_DIR), path.rfind(START_DIR), 0) :]
