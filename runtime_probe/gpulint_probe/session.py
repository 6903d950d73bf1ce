"""One run of the probe: opens the source, starts or finds the job, watches it, ends the recording."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from gpulint_probe.inside.reader import InsideReader
from gpulint_probe.lifecycle import Job
from gpulint_probe.machine.describe import describe
from gpulint_probe.recording import Recording, RecordingError, RecordingWriter
from gpulint_probe.sources import SourceOptions, open_source
from gpulint_probe.watch import Log, Recorder, Watcher

_LOOK_S = 0.25


class Session:
    """A run with the options of the command line in ``args``; the recording goes to ``path``."""

    def __init__(self, path: Path, args: argparse.Namespace, command: list[str], options: SourceOptions) -> None:
        """Open the source and the file. Raises SourceUnavailable and RecordingError."""
        self._args = args
        self._path = path
        self._command = command
        self._followed = _process(args.pid)
        self._source, reasons = open_source(args.source, options)
        header = Recording(
            command=command or _command_of(self._followed),
            cwd=_folder(self._followed),
            started=time.time(),
            interval_s=args.interval,
            source=self._source.name,
            blind_spots=[*self._source.blind_spots, *self._unwatched()],
            gpus=self._source.gpus,
            machine=describe(environment_of(self._args.pid), self._args.pid),
        )
        try:
            self._recorder = Recorder(RecordingWriter(path, header))
        except RecordingError:
            self._source.close()
            raise
        self._recorder.add(notes=[*reasons, *self._source.troubles()])

    @property
    def failure(self) -> str | None:
        """Why the recording is incomplete, if it is."""
        return self._recorder.failure

    def run(self) -> int:
        """Watch to the end; the job's exit code, 0 without a job of our own. Raises CannotStart."""
        code = None
        screen = None
        if self._args.live:
            from gpulint_probe.live.screen import Screen

            screen = Screen(self._path, self._args.interval)
            screen.start()
        try:
            if self._command:
                code = self._run_job(screen.write if screen else None)
            else:
                self._follow()
        finally:
            if screen:
                screen.stop()
        self._recorder.end(time.time(), code)
        return code or 0

    def _run_job(self, display: Callable[[bytes], None] | None) -> int:
        log = None if self._args.no_log else Log(self._recorder, self._args.interval)
        inside = self._open_inside()
        try:
            job = Job(
                self._command, log, display=display, environment=inside.environment(os.environ) if inside else None
            )
        except BaseException:
            self._source.close()
            if inside:
                inside.close()
            raise
        watcher = Watcher(self._source, job.pid, self._recorder, self._args.interval, log, inside)
        limit = None
        if self._args.duration is not None:
            limit = threading.Timer(self._args.duration, self._stop_early, [watcher, inside])
            limit.daemon = True
            limit.start()
        code = job.wait()
        if limit is not None:
            limit.cancel()
        watcher.stop()
        if log is not None:
            log.read()  # what came after the last sample
        if inside is not None:
            self._recorder.add(*inside.read())
            inside.close()
        return code

    def _open_inside(self) -> InsideReader | None:
        if self._args.no_inside:
            return None
        try:
            return InsideReader(self._args.interval)
        except OSError as error:
            self._recorder.add(notes=[f"no stacks were sampled: {error}"])
            return None

    def _stop_early(self, watcher: Watcher, inside: InsideReader | None) -> None:
        watcher.stop()
        if inside is not None:
            inside.close()  # which ends the sampling
        self._recorder.add(notes=[f"watched for {self._args.duration:g} s; the job ran on"])

    def _follow(self) -> None:
        """Until the process ends, the time is over, or Ctrl-C or SIGTERM asks for the report."""
        waited = {signal.SIGINT, signal.SIGTERM}
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        pid = self._followed.pid if self._followed else None
        watcher = Watcher(self._source, pid, self._recorder, self._args.interval)
        deadline = time.monotonic() + (self._args.duration or float("inf"))
        # Not sigtimedwait: after a stop (Ctrl-Z) for longer than its limit, CPython returns what memory held.
        while time.monotonic() < deadline and _lives(self._followed) and not signal.sigpending() & waited:
            time.sleep(min(_LOOK_S, max(deadline - time.monotonic(), 0.0)))
        watcher.stop()
        while signal.sigtimedwait(waited, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _unwatched(self) -> list[str]:
        blind = []
        if not self._command and self._followed is None:
            blind.append("the host: no process was watched")
        if not self._command or self._args.no_log:
            blind.append("the job's log")
        if not self._command or self._args.no_inside:
            blind.append("the Python stacks of the job's processes")
        return blind


def environment_of(pid: int | None) -> dict[str, str]:
    """Of the job: its own where it runs already, else what it will inherit."""
    if pid is None:
        return dict(os.environ)
    try:
        return psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return {}


def _process(pid: int | None) -> psutil.Process | None:
    """The process to follow. Raises RecordingError."""
    if pid is None:
        return None
    try:
        return psutil.Process(pid)
    except (psutil.Error, ValueError) as error:
        raise RecordingError(f"--pid {pid}: no such process") from error


def _lives(process: psutil.Process | None) -> bool:
    if process is None:
        return True
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _command_of(process: psutil.Process | None) -> list[str]:
    try:
        return process.cmdline() if process else []
    except psutil.Error:
        return []


def _folder(process: psutil.Process | None) -> str:
    try:
        return process.cwd() if process else str(Path.cwd())
    except (psutil.Error, OSError):
        return ""
