"""How fast jobs run that share a whole card, by streams (time sharing) or MPS.

A job is held up while its kernels wait for the time slices of another. How often that happens grows with the share of
time in which it has kernels to run (its exposure: utilization), and with the part of that in which they leave the
card's memory alone: long kernels that keep the memory busy use up a slice of their own, short ones wait once each. How
long it waits grows with the time in which the other really keeps the card busy (its pressure: memory activity, which
unlike utilization does not count short kernels as full time). The time of a step grows by ``strength * exposure *
(exposure - own memory activity) * pressure`` for each of the others. SM activity stands for what of these is not known.
Where only utilization is, its square stands for memory activity, with a strength of its own.

Under MPS kernels run side by side and the growth is a share of that. Where the SM activity of a job is not known,
nothing says whether others find free multiprocessors beside it, and MPS counts as time sharing. Either way the jobs
together never use more multiprocessors or memory bandwidth than there are; under time sharing, they have kernels to run
for little more than all of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpulint_share.prediction.coefficients import Coefficients
from gpulint_share.profiles import Profile

_STRAY = 0.23
"""Of the time that SM activity leaves, the share with some kernel: the least absolute error of measured utilization
over 28 jobs of five networks (S-Lab-System-Group/Lucid@63685a3) and their SM activity by ``gpulint estimate``; 0.080,
and 0.088 where each network is left out of the fit."""
_TRAFFIC = 0.71
"""Memory activity over SM activity, by the same jobs; 0.051, and 0.053 where each network is left out."""
_OVERLAP = 1.2
"""Most utilization of jobs that share time, summed: nvidia-smi counts short kernels as more than their time, so that it
can exceed 1. In nine of ten of Lucid's pairs it is at most 1.18."""


def exposure(profile: Profile) -> float | None:
    """Share of time with a kernel to run: utilization, or what SM activity says of it; None where neither is known."""
    if profile.utilization is not None:
        return profile.utilization.mid
    active = profile.sm_activity
    return None if active is None else active.mid + _STRAY * (1 - active.mid)


def pressure(profile: Profile) -> float | None:
    """Memory activity, or what SM activity says of it; None where neither is known."""
    if profile.memory_activity is not None:
        return profile.memory_activity.mid
    return None if profile.sm_activity is None else _TRAFFIC * profile.sm_activity.mid


def growth(job: Profile, other: Profile, found: Coefficients) -> float | None:
    """Growth of the job's time by time sharing with another; None where their profiles do not say enough."""
    exposed, busy = exposure(job), exposure(other)
    if exposed is None or busy is None:
        return None
    own, pressing = pressure(job), pressure(other)
    if own is not None and pressing is not None:
        return found.streams * exposed * max(0.0, exposed - own) * pressing
    return found.utilization * (exposed * busy) ** 2


def speeds(jobs: Sequence[Profile], method: str, found: Coefficients) -> list[float] | None:
    """Speed of each job against having the card alone, 0 to 1; None where their profiles do not say enough."""
    beside = method == "mps" and all(job.sm_activity is not None for job in jobs)
    share = found.mps if beside else 1.0
    slowed = []
    for number, job in enumerate(jobs):
        grown = [growth(job, other, found) for place, other in enumerate(jobs) if place != number]
        if None in grown:
            return None
        slowed.append(1 / (1 + share * sum(value for value in grown if value is not None)))
    if not beside and len(jobs) > 1:
        slowed = _within(slowed, [exposure(job) or 0.0 for job in jobs], _OVERLAP)
    for unit in ("sm_activity", "memory_activity"):
        slowed = _within(slowed, [_mid(job, unit) for job in jobs], 1.0)
    return slowed


def limited(slowed: list[float], jobs: Sequence[Profile], pcie: float, cores: float | None) -> list[float]:
    """The speeds that PCIe (bytes/s) and the host's cores allow."""
    slowed = _within(slowed, [_mid(job, "pcie_bytes_s") for job in jobs], pcie)
    return _within(slowed, [_mid(job, "cpu_cores") for job in jobs], cores) if cores else slowed


def _mid(job: Profile, name: str) -> float:
    value = getattr(job, name)
    return 0.0 if value is None else float(value.mid)


def _within(slowed: list[float], needs: Sequence[float], capacity: float) -> list[float]:
    """Slower in proportion where the jobs that need a resource need more than there is."""
    used = sum(speed * need for speed, need in zip(slowed, needs, strict=True))
    if used <= capacity:
        return slowed
    return [speed * capacity / used if need else speed for speed, need in zip(slowed, needs, strict=True)]
