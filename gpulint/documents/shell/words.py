"""Shell words: literal text and expansions, each with its place.

tree-sitter-bash tells commands, loops and branches apart; the words within a command are read by ``reader``, since
spans and fixes need exact quote removal and a place for every literal character.
"""

from __future__ import annotations

from gpulint.records import dataclass
from gpulint.source import Fragment, Span


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands for itself; ``offset`` is where its first character is in the fragment, all others follow."""

    text: str
    offset: int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """``$NAME`` or ``${NAME[index]op argument}``; ``op`` is "" for a plain use, "?" for a form that is not followed."""

    name: str
    text: str
    offset: int
    op: str = ""
    argument: tuple[Part, ...] = ()
    index: str | None = None
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``$((expression))``."""

    expression: str
    text: str
    offset: int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """``$(command)``, a back-quoted command or ``<(command)`` (then ``process`` is set)."""

    command: str
    text: str
    offset: int
    quoted: bool = False
    process: bool = False


Part = Literal | Variable | Arithmetic | Substitution


@dataclass(frozen=True, eq=False)
class Word:
    """One word of a command as written; two words are equal only when they are the same object."""

    fragment: Fragment
    start: int
    end: int
    parts: tuple[Part, ...]

    @property
    def raw(self) -> str:
        return self.fragment.text[self.start : self.end]

    @property
    def span(self) -> Span:
        return self.fragment.span(self.start, self.end)

    @property
    def value(self) -> str | None:
        """The word after quote removal, or None when something in it is expanded at run time."""
        if len(self.parts) == 1:
            part = self.parts[0]
            return part.text if isinstance(part, Literal) else None
        texts = [part.text for part in self.parts if isinstance(part, Literal)]
        return "".join(texts) if len(texts) == len(self.parts) else None

    @property
    def quoted(self) -> bool:
        """Whether any of it stands in quotes."""
        return any(part.quoted for part in self.parts)


@dataclass(frozen=True, slots=True)
class RawAssignment:
    """``NAME=value``, ``NAME+=value`` or ``NAME=(a b)`` before it gets its place in the script."""

    name: str
    append: bool
    indexed: bool
    value: Word | None
    elements: tuple[Word, ...] | None
    start: int
    end: int
