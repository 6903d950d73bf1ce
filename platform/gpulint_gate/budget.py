"""Judges a submission in a process of its own, which may take so much time and memory and no more."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

from gpulint.config import ConfigError
from gpulint_gate.submission import SubmissionError

T = TypeVar("T")


class Unjudged(Exception):
    """A submission could not be judged; the message says why."""


def within(seconds: float, megabytes: int, judge: Callable[[], T]) -> T:
    """The answer of ``judge``, which must be picklable.

    Raises:
        Unjudged: it took too long or too much memory, raised, or its process died.
    """
    if sys.platform == "win32":
        raise Unjudged("not supported on Windows")
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, seconds, megabytes, judge), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise Unjudged(f"judging took longer than {seconds:g} s")
        answer: tuple[T | None, str] = ours.recv()
    except (EOFError, OSError):
        raise Unjudged("the process that judged it died") from None
    finally:
        process.kill()
        process.join()
        ours.close()
    value, failure = answer
    if failure:
        raise Unjudged(failure)
    return value  # type: ignore[return-value]


def _run(pipe: Connection, seconds: float, megabytes: int, judge: Callable[[], T]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(seconds, megabytes)
    answer: tuple[T | None, str]
    try:
        answer = judge(), ""
    except (ConfigError, SubmissionError) as error:
        answer = None, str(error)
    except MemoryError:
        answer = None, f"judging took more than {megabytes:,} MB"
    except BaseException as error:
        answer = None, f"judging failed: {type(error).__name__}: {error}"
    with contextlib.suppress(OSError):
        pipe.send(answer)
    pipe.close()


def _limit(seconds: float, megabytes: int) -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        cpu = int(seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
        if megabytes:
            size = megabytes * 1_000_000
            resource.setrlimit(resource.RLIMIT_AS, (size, size))
