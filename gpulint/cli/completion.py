"""``gpulint completion``: a script that lets a shell complete gpulint's commands, options, rules and formats."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpulint.cli import CLEAN
from gpulint.cli.parser import parser_for

SHELLS = ("bash", "zsh", "fish")
_RULES = ("RULES", "RULE")
"""Metavars of arguments that take rules."""
_PATHS = ("PATH", "PATHS", "FILE", "FOLDER", "DIR")


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "completion",
        help="print a completion script for your shell",
        description="Print a completion script. bash: put 'eval \"$(gpulint completion bash)\"' into ~/.bashrc."
        " zsh: write it to a file _gpulint in a folder of $fpath. fish: write it to"
        " ~/.config/fish/completions/gpulint.fish.",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from gpulint import plugins

    parser = parser_for(())
    rules = [word for rule in plugins.load().rules for word in (rule.code, rule.name)]
    # This parser only describes the command line: nothing is parsed with it, so that it may be changed.
    for action in _actions(parser):
        if action.metavar in _RULES:
            action.choices = sorted(rules)
        elif action.type is Path or action.metavar in _PATHS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(parser, args.shell) + "\n")
    return CLEAN


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a parser and of all its sub-commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for name in action.choices:
                yield from _actions(action.choices[name])
