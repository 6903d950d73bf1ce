"""What processes tell of themselves, of several ranks in one recording: numbers that are unique over all ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpulint_probe.recording import Recording

_PIDS = 10_000_000
"""More than Linux has process identifiers (2**22)."""
_STACKS = 1_000_000_000


def add(merged: Recording, recording: Recording, rank: int, time: Callable[[float], float]) -> None:
    """Add what the processes of ``rank`` told; ``time`` converts its times to those of the whole."""
    pid, stack = rank * _PIDS, rank * _STACKS
    merged.processes += [
        replace(told, time_s=time(told.time_s), pid=told.pid + pid, parent=told.parent + pid, rank=rank)
        for told in recording.processes
    ]
    merged.stacks += [replace(told, time_s=time(told.time_s), id=told.id + stack) for told in recording.stacks]
    merged.stack_counts += [
        replace(
            told,
            time_s=time(told.time_s),
            pid=told.pid + pid,
            stacks=[number + stack for number in told.stacks],
            order=told.order and [value if place % 3 else value + stack for place, value in enumerate(told.order)],
        )
        for told in recording.stack_counts
    ]
    merged.statements += [replace(told, time_s=time(told.time_s)) for told in recording.statements]
    merged.allocations += [
        replace(told, time_s=time(told.time_s), pid=told.pid + pid) for told in recording.allocations
    ]


def of_rank(recording: Recording, rank: int) -> Recording:
    """Return a recording with what the processes of one rank told alone."""
    return replace(
        recording,
        processes=[told for told in recording.processes if told.pid // _PIDS == rank],
        stacks=[told for told in recording.stacks if told.id // _STACKS == rank],
        stack_counts=[told for told in recording.stack_counts if told.pid // _PIDS == rank],
        allocations=[told for told in recording.allocations if told.pid // _PIDS == rank],
    )
