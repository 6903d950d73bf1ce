"""Step time, throughput and utilization of a traced job on a card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpulint_probe.estimator.cards import Card
from gpulint_probe.estimator.job import Job
from gpulint_probe.estimator.megatron import Stage
from gpulint_probe.estimator.parallel_time import data_parallel, pipeline_step
from gpulint_probe.estimator.steptime import StepTime, coefficients, step_time
from gpulint_probe.estimator.trace import Trace
from gpulint_probe.estimator.work import Work

_UNKNOWN_CARD = 1.25
"""How much wider the interval is for cards that no measured step was at hand for."""


@dataclass(frozen=True, slots=True)
class Performance:
    """Seconds of an optimizer step (``low`` to ``high`` held 90% of the measured steps), and how the GPU spends them.

    ``samples`` are those of a step over all GPUs. ``busy`` is the share of time with a kernel running (nvidia-smi's
    utilization), ``sm_activity`` the share of multiprocessors with work, averaged over time. ``limits`` are shares of
    the step by what limits it; ``by_kind`` seconds by kind of operator.
    """

    low: float
    mid: float
    high: float
    samples: int
    busy: float
    sm_activity: float
    limits: dict[str, float]
    by_kind: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """The fields under the names of ``--output-format json``."""
        spread = self.high / self.mid
        return {
            "step_seconds": {"low": self.low, "mid": self.mid, "high": self.high},
            "samples_per_second": self.samples / self.mid,
            "gpu_busy": self.busy,
            "gpu_busy_range": [max(0.0, self.busy / spread), min(1.0, self.busy * spread)],
            "sm_activity": self.sm_activity,
            "sm_activity_range": [self.sm_activity * 0.6, min(1.0, self.sm_activity * 1.3)],
            "limits": self.limits,
            "seconds_by_operator": dict(sorted(self.by_kind.items(), key=lambda item: -item[1])),
        }


def performance(job: Job, trace: Trace, card: Card) -> Performance | None:
    """What a step takes on a card; None where only the card's memory is known."""
    if not card.bandwidth:
        return None
    table = coefficients()
    megatron = isinstance(job.model, Stage)
    tf32 = job.precision == "tf32"
    repeats = job.accumulation / min(job.accumulation, 2)
    half = megatron and next(job.model.parameters()).element_size() == 2
    host = table["transformers" if half else "plain"]["host"]
    micro = step_time(_phases(trace, optimizer=False), card, host, tf32, megatron)
    optimizer = step_time(_phases(trace, optimizer=True), card, host, tf32, megatron)
    if isinstance(job.model, Stage):
        links = table["transformers"] | {"pcie": table["transformers"]["nvlink"]}
        weights = sum(p.numel() * p.element_size() for p in job.model.parameters())
        layout = job.model.layout
        parts = pipeline_step(layout, micro.seconds, optimizer.seconds, weights, card, links, 2 if half else 4)
        samples = layout.batch or layout.data * layout.micro
        device = layout.micro_batches * micro.device + optimizer.device
        interval = table["transformers"]["interval"]
    else:
        parts = {"compute": repeats * micro.seconds, "optimizer": optimizer.seconds}
        links = table["transformers"] | {"pcie": table["transformers"]["nvlink"]}
        weights = sum(p.numel() * p.element_size() for p in job.model.parameters() if p.requires_grad)
        sent = data_parallel(weights, job.gpus, job.strategy, 0.6 * parts["compute"], card, links)
        parts["data parallel"] = sent
        samples = job.batch_size * job.accumulation * job.gpus
        device = repeats * micro.device + optimizer.device
        interval = table["interval"]
    total = sum(parts.values())
    return _summary(card, total, samples, device, parts, micro, optimizer, repeats, interval)


def _summary(
    card: Card, total: float, samples: int, device: float, parts: dict[str, float], micro: StepTime,
    optimizer: StepTime, repeats: float, interval: list[float],
) -> Performance:  # fmt: skip
    table = coefficients()
    known = card.kind in table["cards"] or card.kind == table["card"]
    wider = 1.0 if known else _UNKNOWN_CARD
    busy = min(1.0, device / total)
    communication = sum(value for name, value in parts.items() if name not in ("compute", "optimizer"))
    waiting = max(0.0, total - device - communication)
    limits = {
        "arithmetic": micro.computing * busy,
        "memory traffic": (1 - micro.computing) * busy,
        "launching kernels": waiting / total,
        "communication and pipeline": communication / total,
    }
    by_kind = {name: seconds * repeats for name, seconds in micro.by_kind.items()}
    for name, seconds in optimizer.by_kind.items():
        by_kind[name] = by_kind.get(name, 0.0) + seconds
    return Performance(
        total * interval[0] / wider,
        total,
        total * interval[1] * wider,
        samples,
        busy,
        busy * micro.sm_share,
        {name: round(share, 4) for name, share in limits.items()},
        by_kind,
    )


def _phases(trace: Trace, optimizer: bool) -> Iterator[tuple[Work, int]]:
    for call, works in trace.last_step().items():
        if (trace.calls[call].phase == "optimizer") == optimizer:
            for work in works:
                yield work, 1
