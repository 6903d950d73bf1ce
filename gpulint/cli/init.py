"""``gpulint init``: a commented settings file, written once and never over an existing one."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint import disk
from gpulint.cli import CLEAN
from gpulint.config import Config, ConfigError, load
from gpulint.counting import counted
from gpulint.escaping import printable, say
from gpulint.rule import DOCS_URL
from gpulint.settings import SETTINGS

if TYPE_CHECKING:
    from gpulint.cli.survey import Survey


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "init",
        help="write a commented settings file",
        description="Read the project and write a commented settings file: into pyproject.toml if there is one, else"
        " into a new gpulint.toml. Existing settings are never changed.",
    )
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="top of the project (default: .)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file and say what it says."""
    from gpulint.cli.survey import survey
    from gpulint.discover import absolute

    root = absolute(Path(args.folder))
    if not disk.is_dir(root):
        raise ConfigError(f"{args.folder}: no such folder")
    found = load(root)
    existing = found.source
    for problem in found.problems:
        raise ConfigError(f"{os.path.relpath(problem.path)}: {problem.message}")
    if existing is not None:
        raise ConfigError(f"{os.path.relpath(existing)} already has settings; nothing was written")
    seen = survey(root, Config(base=root))
    path = _write(root, list(_lines(seen)))
    told = [f"- {line}" for line in _told(seen)]
    first = f"Wrote {os.path.relpath(path)} after reading {counted(seen.files, 'file')}."
    say(first, *told, "Next: gpulint scan", file=sys.stdout)
    return CLEAN


def _write(root: Path, lines: list[str]) -> Path:
    """Append a table to ``pyproject.toml``; where there is none, or it cannot take one, write ``gpulint.toml``."""
    from gpulint.writing import Change, WriteError, write

    project = root / "pyproject.toml"
    try:
        if disk.exists(project):
            old = disk.read(project).decode("utf-8")
            newline = "\r\n" if "\r\n" in old else "\n"
            gap = "" if not old or old.endswith("\n") else newline
            new = old + gap + newline + newline.join(["[tool.gpulint]", *lines, ""])
            try:
                tomllib.loads(new)
            except ValueError:
                pass  # ``tool = { ... }`` in one line cannot be added to
            else:
                write([Change(project, old.encode(), new.encode())], root)
                return project
        target = root / "gpulint.toml"
        write([Change(target, None, "\n".join([*lines, ""]).encode())], root)
        return target
    except (OSError, UnicodeError, WriteError) as error:
        raise ConfigError(f"{os.path.relpath(root)}: could not be written: {error}") from None


def _lines(seen: Survey) -> Iterator[str]:
    """The body of the table: everything is a comment that can be uncommented, as nothing has to be set."""
    yield f"# {DOCS_URL.rpartition('/')[0]}/configuration/ describes every key. Shown are examples, not defaults."
    for key, setting in SETTINGS.items():
        hints, example = _hints(key, seen), setting.example
        if key == "gpus-per-node" and seen.gpus:
            example = str(max(seen.gpus))
        if key == "remote-paths" and seen.unsure:
            example = "[" + ", ".join(f'"{prefix}"' for prefix in sorted(seen.unsure)[:_MOST]) + "]"
        yield ""
        yield from _comment(setting.text)
        for hint in hints:
            yield from _comment(hint)
        yield f"# {key} = {example}"


_MOST = 5


def _comment(text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        printable(text),
        100,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _told(seen: Survey) -> list[str]:
    told = [hint for key in SETTINGS for hint in _hints(key, seen)]
    return told or ["Found no number of GPUs per node and no remote paths; set what you know."]


def _hints(key: str, seen: Survey) -> list[str]:
    """Return what the tree says about one setting."""
    if key == "gpus-per-node" and seen.gpus:
        counts = (
            f"{counted(number, 'GPU')} per node ({_some(places)})" for number, places in sorted(seen.gpus.items())
        )
        return [f"Jobs in this project request {', '.join(counts)}."]
    if key == "remote-paths":
        hints = []
        if seen.remote:
            named = _some([f"{prefix} ({place})" for prefix, place in sorted(seen.remote.items())])
            hints.append(f"Known to be remote: {named}.")
        if seen.unsure:
            named = _some([f"{prefix} ({place})" for prefix, place in sorted(seen.unsure.items())])
            hints.append(f"Uncomment the line if these are remote on your cluster: {named}.")
        return hints
    if key == "include-tests" and seen.tests:
        return [f"Tests found in {_some(seen.tests)}."]
    if key == "exclude" and seen.skipped:
        return [f"Not scanned: {_some(seen.skipped)}."]
    return []


def _some(items: list[str]) -> str:
    more = len(items) - _MOST
    return ", ".join(items[:_MOST]) + (f" and {more} more" if more > 0 else "")
