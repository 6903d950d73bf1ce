"""What people see on standard error while a command runs and after it: progress, and everything that is no finding."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.cli import ISSUES
from gpulint.counting import counted
from gpulint.escaping import say, shown_path

if TYPE_CHECKING:
    from gpulint.cli.inputs import Inputs
    from gpulint.finding import Problem
    from gpulint.report import Report


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A run is short and keeps nearly all that it makes; collecting garbage would take half of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def add_troubles(report: Report, inputs: Inputs) -> None:
    """Join the problems of finding files to those of reading them."""
    problems = _pointers_together([*inputs.found.problems, *report.problems])
    report.problems = sorted(problems, key=lambda problem: problem.order)


def _pointers_together(problems: list[Problem]) -> list[Problem]:
    """Say once of all files that they are pointers of Git LFS: there may be hundreds."""
    from gpulint.documents import POINTER

    found: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.message == POINTER:
            found.setdefault(problem.level, []).append(problem)
    others = [problem for problem in problems if problem.message != POINTER]
    for alike in found.values():
        first = alike[0]
        if len(alike) > 1:
            folder = Path(os.path.commonpath([problem.path.parent for problem in alike]))
            message = f"{len(alike):,} files are Git LFS pointers, not fetched: run `git lfs pull`"
            first = dataclasses.replace(first, path=folder, message=message)
        others.append(first)
    return others


def print_troubles(args: argparse.Namespace, report: Report, inputs: Inputs) -> None:
    """Everything that is no finding goes to standard error, so that machine formats stay pure."""
    hidden = 0
    for problem in report.problems:
        if problem.level == "note" and not args.show_notes:
            hidden += 1
            continue
        if problem.level == "warning" and args.quiet:
            continue
        cell = [] if problem.cell is None else [f"cell {problem.cell}"]
        numbers = [str(number) for number in (problem.line, problem.column) if number is not None]
        place = ":".join([shown_path(problem.path), *cell, *numbers])
        say(f"{place}: {problem.level}: {problem.message}")
    for error in report.errors:
        say(f"{shown_path(error.path)}: {error.title}: {error.error}")
        if os.environ.get("GPULINT_DEBUG"):
            say(*error.trace.split("\n"))
    for failure in inputs.plugins.failures:
        say(f"gpulint: plugin {failure.name} does not work: {failure.reason}")
    if report.errors:
        say(*_where_to_report(report))
    if args.quiet:
        return
    if not inputs.found.files:
        say("gpulint: no files to scan")
    if hidden and args.output_format == "full":
        say(f"{counted(hidden, 'note')} hidden; --show-notes shows {'it' if hidden == 1 else 'them'}")


def _where_to_report(report: Report) -> Iterator[str]:
    """To whom the errors of a run are to be reported."""
    how = "with the file if you can (GPULINT_DEBUG=1 shows where they happened)"
    if any(error.plugin is None for error in report.errors):
        yield f"Everything else was checked. Please report internal errors at {ISSUES} {how}."
    for plugin in dict.fromkeys(error.plugin for error in report.errors if error.plugin is not None):
        yield f"Everything else was checked. Please report errors of {plugin} {plugin.whom} {how}."


def add_colour(group: argparse._ActionsContainer) -> None:
    """Declare ``--color``."""
    group.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto",
        help="colours (default: auto, on a terminal unless NO_COLOR is set)",
    )  # fmt: skip


def is_terminal() -> bool:
    """Return whether standard output is read by a person, on a terminal that can do more than print lines."""
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def colour(choice: str = "auto") -> bool:
    """Return whether standard output shows colours. ``choice`` is that of ``--color``."""
    return choice == "always" or (choice == "auto" and is_terminal() and not os.environ.get("NO_COLOR"))


_WITH_LINKS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "rio")
"""Values of ``TERM_PROGRAM`` of terminals that show hyperlinks."""
_NAME_LINKS = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "ALACRITTY_WINDOW_ID", "DOMTERM")
"""Variables that such terminals set."""


def hyperlinks(choice: str = "auto") -> bool:
    """Return whether standard output shows hyperlinks. ``FORCE_HYPERLINK`` (0 or 1) decides if it is set; without
    colours none."""
    forced = os.environ.get("FORCE_HYPERLINK")
    if forced is not None or not colour(choice):
        return forced not in (None, "", "0")
    if not sys.stdout.isatty() or os.environ.get("CI"):
        return False
    vte = os.environ.get("VTE_VERSION", "")
    return (
        os.environ.get("TERM_PROGRAM") in _WITH_LINKS
        or any(os.environ.get(name) for name in _NAME_LINKS)
        or os.environ.get("TERM") in ("xterm-kitty", "xterm-ghostty", "foot", "alacritty")
        or (vte.isdecimal() and int(vte) >= 5000)
    )


def columns(most: int) -> int:
    """Width to fold text to: ``most``, or that of the terminal if it is narrower."""
    import shutil

    return max(20, min(most, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else most


class Progress:
    """A bar on standard error, for people only and only once a scan takes long."""

    DELAY_S = 1.0

    def __init__(self) -> None:
        import time

        self.clock = time.monotonic
        self.started = self.clock()
        self.bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` units are through."""
        if self.bar is None:
            if not sys.stderr.isatty() or self.clock() - self.started < self.DELAY_S:
                return
            from rich.console import Console
            from rich.progress import Progress

            self.bar = Progress(console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task("Scanning", total=total)
            self.bar.start()
        self.bar.update(self.task, completed=done, total=total)
