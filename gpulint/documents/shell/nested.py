"""Scripts within commands: ``bash -c '...'``, ``sh <<EOF`` and the same behind a launcher."""

from __future__ import annotations

from gpulint.documents.shell.script import Command, Script
from gpulint.documents.shell.words import Word

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_MAX_DEPTH = 8
_INITS = frozenset({"tini", "dumb-init", "env", "exec", "--", "-s", "-g"})


def script_word(words: tuple[Word, ...]) -> Word | None:
    """The script of the first ``SHELL [options] -c SCRIPT`` among the words."""
    for index, word in enumerate(words):
        if (word.value or "").rpartition("/")[2] not in SHELLS:
            continue
        command_flag = False
        for candidate in words[index + 1 :]:
            text = candidate.value
            if text is not None and text[:1] in ("-", "+") and len(text) > 1:
                command_flag = command_flag or (text[1] != "-" and "c" in text)
            elif text not in ("pipefail", "errexit"):
                return candidate if command_flag else None
        return None
    return None


def whole_script(words: tuple[Word, ...]) -> Word | None:
    """The script word of an exec-form list that does nothing but run a script."""
    shell = next((i for i, word in enumerate(words) if (word.value or "").rpartition("/")[2] not in _INITS), 0)
    is_shell = words and (words[shell].value or "").rpartition("/")[2] in SHELLS
    return script_word(words) if is_shell else None


def nested_script(command: Command) -> Script | None:
    """The script that the command itself holds, places mapped back to the file; None when it holds none."""
    from gpulint.documents.shell.parse import parse_script

    depth, outer = 0, command.script.outer
    while outer is not None:
        depth, outer = depth + 1, outer.script.outer
    if depth >= _MAX_DEPTH:
        return None
    word = script_word(command.words)
    if word is not None:
        return parse_script(word.script_fragment(), outer=command)
    if command.heredoc is not None and command.name in SHELLS:
        return parse_script(command.heredoc, outer=command)
    return None
