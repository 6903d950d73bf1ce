"""The runtime probe: what a job's GPUs really do, and what they would hold."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpulint.hooks import hookimpl

if TYPE_CHECKING:
    from gpulint.estimates import BatchSizes


@hookimpl
def gpulint_commands(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add ``gpulint estimate`` and ``gpulint probe``."""
    from gpulint_probe import cli
    from gpulint_probe.estimator.cli import add_parser

    add_parser(subparsers)
    cli.add_parser(subparsers)


@hookimpl
def gpulint_batch_sizes(arguments: Sequence[str]) -> BatchSizes:
    """Simulate the job that the arguments of ``gpulint estimate`` describe."""
    from gpulint_probe.estimator.cli import batch_sizes

    return batch_sizes(arguments)
