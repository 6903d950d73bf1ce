"""Reading one simple command: assignments before it, its words, its redirections, and where it ends."""

from __future__ import annotations

from gpulint import regex
from gpulint.documents.shell.reader import WordReader
from gpulint.documents.shell.script import Redirect
from gpulint.documents.shell.words import RawAssignment, Word
from gpulint.records import dataclass

_REDIRECT = regex.compile(r"(\d*|\{\w+\})(<<<|<<-|<<|<>|<&|<(?!\()|>>|>\||>&|>(?!\()|&>>|&>)")
_DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset"})


@dataclass(frozen=True, slots=True)
class Simple:
    assignments: tuple[RawAssignment, ...]
    """Those before the command, or all there is."""
    words: tuple[Word, ...]
    declared: tuple[RawAssignment, ...]
    """Those among the words of ``export``, ``declare`` and their like."""
    redirects: tuple[Redirect, ...]
    end: int


def read_simple(reader: WordReader, start: int, end: int) -> Simple:
    """The simple command at ``start``, up to a line end, an operator or ``end``."""
    text, at = reader.text, start
    assignments, declared = list[RawAssignment](), list[RawAssignment]()
    words, redirects = list[Word](), list[Redirect]()
    declaring = False
    while (at := reader.skip_blank(at, end)) < end:
        if match := _REDIRECT.match(text, at, end):
            at = reader.skip_blank(match.end(), end)
            target = reader.word(at, end)
            heredoc = match[2] in ("<<", "<<-")
            redirects.append(Redirect(match[2], None if heredoc else target))
            at = max(target.end, at)
            continue
        if text[at] in "\n;&|()" or (text[at] == "#" and at > start):
            break
        if (not words or declaring) and (raw := reader.assignment(at, end)) is not None:
            (declared if words else assignments).append(raw)
            if words:
                words.append(
                    reader.whole(raw.start, raw.end) if raw.elements is not None else reader.word(raw.start, end)
                )
            at = raw.end
            continue
        word = reader.word(at, end)
        if word.end <= at:
            break
        words.append(word)
        declaring = declaring or (len(words) == 1 and word.value in _DECLARING)
        at = word.end
    return Simple(tuple(assignments), tuple(words), tuple(declared), tuple(redirects), at)
