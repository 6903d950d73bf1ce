"""The parser of the command line: its commands are imported only as far as the arguments name them."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import Any, NoReturn

from gpulint import __version__
from gpulint.escaping import no_command, printable, say

COMMANDS = ("scan", "fix", "baseline", "rules", "explain", "config", "init", "completion", "lsp", "clean")


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors hold nothing that a terminal obeys; its sub-commands use it, too."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message("\n".join(no_command(printable(line)) for line in message.split("\n")), file)


def parser_for(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that understands ``arguments``; without any it has all commands, those of plugins included."""
    parser = Parser(
        prog="gpulint",
        description="Find and repair what leaves GPUs idle in deep-learning jobs, before they are submitted.",
    )
    parser.add_argument("-V", "--version", action="version", version=f"gpulint {__version__}")
    commands: argparse._SubParsersAction[Any] = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    named = next((word for word in arguments if not word.startswith("-")), None)
    for name in COMMANDS if named not in COMMANDS else (named,):
        importlib.import_module(f"gpulint.cli.{name}").add(commands)
    if named not in COMMANDS:
        # Only what is not built in, or a request for help, has to know the plugins' commands.
        from gpulint import plugins

        loaded = plugins.load()
        plugins.add_commands(loaded, commands)
        for failure in loaded.failures:
            say(f"gpulint: plugin {failure.name} does not work: {failure.reason}")
    return parser
