"""``gpulint probe``: run or watch a job, record what its GPUs did, report."""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gpulint.escaping import say
from gpulint_probe.reporting import cli as reporting

if TYPE_CHECKING:
    from gpulint_probe.recording import Recording
    from gpulint_probe.sources import SourceOptions

_DESCRIPTION = """Run a job unchanged and report how well it used its GPUs. The job keeps its output, signals and exit
code; the report is written to standard error. Without a command, --pid measures a running job, --duration the whole
machine, and --since queries a Prometheus server about a past job. Other commands: `gpulint probe report FILE` reports
on a recording (like --replay), `compare` compares runs, `merge` merges the recordings of all ranks, `import` reads
profiles of other tools, and `live` shows a recording while it is written."""
_SHORTEST_S = 0.1
_NOT_FOUND = 127


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command to a command line."""
    parser = subparsers.add_parser(
        "probe",
        help="run a job and report how well it used its GPUs",
        description=_DESCRIPTION,
        usage="gpulint probe [options] [--] COMMAND ...",
    )
    add = parser.add_argument
    add("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the job and its arguments")
    add("--pid", "--attach", type=int, metavar="N", help="measure the running process N and its children until it ends")
    add(
        "--duration",
        type=_seconds,
        metavar="TIME",
        help="stop measuring after TIME, such as 90s or 5m; the job continues",
    )
    add(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="TIME",
        help="time between samples, at least 0.1s (default: 1s)",
    )
    add("-o", "--output", type=Path, metavar="FILE", help="write the recording to FILE (JSON lines) while the job runs")
    add("--live", action="store_true", help="show GPUs, host and causes of the last minutes while the job runs")
    add("--replay", type=Path, metavar="FILE", help="report on a recording")
    add("--csv", type=Path, metavar="FILE", help="write the tables FILE.gpu.csv, FILE.host.csv and FILE.marks.csv")
    add("--parquet", type=Path, metavar="FILE", help="write the same tables in Parquet; needs pyarrow")
    add("--no-log", action="store_true", help="do not read the job's output, and find no phases in it")
    add("--no-inside", action="store_true", help="do not sample the Python stacks of the job's processes")
    source = parser.add_argument_group("where the figures come from")
    source.add_argument(
        "--source",
        choices=("auto", "gpm", "nvml", "dcgm", "prometheus", "amd", "none"),
        default="auto",
        help="default: the one that sees most",
    )
    source.add_argument("--gpus", metavar="LIST", help="indices or UUIDs, or all (default: CUDA_VISIBLE_DEVICES)")
    source.add_argument("--dcgm", metavar="URL", help="dcgm-exporter (default: http://localhost:9400/metrics)")
    source.add_argument("--prometheus", metavar="URL", help="Prometheus server with the metrics of DCGM")
    source.add_argument(
        "--prometheus-match", metavar="LABELS", help='label matchers (default: Hostname="this machine\'s name")'
    )
    source.add_argument(
        "--since", type=_moment, metavar="TIME", help="report on a past job; its start: 2026-05-01T12:00, 3h"
    )
    source.add_argument("--until", type=_moment, metavar="TIME", help="end of the past job (default: now)")
    reporting.add_options(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Run the command: the job's exit code, or 0 without a job, or 2 on misuse (one line on stderr)."""
    # The engine's runs are short and do not collect garbage; this one may last for days.
    gc.enable()
    from gpulint_probe.recording import RecordingError
    from gpulint_probe.sources import SourceUnavailable

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    ways = [bool(command), args.pid is not None, args.replay is not None, args.since is not None]
    if sum(ways) > 1:
        return _fail("a command, --pid, --replay and --since exclude each other")
    if sum(ways) == 0 and args.duration is None:
        return _fail("nothing to watch: give a command, --pid, --duration, --replay or --since")
    if args.interval < _SHORTEST_S:
        return _fail(f"--interval must be {_SHORTEST_S:g} s at least")
    try:
        if args.command and args.command[0] in _COMMANDS:
            return _COMMANDS[args.command[0]](args.command[1:])
        if args.command[:1] == ["report"]:
            # The options behind the command were taken for the job's own.
            if not {"-h", "--help"}.isdisjoint(args.command):
                args.parser.print_help()
                return 0
            try:
                args = _report_options(args)
            except SystemExit as exit:
                return exit.code if isinstance(exit.code, int) else 2
        if args.replay is not None:
            from gpulint_probe.recording import Recording

            return _finish(Recording.read(args.replay), args, sys.stdout)
        if args.since is not None:
            return _finish(_past(args), args, sys.stdout)
        try:
            import psutil  # noqa: F401
        except ImportError:
            from gpulint.extras import missing

            return _fail(missing("gpulint probe", "psutil", "probe"))
        return _watch(command, args)
    except (RecordingError, SourceUnavailable) as error:
        return _fail(str(error))


def _report_options(args: argparse.Namespace) -> argparse.Namespace:
    """Those of ``report FILE``, in any order. Raises RecordingError and SystemExit."""
    from gpulint_probe.recording import RecordingError

    args = args.parser.parse_args(args.command[1:], args)
    if not args.command:
        raise RecordingError("missing FILE: gpulint probe report FILE")
    args.replay = Path(args.command[0])
    args = args.parser.parse_args(args.command[1:], args)
    if args.command:
        raise RecordingError(
            f"report takes one recording, not {args.command[0]} as well; see 'gpulint probe merge' and 'compare'"
        )
    return args


def _compare(arguments: Sequence[str]) -> int:
    from gpulint_probe.reporting.compare_cli import compare_command

    return compare_command(arguments)


def _live(arguments: Sequence[str]) -> int:
    from gpulint_probe.live.cli import live_command

    return live_command(arguments)


def _merge(arguments: Sequence[str]) -> int:
    from gpulint_probe.ranks.cli import merge_command

    return merge_command(arguments)


def _import(arguments: Sequence[str]) -> int:
    from gpulint_probe.imports.cli import import_command

    return import_command(arguments)


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "compare": _compare,
    "import": _import,
    "live": _live,
    "merge": _merge,
}
"""Words that name no job but what to do with recordings."""


def _watch(command: list[str], args: argparse.Namespace) -> int:
    """Run or follow the job, then report. Raises RecordingError and SourceUnavailable before the job starts only."""
    from gpulint.suggestions import suggestion
    from gpulint_probe.lifecycle import CannotStart
    from gpulint_probe.ranks.place import own_files
    from gpulint_probe.session import Session

    if args.live:
        from gpulint_probe.live.cli import need_terminal

        need_terminal()
    own_files(args, os.environ)
    path = args.output
    if path is None:
        handle, name = tempfile.mkstemp(prefix="gpulint-", suffix=".jsonl")
        os.close(handle)
        path = Path(name)
    try:
        try:
            session = Session(path, args, command, _source_options(args))
            code = session.run()
        except CannotStart as error:
            meant = suggestion(command[0], [*_COMMANDS, "report"]) if error.exit_code == _NOT_FOUND and command else ""
            say(f"gpulint: error: {error}{meant}")
            return error.exit_code
        if session.failure:
            say(f"gpulint: warning: the recording is incomplete: {session.failure}")
        _report_after(path, args)
        return code
    finally:
        if args.output is None:
            path.unlink(missing_ok=True)


def _report_after(path: Path, args: argparse.Namespace) -> None:
    """Report on a job that ran. Whatever goes wrong is a warning: the exit code is the job's."""
    from gpulint_probe.recording import Recording, RecordingError

    try:
        _finish(Recording.read(path), args, sys.stderr)
    except RecordingError as error:
        say(f"gpulint: warning: the report is incomplete: {error}")
    except Exception as error:
        if os.environ.get("GPULINT_DEBUG"):
            raise
        say(f"gpulint: warning: no report: internal error: {type(error).__name__}: {error}")


def _past(args: argparse.Namespace) -> Recording:
    """A recording of what a Prometheus server knows about the time between --since and --until."""
    from gpulint_probe.recording import Recording
    from gpulint_probe.sources import SourceUnavailable
    from gpulint_probe.sources.prometheus import PrometheusSource
    from gpulint_probe.sources.selection import wanted_gpus

    if args.prometheus is None:
        raise SourceUnavailable("--since needs --prometheus URL")
    until = time.time() if args.until is None else args.until
    if until <= args.since:
        raise SourceUnavailable("--until must be after --since")
    step = args.interval if args.interval > 1 else 15.0
    source = PrometheusSource(
        wanted_gpus(args.gpus, {}),
        args.prometheus,
        match=args.prometheus_match,
        step_s=step,
        since=args.since,
        until=until,
    )
    return Recording(
        command=[],
        cwd="",
        started=args.since,
        ended=until,
        interval_s=step,
        source=source.name,
        blind_spots=[*source.blind_spots, "the host: CPU, memory, disk and network", "the job's log"],
        gpus=source.gpus,
        gpu_samples=source.history(),
        notes=source.troubles(),
    )


def _source_options(args: argparse.Namespace) -> SourceOptions:
    from gpulint_probe.session import environment_of
    from gpulint_probe.sources import SourceOptions
    from gpulint_probe.sources.selection import wanted_gpus

    return SourceOptions(
        wanted=wanted_gpus(args.gpus, environment_of(args.pid)),
        dcgm_url=args.dcgm,
        prometheus_url=args.prometheus,
        prometheus_match=args.prometheus_match,
        interval_s=args.interval,
    )


def _finish(recording: Recording, args: argparse.Namespace, stream: TextIO) -> int:
    """Write what was asked for, and report, each even if the others fail. Raises RecordingError."""
    from gpulint_probe.recording import RecordingError

    errors = []
    steps: list[Callable[[], object]] = [lambda: reporting.report(recording, args, stream)]
    if args.output is not None and (args.since is not None or args.replay is not None):
        steps.append(lambda: recording.write(args.output))
    if args.csv is not None or args.parquet is not None:
        from gpulint_probe import export

        if args.csv is not None:
            steps.append(lambda: export.write_csv(recording, args.csv))
        if args.parquet is not None:
            steps.append(lambda: export.write_parquet(recording, args.parquet))
    for step in steps:
        try:
            step()
        except RecordingError as error:
            errors.append(str(error))
    if errors:
        raise RecordingError("; ".join(errors))
    return 0


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "ms": 0.001}


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip())
    if match is None or match[2] not in _UNITS or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 0.5, 90s, 5m or 2h")
    return float(match[1]) * _UNITS[match[2]]


def _moment(text: str) -> float:
    """Unix time of an ISO date and time, of a Unix time, or of a time ago."""
    try:
        if re.fullmatch(r"\d{9,}(?:\.\d+)?", text):
            return float(text)
        if re.fullmatch(r"[\d.]+[smhd]", text):
            return time.time() - _seconds(text)
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-05-01T12:00 or 3h (ago)") from None


def _fail(message: str) -> int:
    say(f"gpulint: error: {message}")
    return 2
