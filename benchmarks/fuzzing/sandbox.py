"""Trees scanned in a child process that may end any way it likes: by itself, at a limit, or killed."""

from __future__ import annotations

import gc
import itertools
import json
import os
import resource
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzzing.corpus import Input
from fuzzing.scanning import Failure, OverLimit, Scanned, Scanner

WALL_FACTOR = 20
"""How much longer than its CPU time a tree may take on the clock, before it counts as blocked."""


@dataclass(frozen=True)
class Limits:
    """For one tree; both are what gpulint promises for any input."""

    cpu_s: float = 10
    memory: int = 500_000_000


class Sandbox:
    """Runs a scanner, loaded once, in a fresh fork for each batch."""

    def __init__(self, scanner: Scanner, limits: Limits) -> None:
        self.scanner, self.limits = scanner, limits
        gc.collect()
        gc.freeze()

    def one(self, inputs: Sequence[Input], number: int) -> list[Failure]:
        """Failures of one tree."""
        (scanned,) = self.many([(inputs, number)])
        return scanned.failures

    def many(self, trees: Sequence[tuple[Sequence[Input], int]]) -> Iterator[Scanned]:
        """Each tree's outcome, in order; after one that ends the process the rest goes to another process."""
        done = 0
        while done < len(trees):
            child, pipe = self._start(trees[done:])
            try:
                for line in itertools.islice(self._lines(child, pipe), len(trees) - done):
                    told = json.loads(line)
                    yield Scanned(told["findings"], told["problems"], [Failure(**one) for one in told["failures"]])
                    done += 1
            except BaseException:
                os.kill(child, signal.SIGKILL)
                raise
            finally:
                os.close(pipe)
                _, status = os.waitpid(child, 0)
                shutil.rmtree(self.folder(child), ignore_errors=True)
            if status and done < len(trees):
                yield Scanned(0, 0, [_killed(status)])
                done += 1

    def folder(self, child: int) -> Path:
        """Where a child has its trees; another may be scanning what an earlier tree is bisected to."""
        return self.scanner.folder.with_name(f"tree-{child}")

    def _lines(self, child: int, pipe: int) -> Iterator[bytes]:
        """What a child says of each tree, until it ends; one that says nothing for too long is killed."""
        left = b""
        while select.select([pipe], [], [], self.limits.cpu_s * WALL_FACTOR)[0]:
            part = os.read(pipe, 1 << 20)
            if not part:
                return
            *lines, left = (left + part).split(b"\n")
            yield from lines
        os.kill(child, signal.SIGKILL)

    def _start(self, trees: Sequence[tuple[Sequence[Input], int]]) -> tuple[int, int]:
        reading, writing = os.pipe()
        child = os.fork()
        if child:
            os.close(writing)
            return child, reading
        try:
            os.close(reading)
            self._child(trees, writing)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)

    def _child(self, trees: Sequence[tuple[Sequence[Input], int]], pipe: int) -> None:
        signal.signal(signal.SIGPROF, _over)
        sys.stdout.flush()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + self.limits.memory
        # The limit itself is held against what was in use at most; this one is for bombs.
        space = _memory() + 4 * self.limits.memory
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
        gc.disable()
        self.scanner.folder = self.folder(os.getpid())
        for inputs, number in trees:
            used = resource.getrusage(resource.RUSAGE_SELF)
            seconds = int(used.ru_utime + used.ru_stime + 2 * self.limits.cpu_s) + 2
            # For code that no signal handler of Python can interrupt.
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
            # Again and again, as a handler's exception is lost where code ignores all of them.
            signal.setitimer(signal.ITIMER_PROF, self.limits.cpu_s, 0.5)
            scanned = self.scanner.scan(inputs, number)
            signal.setitimer(signal.ITIMER_PROF, 0)
            too_large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > most
            if too_large:
                scanned.failures.append(Failure("memory", f"more than {self.limits.memory // 1_000_000} MB"))
            line = json.dumps({**vars(scanned), "failures": [failure.as_json() for failure in scanned.failures]}) + "\n"
            data = memoryview(line.encode())
            while data:
                data = data[os.write(pipe, data) :]
            if too_large:
                return  # The peak of a process never falls; the other trees get one of their own.
            gc.collect()


def _over(*_: object) -> None:
    raise OverLimit


def _memory() -> int:
    """Bytes of address space in use."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 - no file on disk
        return int(file.read().split()[0]) * resource.getpagesize()


def _killed(status: int) -> Failure:
    if not os.WIFSIGNALED(status):
        return Failure("exception", f"the process ended with exit code {os.waitstatus_to_exitcode(status)}")
    name = signal.Signals(os.WTERMSIG(status)).name
    kind = "time" if name in ("SIGXCPU", "SIGKILL") else "exception"
    return Failure(kind, {"SIGKILL": "blocked, killed by the clock"}.get(name, f"killed by {name}"))
