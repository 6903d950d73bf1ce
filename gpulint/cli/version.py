"""``gpulint version``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpulint import __version__
from gpulint.cli import CLEAN
from gpulint.escaping import say


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser("version", help="print the version", description="Print the version.")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print it as ``--version`` does."""
    say(f"gpulint {__version__}", file=sys.stdout)
    return CLEAN
