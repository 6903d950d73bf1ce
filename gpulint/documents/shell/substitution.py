"""Command substitutions whose output can be told without running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gpulint import regex

ALL_GPUS: Final = "<all-gpus>"
"""Stands for "as many as the node has GPUs"."""
SCRIPT_DIR: Final = "<script-dir>"
"""Stands for the folder that holds the script."""
START_DIR: Final = "<start-dir>"
"""Stands for the folder the job was started in."""

_COUNT_GPUS = (
    regex.compile(r"nvidia-smi\s+(-L|--list-gpus)\s*(2>\s*/dev/null\s*)?\|\s*wc\s+(-l|--lines)(\s*\|\s*tr.*)?"),
    regex.compile(
        r"nvidia-smi\s+--query-gpu=\S+\s+--format=csv,noheader(,nounits)?\s*(2>\s*/dev/null\s*)?\|\s*wc\s+-l"
    ),
    regex.compile(r"nvidia-smi\s+(-L|--list-gpus)\s*\|\s*grep\s+-c\s+\S+"),
    regex.compile(r"python3?\s+-c\s+(['\"])\s*import torch;\s*print\(torch\.cuda\.device_count\(\)\);?\s*\1"),
)
_HERE = r"""(?:--\s+)?["']?(?:\$0|\$\{?BASH_SOURCE(?:\[0\])?\}?|\$\{0\}|\$\{BASH_SOURCE\[0\]:-\$0\})["']?"""
_DIRNAME = rf"""(?:\$\(\s*dirname\s+{_HERE}\s*\)|`dirname\s+{_HERE}`|\$\{{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}})"""
_SCRIPT_DIR = (
    regex.compile(rf"dirname\s+{_HERE}"),
    regex.compile(rf"""dirname\s+(?:--\s+)?["']?\$\(\s*(?:realpath|readlink\s+-f)\s+{_HERE}\s*\)["']?"""),
    regex.compile(
        rf"""cd\s+(?:-P\s+)?(?:--\s+)?["']?{_DIRNAME}["']?\s*(?:>\s*/dev/null(?:\s+2>&1)?|&>\s*/dev/null)?\s*(?:&&|;)\s*pwd(?:\s+-P)?"""
    ),
    regex.compile(rf"""(?:realpath|readlink\s+-f)\s+["']?{_DIRNAME}["']?"""),
)
_SCRIPT_PARENT = regex.compile(
    rf"""cd\s+(?:-P\s+)?(?:--\s+)?["']?{_DIRNAME}((?:/\.\.)+(?:/[\w./-]*)?)["']?\s*(?:>\s*/dev/null(?:\s+2>&1)?)?\s*(?:&&|;)\s*pwd(?:\s+-P)?"""
)
_COUNT_LIST = regex.compile(
    r"""echo\s+["']?\$\{?(\w+)\}?["']?\s*\|\s*(?:tr\s+["']?,["']?\s+["']?\\?n["']?\s*\|\s*wc\s+-[lw]|awk\s+-F["']?,["']?\s+["']\{\s*print\s+NF\s*\}["'])"""
)
_TOOLS = regex.compile(r"(?:which|command\s+-v|type\s+-p)\s+([\w.-]+)")


_PRINTS = regex.compile(r"\s*cat\s*<<-?\s*(['\"]?)(\w+)\1[ \t]*\n")


def printed_text(command: str) -> tuple[str, int] | None:
    """The here-document that ``cat <<EOF`` prints, and where in the command it starts; variables stay as written."""
    opens = _PRINTS.match(command)
    if opens is None:
        return None
    end = command.rfind("\n", 0, len(command.rstrip()))
    if end < opens.end() or command[end:].strip() != opens[2]:
        return None
    return command[opens.end() : end], opens.end()


def known_output(command: str, variable: Callable[[str], str | None], *, moved: bool) -> str | None:
    """Output of ``command`` if it is of a common shape. ``moved``: a ``cd`` came before, so ``pwd`` is unknown."""
    text = command.strip()
    if any(pattern.fullmatch(text) for pattern in _COUNT_GPUS):
        return ALL_GPUS
    if any(pattern.fullmatch(text) for pattern in _SCRIPT_DIR):
        return SCRIPT_DIR
    if match := _SCRIPT_PARENT.fullmatch(text):
        return SCRIPT_DIR + match[1]
    if text in ("pwd", "pwd -P"):
        return None if moved else START_DIR
    if match := _TOOLS.fullmatch(text):
        return match[1]
    if match := _COUNT_LIST.fullmatch(text):
        value = variable(match[1])
        return str(value.count(",") + 1) if value and "<" not in value else None
    return None
