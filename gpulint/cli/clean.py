"""``gpulint clean``: remove the cache of a project."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from gpulint.cache import NAME, is_cache
from gpulint.cli import CLEAN
from gpulint.config import ConfigError
from gpulint.escaping import say


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "clean", help="remove the cache", description=f"Remove {NAME} of the project that the working directory is in."
    )
    parser.add_argument("--cache-dir", type=Path, metavar="FOLDER", help="remove this one instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Remove the cache, if there is one and gpulint made it."""
    from gpulint.discover import project_root

    folder: Path = args.cache_dir or project_root([Path.cwd()]) / NAME
    if not folder.exists():
        say(f"{folder}: no cache", file=sys.stdout)
        return CLEAN
    if not is_cache(folder):
        raise ConfigError(f"{folder}: not a cache of gpulint")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be removed: {error.strerror}") from None
    say(f"{folder}: removed", file=sys.stdout)
    return CLEAN
