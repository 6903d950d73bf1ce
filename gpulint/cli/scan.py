"""``gpulint scan``: options, settings and output of one run."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.cli import CLEAN, FINDINGS, INTERNAL, ISSUES
from gpulint.config import Config, ConfigError, load
from gpulint.finding import Severity
from gpulint.reporters import FORMATS, Context, render

if TYPE_CHECKING:
    from gpulint.discover import Discovery
    from gpulint.engine import Report
    from gpulint.plugins import Plugins
    from gpulint.rule import Rule

_FOR_PEOPLE = ("full", "concise")
_WITHOUT_FIXES = ("concise", "github")


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "scan", help="report what leaves GPUs idle", description="Report what leaves GPUs idle."
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: .); - for standard input")
    choice = parser.add_argument_group(
        "choice of rules (code, prefix, name, category, dimension or ALL; comma-separated)"
    )
    for option, text in (
        ("--select", "run these instead of the default selection"),
        ("--extend-select", "run these as well"),
        ("--ignore", "do not run these"),
    ):
        choice.add_argument(option, action="extend", default=[], metavar="RULES", type=_list, help=text)
    levels = [str(level) for level in Severity]
    choice.add_argument("--severity", choices=levels, help="report nothing below this severity (default: info)")
    output = parser.add_argument_group("output")
    output.add_argument("--output-format", choices=FORMATS, default="full", help="(default: full)")
    output.add_argument(
        "--output-file", type=Path, metavar="FILE", help="write findings there instead of standard output"
    )
    output.add_argument("--statistics", action="store_true", help="count the findings of each rule")
    output.add_argument("--show-notes", action="store_true", help="list what was skipped, and why")
    output.add_argument("--report-unused-ignores", action="store_true", help="report suppressions that hide nothing")
    output.add_argument("-q", "--quiet", action="store_true", help="print findings and errors only")
    output.add_argument("--exit-zero", action="store_true", help="exit 0 even if there are findings")
    settings = parser.add_argument_group("settings")
    settings.add_argument("--config", type=Path, metavar="FILE", help="use this settings file")
    settings.add_argument("--isolated", action="store_true", help="use no settings file")
    # Each process finds out by itself what spans the tree, so that two take 1.7 times the CPU time of one.
    settings.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="processes (default 1; 0: one per core)")
    settings.add_argument("--stdin-filename", metavar="PATH", help="scan standard input as if it were this file")
    parser.set_defaults(run=run)


def _list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _jobs(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Scan and report; returns the exit code."""
    from gpulint import engine, plugins
    from gpulint.project import Project

    paths, stdin = _paths(args)
    settings = _settings(args, paths)
    config = _overlaid(args, settings)
    loaded = plugins.load()
    _check_selectors(args, settings, loaded)
    rules, unused_ignores = _rules(args, config, loaded)
    found, root = _discover(paths, config, stdin)
    project = Project(root, _surroundings(paths, found.files, config, root), config)
    if stdin is not None:
        project.provide(paths[0], stdin)
    # A run is short and keeps nearly all that it makes; collecting garbage would take half of its time.
    collects = gc.isenabled()
    gc.disable()
    with _Progress() as progress:
        report = engine.run(
            project,
            found.files,
            rules,
            fixers={} if args.output_format in _WITHOUT_FIXES else loaded.fixers,
            jobs=args.jobs or len(os.sched_getaffinity(0)),
            report_unused_ignores=unused_ignores,
            progress=progress.update,
        )
    if collects:
        gc.enable()
    report.problems = sorted(
        [*found.problems, *report.problems], key=lambda problem: (str(problem.path), problem.line or 0)
    )
    _print_troubles(args, report, loaded, found)
    _print_findings(args, report, Context(project, rules, Path.cwd(), _colour(args)))
    if report.errors or loaded.failures:
        return INTERNAL
    troubled = report.results or any(problem.is_error for problem in report.problems)
    return FINDINGS if troubled and not args.exit_zero else CLEAN


def _paths(args: argparse.Namespace) -> tuple[list[Path], bytes | None]:
    """What to scan, as absolute paths, and the content of standard input if that is meant."""
    from gpulint.discover import absolute

    if args.stdin_filename is not None or "-" in args.paths:
        if args.stdin_filename is None:
            raise ConfigError("'-' needs --stdin-filename, which says what kind of file standard input is")
        if args.paths not in ([], ["-"]):
            raise ConfigError("standard input and other paths cannot be scanned together")
        return [absolute(Path(args.stdin_filename))], sys.stdin.buffer.read()
    paths = [absolute(Path(path)) for path in args.paths or ["."]]
    for given, path in zip(args.paths, paths, strict=False):
        if not path.exists():
            raise ConfigError(f"{given}: no such file or folder")
    return paths, None


def _settings(args: argparse.Namespace, paths: Sequence[Path]) -> Config:
    folders = [path if path.is_dir() else path.parent for path in paths]
    return load(Path(os.path.commonpath(folders)), explicit=args.config, isolated=args.isolated)


def _overlaid(args: argparse.Namespace, config: Config) -> Config:
    """The settings with the command line laid over them.

    ``--select`` starts afresh: what the file selects or ignores was meant for its own selection.
    """
    if args.select:
        config = dataclasses.replace(config, select=tuple(args.select), ignore=(), extend_select=())
    return dataclasses.replace(
        config,
        ignore=(*config.ignore, *args.ignore),
        extend_select=(*config.extend_select, *args.extend_select),
        severity=Severity[args.severity.upper()] if args.severity else config.severity,
    )


def _check_selectors(args: argparse.Namespace, settings: Config, loaded: Plugins) -> None:
    """Refuse selectors, on the command line or in the settings file, that name nothing."""
    from gpulint.selection import check_selectors
    from gpulint.suppress import UNUSED_IGNORE

    known = [*loaded.rules, UNUSED_IGNORE]
    check_selectors([*args.select, *args.extend_select, *args.ignore], known, "command line")
    in_file = [*(settings.select or ()), *settings.extend_select, *settings.ignore]
    in_file += [word for words in settings.per_file_ignores.values() for word in words]
    check_selectors(in_file, known, str(settings.source))


def _rules(args: argparse.Namespace, config: Config, loaded: Plugins) -> tuple[tuple[Rule, ...], bool]:
    """The rules to run, and whether unused suppressions are to be reported."""
    from gpulint.selection import select
    from gpulint.suppress import UNUSED_IGNORE

    rules = select([*loaded.rules, UNUSED_IGNORE], config.select, config.extend_select, config.ignore)
    unused = args.report_unused_ignores or UNUSED_IGNORE in rules
    return tuple(rule for rule in rules if rule is not UNUSED_IGNORE), unused


def _discover(paths: Sequence[Path], config: Config, stdin: bytes | None) -> tuple[Discovery, Path]:
    from gpulint.discover import Discovery, discover, project_root

    root = project_root(paths)
    return (discover(paths, config, root) if stdin is None else Discovery([*paths])), root


def _surroundings(paths: Sequence[Path], files: Sequence[Path], config: Config, root: Path) -> list[Path]:
    """What rules may read besides: for single files the project, so that a program is judged with its launcher."""
    from gpulint.discover import discover, is_project

    if any(path.is_dir() for path in paths) or not is_project(root):
        return [*files]
    return sorted({*files, *discover([root], config, root).files})


def _print_troubles(args: argparse.Namespace, report: Report, loaded: Plugins, found: Discovery) -> None:
    """Everything that is no finding goes to standard error, so that machine formats stay pure."""
    skipped = 0
    for problem in report.problems:
        if not problem.is_error and not args.show_notes:
            skipped += 1
            continue
        numbers = [str(number) for number in (problem.line, problem.column) if number is not None]
        place = ":".join([os.path.relpath(problem.path), *numbers])
        print(f"{place}: {'error' if problem.is_error else 'note'}: {problem.message}", file=sys.stderr)
    for error in report.errors:
        place = os.path.relpath(error.path)
        print(f"{place}: internal error in {error.where}: {error.error}", file=sys.stderr)
        if os.environ.get("GPULINT_DEBUG"):
            print(error.trace, file=sys.stderr)
    for failure in loaded.failures:
        print(f"gpulint: plugin {failure.name} does not work: {failure.reason}", file=sys.stderr)
    if report.errors:
        print(f"Everything else was checked. Please report internal errors at {ISSUES} with the file if you can"
              " (GPULINT_DEBUG=1 shows where they happened).", file=sys.stderr)  # fmt: skip
    if args.quiet:
        return
    if not found.files:
        print("gpulint: no files to scan", file=sys.stderr)
    if skipped and args.output_format == "full":
        print(f"{skipped} files or folders skipped; --show-notes says why", file=sys.stderr)


def _print_findings(args: argparse.Namespace, report: Report, context: Context) -> None:
    text = render(args.output_format, report, context)
    if args.statistics:
        counts = Counter((result.finding.rule.code, result.finding.rule.name) for result in report.results)
        table = "".join(
            f"{n:6} {code} {name}\n" for (code, name), n in sorted(counts.items(), key=lambda c: (-c[1], c[0]))
        )
        if args.output_format in _FOR_PEOPLE:
            text += table
        else:
            sys.stderr.write(table)
    if args.output_file is None:
        sys.stdout.write(text)
        return
    try:
        args.output_file.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ConfigError(f"--output-file {args.output_file}: {error.strerror}") from None


def _colour(args: argparse.Namespace) -> bool:
    if os.environ.get("NO_COLOR") or args.output_file is not None:
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


class _Progress:
    """A bar on standard error, for people only and only once a scan takes long."""

    DELAY_S = 1.0

    def __init__(self) -> None:
        import time

        self.clock = time.monotonic
        self.started = self.clock()
        self.bar: Any = None

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, done: int, total: int) -> None:
        if self.bar is None:
            if not sys.stderr.isatty() or self.clock() - self.started < self.DELAY_S:
                return
            from rich.console import Console
            from rich.progress import Progress

            self.bar = Progress(console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task("Scanning", total=total)
            self.bar.start()
        self.bar.update(self.task, completed=done)
