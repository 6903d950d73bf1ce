"""The command line: parses arguments, calls one command, turns failures into messages and exit codes.

Exit codes: 0 clean, 1 findings or files that could not be checked, 2 misuse or bad settings, 3 internal error.
"""

from __future__ import annotations

import os
import sys

from gpulint import __version__

TYPE_CHECKING = False  # importing typing takes longer than all else that --version does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from gpulint.failures import Origin

CLEAN, FINDINGS, MISUSE, INTERNAL = 0, 1, 2, 3
INTERRUPTED = 130
ISSUES = "https://github.com/gpulint/gpulint/issues"


def main(argv: Sequence[str] | None = None) -> int:
    """Run gpulint with ``argv`` and return its exit code; without, take the process's arguments and end the process."""
    return _main(argv) if argv is not None else _whole_process()


def _whole_process() -> NoReturn:
    import gc

    # The process is over with its command: neither collecting garbage nor freeing what it made one by one pays off.
    gc.disable()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the process was started with the stream closed
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - until the end
    _leave(_main(sys.argv[1:]))


def _leave(code: int) -> NoReturn:
    """End the process as the interpreter would, but for freeing every object."""
    import atexit

    atexit._run_exitfuncs()  # of plugins, coverage and the like
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # reported by ``guarded``, as it flushes first
            code = code or INTERNAL
    os._exit(code)


def _main(argv: Sequence[str]) -> int:
    arguments = list(argv)
    if arguments in (["--version"], ["-V"], ["version"]):
        return guarded(_version, None)
    import io

    from gpulint.cli.parser import parse

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # File names and source may hold what the terminal's encoding cannot show.
            stream.reconfigure(errors="backslashreplace")
    try:
        args = parse(arguments)
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else MISUSE
    return guarded(args.run, args)


def _version(_: object) -> int:
    sys.stdout.write(f"gpulint {__version__}\n")
    return CLEAN


def guarded(command: Callable[[Any], int], args: argparse.Namespace | None) -> int:
    """Exit code of ``command``; whatever it raises becomes one line on standard error."""
    try:
        code = command(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader went away (``| head``): nothing is left to say, and Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN
    except KeyboardInterrupt:
        _say("gpulint: interrupted")
        return INTERRUPTED
    except Exception as error:
        return _failed(error, getattr(args, "origin", None))


def _failed(error: Exception, origin: Origin | None) -> int:
    """Exit code for what a command raised; ``origin`` is the plugin that brings the command."""
    import errno

    from gpulint.config import ConfigError

    if isinstance(error, ConfigError):
        _say(f"gpulint: error: {error}")
        return MISUSE
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        _say(f"gpulint: error: the output is incomplete: {error.strerror}")
        return INTERNAL
    if os.environ.get("GPULINT_DEBUG"):
        raise error
    whose = f"error in {origin}" if origin is not None else "internal error"
    _say(f"gpulint: {whose}: {type(error).__name__}: {error}")
    where = origin.whom if origin is not None else f"at {ISSUES}"
    _say(f"Please report it {where} with the output under GPULINT_DEBUG=1.")
    return INTERNAL


def _say(line: str) -> None:
    from gpulint.escaping import say

    say(line)
