"""The audit of a cluster: how its jobs used their GPUs, from what the cluster recorded anyway."""

from __future__ import annotations

import argparse
from typing import Any

from gpulint.hooks import hookimpl


@hookimpl
def gpulint_commands(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add ``gpulint audit``."""
    from gpulint_audit.cli import add_parser

    add_parser(subparsers)
