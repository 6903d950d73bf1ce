"""Every bound of every definition. ``docs/audit.md`` lists them with their sources.

CloudBrain-I is Yang et al., Tear Up the Bubble Boom: Lessons Learned From a Deep Learning Research and Development
Cluster, ICCD 2022; ICSE is Gao et al., An Empirical Study on Low GPU Utilization of Deep Learning Jobs, ICSE 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GB = 1e9
EPSILON = 1e-6
"""Seconds and ratios closer than this are equal: inputs are decimal fractions."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Bounds in seconds, bytes and ratios from 0 to 1."""

    low_utilization: float = 0.5
    """ICSE: a job with U of at most this is a job of low utilization."""
    idle_slot_s: float = 60.0
    """CloudBrain-I: an idle slot lasts at least this long (the study: longer than)."""
    idle_memory_bytes: float = 0.0
    """CloudBrain-I: most GPU memory of an idle slot."""
    window_s: float = 120.0
    """CloudBrain-I: intervals for fluctuation."""
    swing: float = 0.9
    """CloudBrain-I: an interval floats if its utilization spans more than this."""
    fluctuating: float = 0.75
    """CloudBrain-I: a job fluctuates if more than this share of its intervals float."""
    window_seen: float = 0.5
    """An interval counts if its samples stand for at least this share of it (gpulint's own)."""
    phase_s: tuple[int, ...] = (60, 120, 240, 480, 960)
    phase_gb: tuple[int, ...] = (1, 2, 4, 8)
    """CloudBrain-I, Table III: a stable phase lasts longer than t with more than m GB of idle GPU memory."""
    level_step_bytes: float = 0.1 * GB
    """Memory changes of more than this end a level of memory (gpulint's own)."""
    mismatch_high: float = 0.8
    mismatch_low: float = 0.2
    """CloudBrain-I: more than ``high`` of one resource and less than ``low`` of another."""
    gap_factor: float = 3.0
    """Samples further apart than this many times the usual distance have a gap between them (gpulint's own)."""
    interval_s: float = 15.0
    """The usual distance where a job has a single sample for each of its GPUs (CloudBrain-I's)."""
    drop_sigmas: float = 3.0
    """ICSE: limits of a sudden drop, in standard deviations."""
    drop_samples: int = 8
    """A drop is measured against this many samples before it (gpulint's own)."""
    finest_s: float = 60.0
    """Patterns need samples at most this far apart (gpulint's own)."""
    gpu_memory_bytes: float | None = None
    """Memory of a GPU, where the samples do not say."""
    debug_kinds: tuple[str, ...] = ("debug", "debugging", "interactive")
    debug_pattern: str = r"\b(jupyter|jupyterlab|code-server|ipython|sleep (infinity|\d{4,}))\b|\bdebug"
    """Debugging jobs by their command or name."""
    debug_seconds: float | None = None
    """Jobs that run into this limit are debugging jobs (CloudBrain-I: 8 h); None: no limit."""
    since: float = -math.inf
    until: float = math.inf
    """Jobs and samples are cut to this period, in Unix seconds."""
