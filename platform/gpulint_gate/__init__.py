"""``gpulint gate``: judges a job when it is submitted, before it holds GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpulint.hooks import hookimpl

if TYPE_CHECKING:
    import argparse


@hookimpl
def gpulint_commands(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add ``gpulint comment``, ``gpulint gate``, ``gpulint submit`` and ``gpulint webhook``."""
    from gpulint_gate import cli, comment, submit, webhook_cli

    cli.add(subparsers)
    submit.add(subparsers)
    webhook_cli.add(subparsers)
    comment.add(subparsers)
