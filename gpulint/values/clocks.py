"""Names of the functions that read a clock."""

from __future__ import annotations

EXACT = frozenset("perf_counter perf_counter_ns monotonic monotonic_ns default_timer elapsed_time".split())
"""Those that only measure how long something takes; ``elapsed_time`` is that of two CUDA events."""
CLOCKS = EXACT | frozenset("time time_ns process_time now utcnow time_sync time_synchronized".split())
"""All of them; the last two are those of detectors in the manner of YOLO, which wait for the GPU first."""
