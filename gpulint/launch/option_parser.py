"""Command-line options of launchers, read from expanded words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gpulint import regex
from gpulint.documents.shell.expand import ArgWord
from gpulint.libraries.launchers import Launcher
from gpulint.records import dataclass, field
from gpulint.source import Span


@dataclass(slots=True)
class LauncherOptions:
    """Options found, where the rest begins, and whether unknown words (``$EXTRA``) may hold further options."""

    values: dict[str, ArgWord] = field(default_factory=dict)
    rest: tuple[ArgWord, ...] = ()
    holes: bool = False

    def get(self, *names: str) -> ArgWord | None:
        """Value of the first of these options that is there."""
        return next((self.values[name] for name in names if name in self.values), None)


_OPTION = regex.compile(r"(--?)([A-Za-z][\w.-]*)(=?)", re.S)


def program_like(word: ArgWord) -> bool:
    """Return whether a word looks like something that can be run rather than an option's value."""
    return bool(re.search(r"\.(py|sh|bash|x|exe|out)$|^\.{0,2}/(?!dev/)|/bin/", word.text)) or bool(
        re.fullmatch(
            r"python[\d.]*|bash|sh|torchrun|accelerate|deepspeed|singularity|apptainer|shifter|nsys|ncu|env|numactl",
            word.text,
        )
    )


def read_options(
    argv: tuple[ArgWord, ...], row: Launcher, like: Callable[[ArgWord], bool] = program_like
) -> LauncherOptions:
    """Options at the start of ``argv`` (the launcher's own name already gone), and what follows them."""
    found, at = LauncherOptions(), 0
    while at < len(argv):
        word = argv[at]
        text = word.text
        if text == "--":
            at += 1
            break
        match = _OPTION.match(text) if text[:1] == "-" else None
        if match is None:
            if word.hole and any(like(later) for later in argv[at + 1 :]):
                found.holes = True
                at += 1
                continue
            break
        dashes, name, equals = match.groups()
        name = name.replace("_", "-")
        following = argv[at + 1] if at + 1 < len(argv) else None
        if equals:
            found.values[name] = word.after(match.end())
        elif (
            dashes == "-"
            and len(name) > 1
            and not any(name in known for known in (row.values, row.flags, row.pairs, row.ends))
            and name[0] in row.values
        ):
            found.values[name[0]] = word.after(2)
        elif name in row.ends:
            found.values[name] = word
            at += 1
            break
        elif name in row.pairs:
            at += 2
        elif name in row.flags or following is None:
            found.values[name] = word
        elif name in row.values or not (following.text.startswith("-") or like(following)):
            found.values[name] = following
            at += 1
        else:
            found.values[name] = word
        at += 1
    found.rest = argv[at:]
    return found


@dataclass(frozen=True, slots=True)
class PassedOption:
    """What a command line gives for a program's option: the text if it is known (``true`` for a flag), and where both
    stand."""

    value: str | None
    span: Span
    number: Span


def passed_options(args: tuple[ArgWord, ...]) -> dict[str, PassedOption]:
    """``--name value``, ``--name=value`` and flags among a program's own arguments, under ``--name``."""
    options: dict[str, PassedOption] = {}
    for name, word, value in _spelled(args):
        if name.startswith("--"):
            number = word.span if value is None or "=" in word.text else value.span
            options[name] = PassedOption("true" if value is None else value.value, word.span, number)
    return options


def passed_option(args: tuple[ArgWord, ...], flags: tuple[str, ...]) -> list[tuple[str | None, ArgWord]]:
    """Return what arguments give for an option: [] if nothing, text None if unknown, ``true`` for a bare flag."""
    wanted = {flag.replace("_", "-") for flag in flags}
    found: list[tuple[str | None, ArgWord]] = []
    for name, word, value in _spelled(args):
        if name.replace("_", "-") in wanted:
            found = [("true", word) if value is None else (value.value, value)]
    return found


def passed_override(args: tuple[ArgWord, ...], key: str) -> list[tuple[str | None, ArgWord]]:
    """Return what arguments set a dotted key of a configuration to, as Hydra reads them (``train.batch_size=8``,
    ``+train.batch_size=8``): [] if nothing, text None if unknown. The last one counts.

    https://hydra.cc/docs/advanced/override_grammar/basic/
    """
    found: list[tuple[str | None, ArgWord]] = []
    for word in args:
        name, equals, _ = word.text.partition("=")
        if equals and name.lstrip("+") == key:
            value = word.after(len(name) + 1)
            found = [(value.value, value)]
    return found


def _spelled(args: tuple[ArgWord, ...]) -> Iterator[tuple[str, ArgWord, ArgWord | None]]:
    """(name, its word, its value) of each option among a program's own arguments; the value of a bare flag is None."""
    for at, word in enumerate(args):
        name, equals, _ = word.text.partition("=")
        if not name.startswith("-"):
            continue
        following = args[at + 1] if at + 1 < len(args) else None
        if equals:
            yield name, word, word.after(len(name) + 1)
        elif following is None or (following.text.startswith("-") and not following.text.lstrip("-.")[:1].isdigit()):
            yield name, word, None
        else:
            yield name, word, following
