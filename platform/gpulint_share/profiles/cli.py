"""``gpulint share profile``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.escaping import json_escapes, printable, say
from gpulint_share.errors import ShareError

if TYPE_CHECKING:
    from gpulint_share.profiles.profile import Profile, Value

_DESCRIPTION = """Show what is known about jobs: each figure with its bounds and its source. JOBS are the files that
`gpulint share plan` takes."""
DONE, MISUSE = 0, 2


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("profile", help="show what is known about jobs", description=_DESCRIPTION)
    parser.add_argument("jobs", nargs="+", type=Path, metavar="JOBS", help="a file or folder")
    parser.add_argument("--gpu", metavar="CARD", help="convert the figures to this card, such as A100-40GB")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command: 0, or 2 on misuse (one line on stderr)."""
    import json

    from gpulint_share.profiles import read
    from gpulint_share.profiles.converting import on_card

    try:
        jobs = [on_card(job, args.gpu) if args.gpu else job for job in read(args.jobs)]
    except ShareError as error:
        say(f"gpulint: error: {error}")
        return MISUSE
    if args.output_format == "json":
        plain = json.dumps([job.to_json() for job in jobs], indent=1, ensure_ascii=False)
        sys.stdout.write(json_escapes(plain) + "\n")
    else:
        sys.stdout.writelines(printable(line) + "\n" for job in jobs for line in _lines(job))
    return DONE


def _lines(job: Profile) -> Iterator[str]:
    from gpulint_share.profiles.profile import AMOUNTS, RATIOS

    known = job.figures()
    gpus = f"{job.gpus} x " if job.gpus > 1 else ""
    yield f"{job.name} ({gpus}{job.card or 'unknown card'})"
    for name, value in known.items():
        yield f"  {name:16}{_shown(name, value):<34}{value.source}"
    if missing := [name for name in (*RATIOS, *AMOUNTS) if name not in known]:
        yield f"  unknown: {', '.join(missing)}"


def _shown(name: str, value: Value) -> str:
    from gpulint_share.profiles.profile import MIB, RATIOS

    if name in RATIOS:
        mid, low, high = (f"{part:.0%}" for part in (value.mid, value.low, value.high))
    else:
        scale, unit = (MIB, " MiB") if name == "memory_bytes" else (1.0, "")
        mid, low, high = (f"{part / scale:,.5g}{unit}" for part in (value.mid, value.low, value.high))
    return mid if low == mid == high else f"{mid} ({low} to {high})"
