"""``gpulint clean``: remove the cache."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from gpulint.cache.folder import Refused
from gpulint.cache.location import OLD_NAME, Location, in_folder, locate, of_user
from gpulint.cli import CLEAN
from gpulint.config import ConfigError, load
from gpulint.counting import counted
from gpulint.escaping import say


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "clean",
        help="remove the cache",
        description="Remove the user's cache for all projects, and the cache of the current project: the folder of its"
        f" setting cache-dir, and {OLD_NAME} of earlier versions.",
    )
    parser.add_argument("--cache-dir", metavar="FOLDER", help="remove this cache instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Remove each cache that exists and that gpulint made.

    Raises:
        ConfigError: a folder that is no cache, or cannot be removed; the others were removed.
    """
    failures = []
    for location in _locations(args.cache_dir):
        try:
            say(f"{location.path}: {_removed(location)}", file=sys.stdout)
        except FileNotFoundError:
            say(f"{location.path}: no cache", file=sys.stdout)
        except Refused as refusal:
            failures.append(f"{refusal}; not removed")
        except OSError as error:
            failures.append(f"{location.path}: could not be removed: {error.strerror or error}")
    if failures:
        raise ConfigError("\n".join(failures))
    return CLEAN


def _removed(location: Location) -> str:
    with location.existing() as folder:
        if not folder.is_cache():
            raise Refused(f"{location.path} is not a gpulint cache")
        others = folder.clear()
    if others:
        return f"emptied, but kept with {counted(others, 'entry')} that gpulint did not write"
    return "removed"


def _locations(option: str | None) -> list[Location]:
    from gpulint.discover import project_root

    folder = Path.cwd()
    chosen = locate(option, load(folder, isolated=option is not None), [folder])
    found = [chosen]
    if option is None:
        found.append(of_user(chosen.trees if chosen is not None else ()))
        old = in_folder(project_root([folder]), OLD_NAME)
        if os.path.lexists(old.path):
            found.append(old)
    return [location for at, location in enumerate(found) if location is not None and location not in found[:at]]
