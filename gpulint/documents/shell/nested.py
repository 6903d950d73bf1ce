"""Scripts within commands: ``bash -c '...'``, ``sh <<EOF``, ``ssh host '...'``, ``eval "$CMD"`` and their like."""

from __future__ import annotations

from gpulint import regex
from gpulint.documents.shell.script import Command, Script
from gpulint.documents.shell.words import Literal, Variable, Word
from gpulint.source import Fragment

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_MAX_DEPTH = 8
_CARRIERS: dict[str, tuple[str, ...]] = {
    "ssh": (),
    "pdsh": (),
    "singularity": (),
    "apptainer": (),
    "enroot": (),
    "tmux": (),
    "eval": (),
    "gcloud": ("--command",),
    "su": ("-c", "--command"),
    "runuser": ("-c", "--command"),
    "script": ("-c", "--command"),
    "flock": ("-c", "--command"),
}
"""Programs that hand a word to a shell: the value of one of these options, or the last word with a blank in it."""
_REMOTE = frozenset({"ssh", "pdsh", "gcloud"})
"""Those whose shell runs on another machine, in an environment of its own."""
_FORWARDED = regex.compile(r"\bSendEnv\b|\b(?:declare|typeset|export)[ \t]{1,9}-p|\bprintenv\b|\$\(env\b")
"""What takes the environment along: an option, and commands that print it into the script."""
_PRINTERS = frozenset({"cat", "tee", "echo", "printf"})
_PLAIN = regex.compile(r"[A-Za-z_][\w.-]*=|-")
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


def carried_word(command: Command) -> tuple[Word, int] | None:
    """The script that a command such as ``ssh`` hands to a shell elsewhere: its word, and where in it it starts."""
    first = command.words[0].value if command.words else None
    options = _CARRIERS.get("eval" if first == "eval" else command.name)
    if options is None:
        return None
    if options:
        return option_value(command.words, options)
    last = next((word for word in reversed(command.words[1:]) if not _PLAIN.match(word.raw)), None)
    if last is None or not last.quoted:
        return None
    holds = last is command.words[1] if first == "eval" else any(char.isspace() for char in last.raw)
    return (last, 0) if holds else None


def is_elsewhere(command: Command) -> bool:
    """Return whether a command runs a script on another machine, where variables exported here are not set."""
    return command.name in _REMOTE and not any(_FORWARDED.search(word.raw) for word in command.words)


def _ends_in_shell(words: tuple[Word, ...]) -> bool:
    """Return whether a command runs a shell that reads its script from the here-document (``singularity exec IMAGE bash
    <<EOF``)."""
    rest = [word.value or "" for word in words]
    while len(rest) > 1 and rest[-1].startswith("-"):
        rest.pop()
    return rest[0] not in _PRINTERS and len(rest) > 1 and rest[-1].rpartition("/")[2] in SHELLS


def option_value(words: tuple[Word, ...], options: tuple[str, ...]) -> tuple[Word, int] | None:
    """The word that holds the value of one of the options, and where in it the value starts."""
    for at, word in enumerate(words):
        text = word.value or word.raw
        if text in options and at + 1 < len(words):
            return words[at + 1], 0
        for option in options:
            if option.startswith("--") and text.startswith(f"{option}="):
                return word, len(option) + 1
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
        return parse_script(script_text(command, word), outer=command)
    if command.heredoc is not None and (command.name in SHELLS | {"ssh"} or _ends_in_shell(command.words)):
        return parse_script(command.heredoc, outer=command)
    if (carried := carried_word(command)) is not None:
        return parse_script(script_text(command, *carried), outer=command)
    if len(command.words) == 1 and _is_chosen(command):
        return parse_script(script_text(command, command.words[0]), outer=command)
    return None


def _is_chosen(command: Command) -> bool:
    """Return whether the command is a variable alone that goes through several commands (``for CMD in "${CMDS[@]}"; do
    $CMD``)."""
    match command.words[0].parts:
        case (Variable(quoted=False, op="", name=name),):
            return len(command.script.expander().choices(name, command)) > 1
    return False


def script_text(command: Command, word: Word, skip: int = 0) -> Fragment:
    """The script that ``-c WORD`` hands over, each stretch mapped to where it is written; ``skip`` characters at the
    start of the word are an option's name.

    Variables that hold script text (``CMD="cd a; python b.py"``) are put in; the others stay as written and are
    expanded where they are used.
    """
    from gpulint.documents.shell.expand import Atom

    text, pieces = "", list[tuple[int, int]]()
    expander = command.script.expander()
    for part, atoms in expander.parts(word, command):
        if isinstance(part, Variable) and len(chosen := expander.choices(part.name, command)) > 1:
            atoms = tuple(atom for choice in chosen for atom in (*choice, Atom("\n", None, 0)))
        holds_script = not isinstance(part, Literal) and any(atom.known and " " in atom.text for atom in atoms)
        for run in atoms if holds_script else (Atom(part.text, word.fragment, part.offset),):
            source, offset = (run.fragment, run.offset) if run.fragment is not None else (word.fragment, part.offset)
            pieces.append((len(text), source.owner_offset(offset)))
            inside = (piece for piece in source.pieces if 0 < piece[0] - offset < len(run.text))
            pieces += [(len(text) + here - offset, there) for here, there in inside]
            text += run.text
    pieces = pieces or [(0, word.fragment.owner_offset(word.start))]
    whole = Fragment(text, word.fragment.owner, tuple(pieces), word.fragment.cell)
    return whole.cut(skip, len(text)) if skip else whole
