"""``gpulint scan --watch``: scan again whenever a file of the project changes.

Times of change are polled: that needs no dependency and also sees what other machines write to a network file system,
where clusters keep their code and the kernel's notifications are silent.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpulint.cli import CLEAN, INTERRUPTED, MISUSE, guarded, inputs
from gpulint.cli.terminal import is_terminal
from gpulint.config import Config, ConfigError

_PAUSE_S = 0.5
_SHARE = 10
"""A pause is at least so many times as long as the look before it, so that watching costs little in large trees."""

Times = dict[Path, tuple[int, int]]


def watch(args: argparse.Namespace, scan: Callable[[argparse.Namespace], int]) -> int:
    """Scan until Ctrl-C; settings that break meanwhile are reported and waited for. Wrong arguments end it at once.

    Raises:
        ConfigError: standard input, which cannot change.
    """
    if args.stdin_filename is not None or "-" in args.paths:
        raise ConfigError("--watch cannot scan standard input")
    gc.enable()  # a command that ends soon does without
    paths, _ = inputs.given_paths(args)
    before: Times | None = None
    try:
        while True:
            started = time.monotonic()
            now = _times(paths, args.config)
            if now != before:
                first, before = before is None, now
                if is_terminal():
                    sys.stdout.write("\033[2J\033[3J\033[H")
                code = guarded(scan, args)
                if code == INTERRUPTED:
                    return CLEAN
                if first and code == MISUSE:
                    return code
                print(f"Watching {len(now)} files; Ctrl-C ends.", file=sys.stderr, flush=True)
                started = time.monotonic()
            time.sleep(max(_PAUSE_S, _SHARE * (time.monotonic() - started)))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return CLEAN


def _times(paths: list[Path], settings: Path | None) -> Times:
    """(time of change in ns, size) of all that a scan of ``paths`` may read, settings files included."""
    from gpulint.baseline import NAME as BASELINE
    from gpulint.discover import discover, is_project, project_root

    root = project_root(paths)
    whole = [root] if is_project(root) else []
    files = [*discover([*(path for path in paths if path.exists()), *whole], Config(base=root), root).files]
    folders = {folder for path in paths for folder in (path, *path.parents)}
    files += [folder / name for folder in folders for name in ("gpulint.toml", "pyproject.toml")]
    files += [root / BASELINE]
    times = {}
    for path in [*files, *([settings] if settings else [])]:
        try:
            status = path.stat()
        except OSError:
            continue
        times[path] = (status.st_mtime_ns, status.st_size)
    return times
