"""``gpulint webhook``: serves the gate to a Kubernetes API server."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from gpulint.cli import CLEAN
from gpulint.config import ConfigError
from gpulint.escaping import say
from gpulint_gate.cli import VARIABLE
from gpulint_gate.policy import PolicyError, load


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "webhook",
        help="serve the gate as a Kubernetes admission webhook",
        description="Answer AdmissionReviews (admission.k8s.io/v1) at /validate. Serves /healthz and /metrics, too.",
    )
    parser.add_argument("--policy", metavar="FILE", help=f"TOML file (default: {VARIABLE}; without one, audit)")
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on (default: all)")
    parser.add_argument("--port", type=int, default=8443)
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain; read again when it changes")
    parser.add_argument("--tls-key", metavar="FILE", help="private key")
    parser.add_argument("--mirrors", metavar="FOLDER", help="bare repositories, as HOST/OWNER/NAME.git")
    parser.add_argument("--workers", type=int, metavar="N", help="worker processes (default: one per CPU)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it; returns the exit code."""
    if bool(args.tls_cert) != bool(args.tls_key):
        raise ConfigError("--tls-cert and --tls-key belong together")
    named = args.policy or os.environ.get(VARIABLE)
    try:
        policy = load(Path(named) if named else None)
    except PolicyError as error:
        raise ConfigError(str(error)) from None
    if args.mirrors and not Path(args.mirrors).is_dir():
        raise ConfigError(f"--mirrors {args.mirrors}: no such folder")
    try:
        import aiohttp  # noqa: F401
        import pebble  # noqa: F401
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"'gpulint webhook' needs the package {error.name!r}; install gpulint[gate]") from None
    import asyncio
    import ssl

    with tempfile.TemporaryDirectory(prefix="gpulint-webhook-") as folder:
        try:
            asyncio.run(_serve(args, policy, Path(folder)))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot serve: {error}") from None
        except KeyboardInterrupt:
            pass
    return CLEAN


async def _serve(args: argparse.Namespace, policy: Any, folder: Path) -> None:
    import asyncio
    import signal

    from aiohttp import web

    from gpulint_gate.mirrors import Mirrors
    from gpulint_gate.webhook import Certificate, Webhook

    mirrors = Mirrors(Path(args.mirrors)) if args.mirrors else None
    certificate = Certificate(Path(args.tls_cert), Path(args.tls_key)) if args.tls_cert else None
    runner = web.AppRunner(Webhook(policy, folder, mirrors, args.workers).application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, args.host, args.port, ssl_context=certificate.context if certificate else None)
    follow = asyncio.create_task(certificate.follow()) if certificate else None
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await site.start()
        scheme = "https" if certificate else "http"
        say(f"gpulint webhook: serving {scheme}://{args.host}:{args.port}/validate in mode {policy.mode}", flush=True)
        await stop.wait()
    finally:
        if follow is not None:
            follow.cancel()
        await runner.cleanup()
        if mirrors is not None:
            mirrors.close()
