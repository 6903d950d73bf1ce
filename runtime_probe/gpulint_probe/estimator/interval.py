"""How far the truth may be from an estimate, as measured on the benchmark (docs/estimator.md)."""

from __future__ import annotations

MIB = 1 << 20
# Of the benchmark's jobs with more than 1 GiB reserved, 90% lie between these factors of the estimate once the context
# is known. The public labels that this was measured on have errors of their own, so it is rather too wide.
LOW, HIGH = 0.82, 1.20
# Contexts seen in public measurements (cards.py); used while none is given.
CONTEXT_LOW, CONTEXT_HIGH = 500 * MIB, 1900 * MIB


def interval(device: int, context: int, context_known: bool, assumed: bool) -> tuple[int, int]:
    """(low, high) bytes around ``device`` bytes of which ``context`` is outside the allocator.

    ``assumed``: the simulation had to assume something (its notes say what), which doubles the width.
    """
    reserved = device - context
    width = 2 if assumed else 1
    low = reserved * (1 - width * (1 - LOW)) + (context if context_known else min(context, CONTEXT_LOW))
    high = reserved * (1 + width * (HIGH - 1)) + (context if context_known else max(context, CONTEXT_HIGH))
    return int(low), int(high)
