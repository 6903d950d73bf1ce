"""What an installation names: packages, files that list some, the project itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gpulint import regex

_VALUED = frozenset(
    """--cache-dir --index-url -i --extra-index-url --find-links -f --target -t --prefix --python -p --name -n
    --constraint --channel --platform --python-version --timeout --retries --trusted-host --index-strategy
    --torch-backend --extra --group""".split()
)
"""Options of installers whose next word is no package."""
_VERB = regex.compile(r"\b(?:install|add)\b")
_LOCKED = regex.compile(r"\b(?:uv sync|pixi install|(?:poetry|pdm|pipenv) (?:install|sync))\b")
_BUILT = regex.compile(r"\S*(?:\.whl|\.tar\.gz)(?:\[|$)|dist/\S*\*")
"""What was built from the project of the tree."""
_PROJECT = regex.compile(r"\.{1,2}(?:\[|$|/)")
"""The project itself."""
_SPECIAL = regex.compile(r"[<>|&;()\s\"'`\\]")
"""What a shell does not take as it is: ``>`` of ``torch>=2.1`` writes to a file."""
_REQUIREMENT = regex.compile(r"\s[<>=!~;@]|[<>=!~;@,]\s")
"""Spaces within one requirement: ``torch >= 2.1``."""
_WIDTH = 70
"""Characters of a command in a message."""


def items(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return what lines of a Dockerfile install: the words after ``install`` or ``add`` that are no options, or the
    lock file that an installer reads where there are none."""
    found: list[str] = []
    for line in lines:
        verb = _VERB.search(line)
        words = _split(line[verb.end() :]) if verb is not None else []
        own = [
            word
            for before, word in zip(["", *words], words, strict=False)
            if before not in _VALUED and word != "@" and not word.startswith("-") and "://" not in word
        ]
        found += own or (["lock file.lock"] if _LOCKED.search(line) else [])
    return tuple(found)


def _split(text: str) -> list[str]:
    """Return the words of a line without their quotes; with them where one is left open."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def is_build(line: str, also_source: bool) -> bool:
    """Return whether a line installs nothing but what was built from the tree, or (``also_source``) the tree itself."""
    named = items((line,))
    return bool(named) and all(_BUILT.match(name) or (also_source and _PROJECT.match(name)) for name in named)


def listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def pip(names: list[str]) -> str:
    """The line of a Dockerfile for packages and files that list some."""
    return f"RUN pip install {' '.join(map(_argument, names))}"


def _argument(name: str) -> str:
    """Return the arguments of ``pip`` for an entry of a list: a package, a file that lists some, options."""
    if name.startswith("-") or (" " in name and not _REQUIREMENT.search(name)):
        return quoted(name.split())
    return f"-r {quoted([name])}" if name.endswith((".txt", ".lock")) else quoted([name])


def quoted(words: Iterable[str]) -> str:
    """Return the words of a command as a shell has to read them: those with a special character in quotes."""
    return " ".join(_quoted(word) if _SPECIAL.search(word) else word for word in words)


def _quoted(word: str) -> str:
    """Return a word in quotes, in which the shell still expands its variables."""
    expands = "$" in word and not any(character in word for character in '"`\\')
    return f'"{word}"' if expands else shlex.quote(word)


def short(line: str) -> str:
    """The command with as much of it as a message holds, cut between words where one ends near."""
    text = " ".join(line.split())
    if len(text) <= _WIDTH:
        return text
    head = text[: _WIDTH - 4]
    whole = head.rpartition(" ")[0]
    return f"{whole if len(whole) > _WIDTH // 2 else head} ..."
