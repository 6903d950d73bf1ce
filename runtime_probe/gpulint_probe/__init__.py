"""The runtime probe: what a job's GPUs really do, and what they would hold."""

from __future__ import annotations

import argparse
from typing import Any

from gpulint.hooks import hookimpl


@hookimpl
def gpulint_commands(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add ``gpulint estimate`` and ``gpulint probe``."""
    from gpulint_probe import cli
    from gpulint_probe.estimator.cli import add_parser

    add_parser(subparsers)
    cli.add_parser(subparsers)
