"""Syntax of paths into YAML trees and of the conditions on what they lead to, as job formats are written with.

A path is keys with dots between them: ``resources.accelerators``. ``*`` is every value of a map or list, ``**`` the
node itself and all below it, ``'nvidia.com/gpu'`` a key that has dots, ``.`` the item itself, ``@key`` the key that
it has. ``/a.b`` starts at the document's root, ``^a.b`` at the nearest map around the item that leads somewhere,
and of ``a.b | c`` the first that leads somewhere counts. ``devices[capabilities~gpu]`` keeps the nodes that meet a
condition.

A condition is a path that leads somewhere (``run | setup``), or one whose text is compared: ``type=task|service``
(is one of), ``apiVersion^=ray.io/`` (starts with one of), ``$schema~azureml`` (contains one of, in any case; of a list:
has it as an element).
"""

from __future__ import annotations

from functools import cache

from gpulint import regex
from gpulint.records import dataclass

_TOKEN = regex.compile(r"'([^']*)'|(\^=|[=~|\[\].])|([^'=~|\[\].\s^/]+|\^|/)|(\s+)")
OPERATORS = ("=", "^=", "~")
START_ITEM, START_ROOT, START_AROUND, START_KEY = "", "/", "^", "@key"


class PathError(ValueError):
    """Text that is no path or condition."""


@dataclass(frozen=True, slots=True)
class Step:
    """One key (None: every value; ``deep``: the node and all below it), and what its nodes have to meet."""

    key: str | None
    deep: bool = False
    tests: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative of a path: where it starts, and its steps."""

    start: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """A path as its alternatives, the first of which counts that leads somewhere."""

    branches: tuple[Branch, ...]

    @property
    def last_keys(self) -> tuple[str, ...]:
        """The last key that each alternative names."""
        named = ([step.key for step in branch.steps if step.key is not None] for branch in self.branches)
        return tuple(keys[-1] for keys in named if keys)


@dataclass(frozen=True, slots=True)
class Condition:
    """A path that has to lead somewhere and, if there is an operator, to a text that compares so with a value."""

    path: Path
    operator: str = ""
    values: tuple[str, ...] = ()


@cache
def parse_path(text: str) -> Path:
    """Read a path.

    Raises:
        PathError: it is none; the message says what is wrong.
    """
    parser = _Parser(text)
    path = parser.path()
    parser.end()
    return path


@cache
def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises:
        PathError: it is none; the message says what is wrong.
    """
    parser = _Parser(text)
    condition = parser.condition()
    parser.end()
    return condition


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, bool]] = []
        """Text of each token, and whether it stands for itself (a key or value) and is no operator."""
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise PathError(f"is no path: unexpected {text[at]!r} in {text!r}")
            at = match.end()
            quoted, operator, word, _ = match.groups()
            if quoted is not None or word is not None:
                self._tokens.append((word if quoted is None else quoted, True))
            elif operator:
                self._tokens.append((operator, False))
        self._at = 0

    def path(self) -> Path:
        branches = [self._branch()]
        while self._take("|"):
            branches.append(self._branch())
        return Path(tuple(branches))

    def condition(self) -> Condition:
        path = self.path() if self._peek() not in OPERATORS else Path((Branch(START_ITEM, ()),))
        operator = self._peek()
        if operator not in OPERATORS:
            return Condition(path)
        self._at += 1
        values = [self._value()]
        while self._take("|"):
            values.append(self._value())
        return Condition(path, operator, tuple(values))

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._error()

    def _branch(self) -> Branch:
        start = START_ITEM
        if self._word() in ("/", "^"):
            start = self._tokens[self._at][0]
            self._at += 1
        elif self._word() == START_KEY:
            self._at += 1
            return Branch(START_KEY, ())
        elif self._take("."):
            return Branch(start, ())
        steps = [self._step()]
        while self._take("."):
            steps.append(self._step())
        return Branch(start, tuple(steps))

    def _step(self) -> Step:
        key = self._value()
        tests = []
        while self._take("["):
            tests.append(self.condition())
            if not self._take("]"):
                raise self._error()
        return Step(None if key in ("*", "**") else key, key == "**", tuple(tests))

    def _value(self) -> str:
        """A key, or a value, in which dots and slashes are plain text up to the next blank or ``|``."""
        word = self._word()
        if word is None:
            raise self._error()
        self._at += 1
        return word

    def _word(self) -> str | None:
        text, plain = self._tokens[self._at] if self._at < len(self._tokens) else ("", False)
        return text if plain else None

    def _peek(self) -> str:
        text, plain = self._tokens[self._at] if self._at < len(self._tokens) else ("", True)
        return "" if plain else text

    def _take(self, operator: str) -> bool:
        found = self._peek() == operator
        self._at += found
        return found

    def _error(self) -> PathError:
        found = repr(self._tokens[self._at][0]) if self._at < len(self._tokens) else "the end"
        return PathError(f"is no path: unexpected {found} in {self._text!r}")
