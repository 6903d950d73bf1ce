"""The file that ``accelerate launch --config_file`` reads, also one that the script copies from the tree first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.transfer_commands import words_of

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.launch.path_resolution import PathResolver
    from gpulint.launch.program_launches import Launch

_COUNTS = regex.compile(r"num_processes|num_machines|distributed_type")
"""Keys that say how many processes there are."""


def config_file(locator: PathResolver, launch: Launch, document: Document, start: Path | None) -> Path | None:
    """Return the configuration that accelerate is told to read; None if the tree does not have it."""
    word = launch.options.get("config-file") if launch.launcher == "accelerate" else None
    if word is None or not word.value:
        return None
    for written in (word.value, _copied_from(launch, word.value)):
        found = locator.locate(written, launch.working_dir, document.path, start) if written else None
        if found is not None:
            return found[0]
    return None


def _copied_from(launch: Launch, path: str) -> str:
    """Return what the script copies to ``path``, and then changes at most in what says nothing of processes."""
    source = ""
    for command in launch.command.script.commands:
        words = words_of(command)
        if path not in words or command is launch.command:
            continue
        plain = [word for word in words[1:] if not word.startswith("-")]
        if words[0] == "cp" and len(plain) == 2 and plain[1] == path:
            source = plain[0]
        elif any(map(_COUNTS.search, words)):
            return ""
    return source
