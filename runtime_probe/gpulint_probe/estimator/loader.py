"""Whether the data loader keeps up with the step: samples that are loaded against samples that are computed."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulint_probe.estimator.api import Estimate
    from gpulint_probe.estimator.script.wrappers import Recorded


@dataclass(frozen=True, slots=True)
class Balance:
    """Seconds that the loader takes for a step with ``workers`` processes on ``cpus`` cores; the workers that would do.

    ``step_seconds`` is a step with its wait for the loader.
    """

    batch_seconds: float
    workers: int
    cpus: int
    needed: int
    waits: bool
    step_seconds: float

    def sentence(self, busy: float, step: float) -> str:
        """Return the sentence that users read about the loader."""
        batch = f"batch every {1e3 * self.batch_seconds:.0f} ms with {self.workers} workers"
        text = f"GPU busy {busy:.0%} (step {1e3 * step:.0f} ms, {batch})"
        if not self.waits:
            return f"{text}: the loader keeps up"
        return f"{text}: {self.needed} workers or cheaper samples are needed"


def with_loader(estimate: Estimate, recorded: Recorded, cpus: int = 0, gpus: int = 1) -> Estimate:
    """The estimate of a script with its GPU waiting for the loader; unchanged where a speed is not known.

    The step stays that of the GPU; its utilization is that beside the loader.
    """
    found = estimate.performance
    if found is None or not recorded.seconds or recorded.made_up:
        return estimate
    # The first batch pays for imports and open files.
    seconds = recorded.seconds[1:] or recorded.seconds
    batches = max(1.0, found.samples / (gpus * max(recorded.batch_size, 1)))  # of a step, with accumulation
    one = batches * sum(seconds) / len(seconds)
    cores = cpus or os.cpu_count() or 1
    workers = min(recorded.workers, cores)
    batch = one / max(workers, 1)
    step = found.mid
    # Without workers the batch is made between the steps; with them beside the step.
    whole = step + one if recorded.workers == 0 else max(step, batch)
    needed = max(1, -(-int(1e6 * one) // max(1, int(1e6 * step))))
    balance = Balance(batch, recorded.workers, cores, needed, whole > 1.02 * step, whole)
    slower = whole / step
    waiting = replace(
        found,
        busy=found.busy / slower,
        sm_activity=found.sm_activity / slower,
        limits={name: share / slower for name, share in found.limits.items()} | {"loader": 1 - 1 / slower},
    )
    note = balance.sentence(waiting.busy, step)
    note += f"; loading was timed on this machine, {len(seconds)} batches in one process"
    return replace(estimate, performance=waiting, notes=(*estimate.notes, note), loader=_as_json(balance))


def _as_json(balance: Balance) -> dict[str, Any]:
    return {
        "batch_seconds": balance.batch_seconds,
        "workers": balance.workers,
        "cpus": balance.cpus,
        "workers_needed": balance.needed,
        "gpu_waits": balance.waits,
        "step_seconds": balance.step_seconds,
    }
