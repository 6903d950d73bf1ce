"""What the hardware reports: clocks that were lowered, and errors of the driver (XID)."""

from __future__ import annotations

from typing import Any

from gpulint_audit.tables import SERIES

REASONS = {"power": 0x04 | 0x80, "thermal": 0x08 | 0x20 | 0x40}
"""Bits of NVML's reasons for lower clocks: the cap and brake of power; slowdown by hardware and both thermal ones.
Idle GPUs (0x01) and clocks that someone has set (0x02, 0x10, 0x100) are no waste.
https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"""


def throttled(cells: Any) -> Any:
    """Seconds with lower clocks by reason, as columns throttled_power_s, ... Per series that says."""
    known = cells.filter(cells.throttle_reasons.notnull())
    reasons = known.throttle_reasons.cast("int64")
    found = {
        f"throttled_{reason}_s": known.seconds.sum(where=(reasons & bits) != 0).fill_null(0.0)
        for reason, bits in REASONS.items()
    }
    return known.group_by(SERIES).aggregate(**found)


def errors(cells: Any) -> Any:
    """The XIDs that GPUs report while they run a job, 0 for none; DCGM repeats the last one until the next. Per job and
    XID."""
    known = cells.filter(cells.xid.notnull())
    return known.select("job_id", xid=known.xid.cast("int64")).distinct()
