"""Units of work spread over processes: the same answers in the same order as from one process, whatever it started by.

Each process works through neighbouring units, which tend to ask about the same other files, and takes over some of
another's when its own are done. A process that dies costs time, not answers: its units are done again one by one.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from gpulint.escaping import say
from gpulint.records import dataclass, field

U = TypeVar("U")
T = TypeVar("T", contravariant=True)
Chunk = list[int]
"""Positions of units."""

UNITS_PER_WORKER = 75
"""Units for which another process pays: it starts anew and finds out again some of what the others know."""
MAX_CHUNK = 8
"""Most units that a process takes at once."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Task(Protocol[T]):
    """What is done with units. It is pickled, unless processes are forked."""

    def start(self, number: int | None) -> None:
        """Get ready, in the worker of this number (from 0), or in one that makes up for another; it may raise what it
        likes where the work cannot be done there."""

    def answer(self, unit: T) -> bytes:
        """The answer for a unit, in a worker."""

    def learned(self) -> bytes:
        """Return what the worker knows at its end besides the answers."""

    def take(self, learned: bytes | None) -> None:
        """Take over what a worker knew at its end; None if it died."""

    def lost(self, unit: T, reason: str) -> bytes:
        """The answer for a unit whose worker died twice."""


def cpus() -> int:
    """CPUs that this process may use: by its affinity, and by the quota of its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    known = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text(encoding="ascii").split()
        known = min(known, max(1, int(quota) // int(period)))
    return known


def worker_count(wanted: int | None, units: int) -> int:
    """Processes to start for some units; None leaves the choice to how many units and CPUs there are."""
    if multiprocessing.current_process().daemon:
        return 1  # it may start none
    most = max(1, units // UNITS_PER_WORKER) if wanted is None else units
    return min(wanted or cpus(), most)


def start_method() -> str:
    """Return how processes are started: as somebody has chosen, else by a fork where that is safe."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen is not None:
        return chosen
    safe = sys.platform == "linux" and threading.active_count() == 1
    return "fork" if safe and "fork" in multiprocessing.get_all_start_methods() else "spawn"


def spread(task: Task[U], units: Sequence[U], count: int) -> Iterator[bytes]:
    """The answers for all units, in their order."""
    pool = _Pool(task, units)
    try:
        yield from pool.answers(count)
    finally:
        pool.close()


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    waiting: deque[Chunk] = field(default_factory=deque)
    """Chunks of its own that nobody has begun."""
    chunk: Chunk = field(default_factory=list)
    """What it is at; empty before it is ready and at its end."""
    is_ready: bool = False

    @property
    def end(self) -> str:
        """How the process has ended."""
        code = self.process.exitcode or 0
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


class _Pool(Generic[U]):
    def __init__(self, task: Task[U], units: Sequence[U]) -> None:
        self.task = task
        self.units = units
        self.workers: list[_Worker] = []
        self.known: dict[int, bytes] = {}
        """Answers whose turn has not come."""
        self.left: list[int] = []
        """Units whose worker died."""
        self.died = False
        """Whether a worker died that had been able to work."""

    def answers(self, count: int) -> Iterator[bytes]:
        chunks = _chunks(len(self.units), count)
        for number, own in enumerate(chunks):
            worker = self._start(own, number)
            if worker is not None:
                self.workers.append(worker)
        if not self.workers:
            yield from map(self.task.answer, self.units)
            return
        orphans = [chunk for own in chunks[len(self.workers) :] for chunk in own]
        self.workers[0].waiting.extend(orphans)
        turn = 0
        while self.workers:
            for worker in self._readable():
                self._hear(worker)
            while turn in self.known:
                yield self.known.pop(turn)
                turn += 1
        for number in sorted(self.left):
            self.known[number] = self._again(number)
        for number in range(turn, len(self.units)):
            yield self.known.pop(number)

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers.copy():
            worker.process.terminate()
            self._dismiss(worker)

    def _start(self, own: deque[Chunk], number: int | None = None) -> _Worker | None:
        """A new process; None where none can be started."""
        context = multiprocessing.get_context(start_method())
        here, there = context.Pipe()
        others = [here, *(worker.connection for worker in self.workers)] if start_method() == "fork" else []
        process = context.Process(  # type: ignore[attr-defined]  # every context has it
            target=_work, args=(there, self.task, number, self.units, others, gc.isenabled()), daemon=True
        )
        try:
            process.start()
        except OSError:  # no more processes or memory
            here.close()
            return None
        finally:
            there.close()
        return _Worker(process, here, own)

    def _readable(self) -> list[_Worker]:
        ready = set(wait([worker.connection for worker in self.workers]))
        return [worker for worker in self.workers if worker.connection in ready]

    def _hear(self, worker: _Worker) -> None:
        """Take a worker's message: that it is ready, the answer for a unit, or what it learned; or notice its end."""
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            self._bury(worker)
            return
        if worker.chunk:
            self.known[worker.chunk.pop(0)] = message
        elif worker.is_ready:
            self.task.take(message)
            self._dismiss(worker)
            return
        worker.is_ready = True
        if worker.chunk:
            return
        worker.chunk = self._next_chunk(worker)
        with contextlib.suppress(OSError):  # of one that has died: the next message says so
            worker.connection.send(worker.chunk)

    def _next_chunk(self, worker: _Worker) -> Chunk:
        if worker.waiting:
            return worker.waiting.popleft()
        longest = max(self.workers, key=lambda other: len(other.waiting))
        return longest.waiting.pop() if longest.waiting else []

    def _dismiss(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.process.join()
        worker.connection.close()

    def _bury(self, worker: _Worker) -> None:
        """Take over the units of a worker that has died."""
        self._dismiss(worker)
        self.left += worker.chunk
        if self.workers:
            self.workers[0].waiting.extend(worker.waiting)
        else:
            self.left += [number for chunk in worker.waiting for number in chunk]
        if worker.is_ready:
            self.died = True
            self.task.take(None)
            say(f"gpulint: a worker process {worker.end}; its files are checked again, one by one")

    def _again(self, number: int) -> bytes:
        """The answer for a unit whose worker died, from one that does nothing else."""
        worker = self._start(deque([[number]])) if self.died else None
        if worker is None:  # none can be started, or none could make itself ready
            return self.task.answer(self.units[number])
        self.workers = [worker]
        try:
            while self.workers:
                message = worker.connection.recv_bytes()
                if worker.is_ready:
                    return message
                worker.is_ready = True
                worker.connection.send([number])
        except (EOFError, OSError):
            worker.process.join()
        finally:
            self.close()
        return self.task.lost(self.units[number], worker.end)


def _chunks(units: int, count: int) -> list[deque[Chunk]]:
    """Chunks of neighbouring units for each of ``count`` processes."""
    size = max(1, min(MAX_CHUNK, units // (count * 4)))
    bounds = [units * part // count for part in range(count + 1)]
    found = []
    for first, last in itertools.pairwise(bounds):
        found.append(deque(list(range(start, min(start + size, last))) for start in range(first, last, size)))
    return found


def _work(
    connection: Connection,
    task: Task[U],
    number: int | None,
    units: Sequence[U],
    others: Sequence[Connection],
    collects_garbage: bool,
) -> None:
    """The main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # an inherited handler would keep the worker alive
    for other in others:
        other.close()
    if not collects_garbage:
        gc.disable()
    try:
        task.start(number)
    except Exception:
        os._exit(1)  # the parent does the work then
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        connection.send_bytes(b"")
        while chunk := connection.recv():
            for position in chunk:
                connection.send_bytes(task.answer(units[position]))
        connection.send_bytes(task.learned())
