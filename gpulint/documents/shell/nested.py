"""Scripts within commands: ``bash -c '...'``, ``sh <<EOF`` and the same behind a launcher."""

from __future__ import annotations

from gpulint.documents.shell.script import Command, Script
from gpulint.documents.shell.words import Literal, Word
from gpulint.source import Fragment

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
        return parse_script(_script_text(command, word), outer=command)
    if command.heredoc is not None and command.name in SHELLS:
        return parse_script(command.heredoc, outer=command)
    return None


def _script_text(command: Command, word: Word) -> Fragment:
    """The script that ``-c WORD`` hands over, each stretch mapped to where it is written.

    Variables that hold script text (``CMD="cd a; python b.py"``) are put in; the others stay as written and are
    expanded where they are used.
    """
    from gpulint.documents.shell.expand import Atom

    text, pieces = "", list[tuple[int, int]]()
    for part, atoms in command.script.expander().parts(word, command):
        holds_script = not isinstance(part, Literal) and any(atom.known and " " in atom.text for atom in atoms)
        for run in atoms if holds_script else (Atom(part.text, word.fragment, part.offset),):
            source, offset = (run.fragment, run.offset) if run.fragment is not None else (word.fragment, part.offset)
            pieces.append((len(text), source.owner_offset(offset)))
            inside = (piece for piece in source.pieces if 0 < piece[0] - offset < len(run.text))
            pieces += [(len(text) + here - offset, there) for here, there in inside]
            text += run.text
    pieces = pieces or [(0, word.fragment.owner_offset(word.start))]
    return Fragment(text, word.fragment.owner, tuple(pieces), word.fragment.cell)
