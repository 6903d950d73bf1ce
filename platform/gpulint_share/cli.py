"""The sub-commands of ``gpulint share``."""

from __future__ import annotations

import argparse
from typing import Any

from gpulint_share.controller import cli as controller
from gpulint_share.planning import cli as planning
from gpulint_share.profiles import cli as profiles
from gpulint_share.simulation import cli as simulate

_DESCRIPTION = "Predict which jobs can share GPUs, plan and simulate it, and start held jobs on shared GPUs."


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command with its sub-commands."""
    parser = subparsers.add_parser("share", help="plan which jobs share a GPU", description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="share_command", metavar="COMMAND", required=True)
    parser.set_defaults(parser=parser)
    profiles.add(commands)
    planning.add(commands)
    simulate.add(commands)
    controller.add(commands)
