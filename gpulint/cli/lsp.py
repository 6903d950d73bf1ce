"""``gpulint lsp``: the language server that editors start."""

from __future__ import annotations

import argparse
from typing import Any

from gpulint.config import ConfigError


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "lsp",
        help="serve editors (needs the extra 'lsp')",
        description="Speak the Language Server Protocol on standard input and output. Editors start this themselves.",
    )
    # Many clients add this to every server's command line; there is no other transport.
    parser.add_argument("--stdio", action="store_true", help="(default, for editors that insist)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until the editor says ``exit`` or goes away; 0 if it asked for ``shutdown`` before that, else 1."""
    try:
        import lsprotocol  # noqa: F401
        import pygls  # noqa: F401
    except ModuleNotFoundError as error:
        from gpulint.extras import missing

        raise ConfigError(missing("gpulint lsp", error.name or "pygls", "lsp")) from None
    from gpulint.lsp.server import serve

    return serve()
