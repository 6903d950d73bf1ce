"""Runs a job as if the probe were not there: its output, its signals and its exit code are those of a bare start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence

_FORWARDED = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
_WAITED = {*_FORWARDED, signal.SIGCHLD, signal.SIGWINCH}
_SI_KERNEL = 0x80
_TWICE_S = 0.1
_DRAIN_S = 1.0


class CannotStart(Exception):
    """The command cannot be started; ``exit_code`` is the one that a shell gives then (127 or 126)."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Job:
    """A started command. ``output`` gets every piece of its output with the time; without, its output is not touched.

    Signals are blocked from here to the end of ``wait``, so that none is lost and none ends the probe first.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: Callable[[bytes, float], None] | None,
        display: Callable[[bytes], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``display`` takes what would go to a terminal. Raises CannotStart."""
        self._terminal = _has_terminal()
        self._channels = _channels(output or (lambda _, __: None), display) if output or display else []
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
        streams = {name: channel.inner for channel in self._channels for name in channel.names}
        try:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdout=streams.get("stdout"),
                stderr=streams.get("stderr"),
                close_fds=False,  # what was handed down is meant for the job
                # On a terminal the job stays in the group that Ctrl-C and Ctrl-Z reach; without one, a signal to the
                # probe's group must not reach the job twice.
                process_group=None if self._terminal else 0,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, self._mask),
            )
        except OSError as error:
            self._unblock()
            for channel in self._channels:
                channel.abandon()
            code = 127 if isinstance(error, FileNotFoundError) else 126
            raise CannotStart(f"cannot start {command[0]}: {error.strerror}", code) from error
        for channel in self._channels:
            channel.start()

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self._process.pid

    def wait(self) -> int:
        """Pass signals on until the job ends; its exit code, 128 + n where signal n ended it."""
        last: tuple[int, float] = (0, 0.0)
        threading.Thread(target=self._tell_end, args=[threading.get_ident()], name="gpulint-end", daemon=True).start()
        while self._process.poll() is None:
            # Not sigtimedwait: after a stop (Ctrl-Z) for longer than its limit, CPython returns what memory held.
            got = signal.sigwaitinfo(_WAITED)
            if got.si_signo == signal.SIGCHLD:
                continue
            if got.si_signo == signal.SIGWINCH:
                for channel in self._channels:
                    channel.resize()
                continue
            if self._terminal and got.si_code == _SI_KERNEL:
                continue  # Ctrl-C reached the job as well
            now = time.monotonic()
            # Tools such as timeout(1) tell the process and then its whole group: that is one signal.
            if last[0] != got.si_signo or now - last[1] > _TWICE_S:
                self._process.send_signal(got.si_signo)
            last = (got.si_signo, now)
        deadline = time.monotonic() + _DRAIN_S
        for channel in self._channels:
            # What the job left behind may hold its output open for long.
            channel.finish(max(deadline - time.monotonic(), 0.0))
        while signal.sigtimedwait(_WAITED, 0) is not None:
            pass  # meant for the job, which is gone
        self._unblock()
        code = self._process.returncode
        return code if code >= 0 else 128 - code

    def _tell_end(self, waiting: int) -> None:
        """Send SIGCHLD to the thread that waits, when the job ends: a library may have taken the one of the system."""
        with contextlib.suppress(OSError):  # it was waited for already
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            signal.pthread_kill(waiting, signal.SIGCHLD)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class _Channel:
    """Copies what the job writes to where it would have gone: a terminal of its own for a terminal, else a pipe."""

    def __init__(
        self,
        names: list[str],
        target: int,
        output: Callable[[bytes, float], None],
        display: Callable[[bytes], None] | None,
    ) -> None:
        self.names = names
        self._target = target
        self._output = output
        self._is_terminal = os.isatty(target)
        self._display = display if self._is_terminal else None
        if self._is_terminal:
            self._outer, self.inner = os.openpty()
            _make_transparent(self.inner)
            self.resize()
        else:
            self._outer, self.inner = os.pipe()
        self._thread = threading.Thread(target=self._copy, name="gpulint-output", daemon=True)

    def start(self) -> None:
        os.close(self.inner)
        self._thread.start()

    def abandon(self) -> None:
        os.close(self.inner)
        os.close(self._outer)

    def finish(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def resize(self) -> None:
        """Give the job's terminal the size of the real one."""
        if self._is_terminal:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(self._target, termios.TIOCGWINSZ, bytes(8))
                fcntl.ioctl(self._outer, termios.TIOCSWINSZ, size)

    def _copy(self) -> None:
        try:
            while piece := os.read(self._outer, 1 << 16):
                now = time.time()
                rest = memoryview(piece)
                if self._display is not None:
                    self._display(piece)
                    rest = rest[:0]
                while rest:
                    try:
                        rest = rest[os.write(self._target, rest) :]
                    except BlockingIOError:  # whoever gave us the output may have set it so
                        select.select([], [self._target], [])
                self._output(piece, now)
        except OSError:
            pass  # the end of a terminal, or a reader that went away: the job learns of that by its own next write
        finally:
            os.close(self._outer)


def _channels(output: Callable[[bytes, float], None], display: Callable[[bytes], None] | None) -> list[_Channel]:
    targets = {}
    for name, stream, number in (("stdout", sys.__stdout__, 1), ("stderr", sys.__stderr__, 2)):
        if stream is not None:
            stream.flush()
        try:
            targets[name] = (number, os.fstat(number))
        except OSError:
            continue  # closed: so it is for the job
    if len(targets) == 2 and os.path.samestat(targets["stdout"][1], targets["stderr"][1]):
        # One channel keeps lines of both in their order.
        return [_Channel(["stdout", "stderr"], 1, output, display)]
    return [_Channel([name], number, output, display) for name, (number, _) in targets.items()]


def _make_transparent(terminal: int) -> None:
    """Leave translating line ends to the real terminal, which would otherwise do it a second time."""
    attributes = termios.tcgetattr(terminal)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
