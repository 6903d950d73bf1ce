"""Why jobs share a card well or not, by the guidelines of the thesis of the RAD group (section 4.3.5)."""

from __future__ import annotations

from collections.abc import Sequence

from gpulint_probe.estimator.cards import GIB, Card

from gpulint_share.profiles import Profile

MOST_ACTIVITY = 0.8
"""Most SM activity, summed over the jobs, at which sharing pays."""
_FULL = 0.95


def explain(
    jobs: Sequence[Profile], card: Card, method: str, memory: float | None, headroom: float,
    speeds: Sequence[float] | None,
) -> list[str]:  # fmt: skip
    """Sentences, the reasons against sharing first."""
    if len(jobs) < 2:
        return []
    return [*_of_memory(jobs, card, method, memory, headroom), *_of_activity(jobs, speeds), *_of_method(jobs, method)]


def _of_memory(jobs: Sequence[Profile], card: Card, method: str, memory: float | None, headroom: float) -> list[str]:
    if memory is None:
        return [f"the memory of {job.name} is not known" for job in jobs if job.memory_bytes is None]
    if method == "mig" or memory + headroom <= card.total_bytes:
        return []
    held = " + ".join(f"{job.memory_bytes.mid / GIB:.1f}" for job in jobs if job.memory_bytes is not None)
    return [f"memory: {held} GiB and {headroom / GIB:.0f} GiB to spare do not fit {card.total_bytes / GIB:.1f} GiB"]


def _of_activity(jobs: Sequence[Profile], speeds: Sequence[float] | None) -> list[str]:
    found = []
    for job in jobs:
        active = job.sm_activity or job.utilization
        if active is not None and active.mid >= _FULL:
            what = "SM activity" if job.sm_activity is not None else "utilization"
            found.append(f"{job.name} alone has {active.mid:.0%} {what}: there is little to gain beside it")
    known = [job.sm_activity.mid for job in jobs if job.sm_activity is not None]
    if len(known) == len(jobs):
        total = sum(known)
        side = "within" if total <= MOST_ACTIVITY else "above"
        found.append(f"SM activity adds up to {total:.0%}, {side} the {MOST_ACTIVITY:.0%} at which sharing pays")
    if speeds is None:
        found.append("the utilization of a job is not known: no speed can be predicted")
    return found


def _of_method(jobs: Sequence[Profile], method: str) -> list[str]:
    users = {job.user for job in jobs if job.user}
    found = []
    if method != "mig" and any(job.policy == "exclusive" for job in jobs):
        found.append("a job must have its GPU alone (policy exclusive)")
    if method == "mps" and len(users) > 1:
        found.append(f"MPS serves one user at a time, and the jobs belong to {', '.join(sorted(users))}")
    if method == "mps" and any(job.sm_activity is None for job in jobs):
        found.append("the SM activity of a job is not known: MPS is counted as time sharing")
    if method == "streams" and len(users) > 1:
        found.append("jobs of several users have no protection from each other: MIG separates them")
    if method == "mig" and any(job.gpus > 1 for job in jobs):
        found.append("a job of several GPUs cannot use MIG slices")
    return found
