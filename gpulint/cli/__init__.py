"""The command line: parses arguments, calls one command, turns failures into messages and exit codes.

Exit codes: 0 clean, 1 findings or files that could not be checked, 2 misuse or bad settings, 3 internal error.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gpulint import __version__
from gpulint.escaping import no_command, printable, say

CLEAN, FINDINGS, MISUSE, INTERNAL = 0, 1, 2, 3
INTERRUPTED = 130
ISSUES = "https://github.com/gpulint/gpulint/issues"
COMMANDS = ("scan", "fix", "baseline", "rules", "explain", "config", "init", "completion", "lsp", "clean")


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors hold nothing that a terminal obeys; its sub-commands use it, too."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message("\n".join(no_command(printable(line)) for line in message.split("\n")), file)


def main(argv: Sequence[str] | None = None) -> int:
    """Run gpulint with ``argv`` and return its exit code; without, take the process's arguments and end the process."""
    if argv is not None:
        return _main(argv)
    # The process is over with its command: neither collecting garbage nor freeing what it made one by one pays off.
    gc.disable()
    code = _main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _main(argv: Sequence[str]) -> int:
    arguments = list(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # File names and source may hold what the terminal's encoding cannot show.
            stream.reconfigure(errors="backslashreplace")
    if arguments in (["--version"], ["-V"]):
        say(f"gpulint {__version__}", file=sys.stdout)
        return CLEAN
    try:
        args = _parser(arguments).parse_args(arguments)
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else MISUSE
    return guarded(args.run, args)


def guarded(command: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Exit code of ``command``; whatever it raises becomes one line on standard error."""
    from gpulint.config import ConfigError

    try:
        code = command(args)
        sys.stdout.flush()
        return code
    except ConfigError as error:
        say(f"gpulint: error: {error}")
        return MISUSE
    except BrokenPipeError:
        # The reader went away (``| head``): nothing is left to say, and Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN
    except KeyboardInterrupt:
        say("gpulint: interrupted")
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("GPULINT_DEBUG"):
            raise
        origin = getattr(args, "origin", None)  # of a command that a plugin brings
        whose = f"error in {origin}" if origin is not None else "internal error"
        say(f"gpulint: {whose}: {type(error).__name__}: {error}")
        where = origin.whom if origin is not None else f"at {ISSUES}"
        say(f"Please report it {where} with the output under GPULINT_DEBUG=1.")
        return INTERNAL


def full_parser() -> argparse.ArgumentParser:
    """The parser with all commands, those of plugins included."""
    return _parser(())


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
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
