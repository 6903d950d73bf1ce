"""Options of ``gpulint probe`` that say what to report, and the command ``gpulint probe compare``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpulint_probe.recording import Recording, RecordingError

if TYPE_CHECKING:
    from gpulint_probe.analysis import Analysis
    from gpulint_probe.analysis.batch import BatchAdvice, Estimator


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    group = parser.add_argument_group("report")
    group.add_argument("--html", type=Path, metavar="FILE", help="write a report with a timeline, all in one file")
    group.add_argument("--png", type=Path, metavar="FILE", help="draw the timeline; needs matplotlib")
    group.add_argument("--json", type=Path, metavar="FILE", help="write all figures and the verdict (- for stdout)")
    group.add_argument("-q", "--quiet", action="store_true", help="no summary")
    group.add_argument("--no-findings", action="store_true", help="do not scan the program for an explanation")
    batch = parser.add_argument_group("batch size, as in gpulint estimate (the factory's code is run)")
    batch.add_argument("--suggest-batch", action="store_true", help="the batch that fits, by measurement and estimate")
    batch.add_argument("--model", metavar="TARGET", help="factory: train.py:build, timm:NAME, hf:PATH/config.json")
    batch.add_argument("--input", action="append", default=[], dest="inputs", metavar="SPEC", help="shape of a sample")
    batch.add_argument("--batch-size", type=_positive, metavar="N", help="batch of one GPU in this run")
    batch.add_argument("--optimizer", default="adamw", help="(default: adamw)")
    batch.add_argument("--precision", default="fp32", help="(default: fp32)")


def report(recording: Recording, args: argparse.Namespace, stream: TextIO) -> None:
    """Write and print what the options ask for. Raises RecordingError."""
    from gpulint_probe.analysis import Program, analyse, read_program

    program = Program() if args.no_findings else read_program(recording.command, recording.cwd, len(recording.gpus))
    analysis = analyse(recording, program)
    advice = _advice(analysis, args) if args.suggest_batch else None
    if args.json is not None:
        _write_json(analysis, advice, args.json)
    if args.html is not None:
        from gpulint_probe.reporting.html import html

        _write(args.html, html(analysis, advice=advice))
    if args.png is not None:
        from gpulint_probe.reporting.png import write_png

        write_png(analysis, args.png)
    if not args.quiet:
        from gpulint_probe.reporting.page import page

        stream.write(page(analysis, advice=advice, colour=_colour(stream), width=_width()))


def compare_command(arguments: Sequence[str]) -> int:
    """``gpulint probe compare BEFORE AFTER``: 0, or 2 on misuse. Raises RecordingError."""
    parser = argparse.ArgumentParser(
        prog="gpulint probe compare",
        description="Compare two recordings of gpulint probe: utilization, duration, speed, energy and causes of loss.",
    )
    parser.add_argument("before", type=Path, metavar="BEFORE")
    parser.add_argument("after", type=Path, metavar="AFTER")
    parser.add_argument("--json", action="store_true", help="print JSON")
    try:
        args = parser.parse_args(arguments)
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 2
    from gpulint_probe.analysis import analyse
    from gpulint_probe.analysis.compare import compare
    from gpulint_probe.reporting.comparison import comparison_page

    found = compare(*(analyse(Recording.read(path)) for path in (args.before, args.after)))
    if args.json:
        print(json.dumps(found.to_json(), indent=2))
    else:
        sys.stdout.write(comparison_page(found, colour=_colour(sys.stdout), width=_width()))
    return 0


def _advice(analysis: Analysis, args: argparse.Namespace) -> BatchAdvice:
    from gpulint_probe.analysis.batch import BatchAdvice, batch_in_command, suggest
    from gpulint_probe.estimator.errors import EstimateError

    batch = args.batch_size or batch_in_command(analysis.recording.command)
    try:
        estimate = _estimator(args, batch or 1) if args.model else None
        return suggest(analysis.seen.series, batch, estimate)
    except EstimateError as error:
        return BatchAdvice([f"no suggestion: {error}"])


def _estimator(args: argparse.Namespace, batch: int) -> Estimator:
    """The estimator for the model that the options name. Raises EstimateError."""
    from gpulint_probe.estimator.errors import EstimateError

    try:
        from gpulint_probe.estimator.api import Request, build_job, trace_job
        from gpulint_probe.estimator.cards import card_of_memory
        from gpulint_probe.estimator.simulate import simulate
    except ImportError as error:
        raise EstimateError(f"--suggest-batch needs {error.name}: pip install 'gpulint[probe]'") from None
    job = build_job(
        Request(args.model, tuple(args.inputs), batch_size=batch, optimizer=args.optimizer, precision=args.precision)
    )
    context = card_of_memory(1).context_bytes

    def estimate(size: int, training: bool) -> int:
        return simulate(trace_job(job, size, training)).reserved + context

    return estimate


def _write_json(analysis: Analysis, advice: BatchAdvice | None, path: Path) -> None:
    from dataclasses import asdict

    document = analysis.to_json() | ({"batch": asdict(advice)} if advice is not None else {})
    text = json.dumps(document, indent=2) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        _write(path, text)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number, 1 or more")
    return int(text)


def _width() -> int:
    return min(120, shutil.get_terminal_size().columns)


def _colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")
