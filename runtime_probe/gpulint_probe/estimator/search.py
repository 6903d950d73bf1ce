"""The largest batch that fits a card, for training and for evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpulint_probe.estimator.api import Request, build_job, trace_job
from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.job import Job
from gpulint_probe.estimator.simulate import simulate

MARGIN = 0.10
_LARGEST = 1 << 20
_RESOLUTION = 200  # the bracket is closed to one part in this many
_PROBE = (4, 8)  # sizes of the first two probes
_FARTHEST = 16  # a slope is trusted up to this many times the larger of its two sizes
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Batch sizes that keep ``MARGIN`` of the card free, 0 where no sample fits; ``probes`` steps were simulated."""

    train_batch: int
    eval_batch: int
    probes: int


def suggest_batch(target: str | Request, *, progress: Progress | None = None, **options: Any) -> Suggestion:
    """The largest batches for the card in ``gpu`` or ``memory``. ``options`` are the fields of Request.

    Raises EstimateError, also where no card is named.
    """
    request = target if isinstance(target, Request) else Request(target, **options)
    return suggest_for_job(request, build_job(request), progress)


def suggest_for_job(request: Request, job: Job, progress: Progress | None = None) -> Suggestion:
    """As suggest_batch, for a job already built."""
    card = request.card()
    if card is None:
        raise EstimateError("--suggest-batch needs a card: --gpu A100-40GB or --memory 24GiB")
    capacity = int(card.total_bytes * (1 - MARGIN)) - card.context_bytes
    searches = [_Search(job, training, capacity, progress) for training in (True, False)]
    train, evaluation = (search.largest() for search in searches)
    return Suggestion(train, evaluation, sum(search.probes for search in searches))


class _Search:
    """Finds the largest batch after whose step the allocator has reserved at most ``capacity`` bytes.

    Reserved without any limit: near the limit a real job would still run, by returning cached memory to the driver
    again and again, which stalls the GPU.
    """

    def __init__(self, job: Job, training: bool, capacity: int, progress: Progress | None) -> None:
        self.job = job
        self.training = training
        self.capacity = capacity
        self.probes = 0
        self._progress = progress
        self._reserved: dict[int, int] = {}

    def largest(self) -> int:
        """Two small probes give the slope; the batch that the last two probes point at is probed until it is bracketed
        closely. Reserved memory is not smooth in the batch, so the neighbours of the result are probed too."""
        small, large = _PROBE
        low, high = 0, _LARGEST
        points = [(size, self._probe(size)) for size in (small, large)]
        while True:
            for size, reserved in points[-2:]:
                low, high = (max(low, size), high) if reserved <= self.capacity else (low, min(high, size))
            if high - low <= max(1, low // _RESOLUTION):
                break
            # Beyond a few secant steps the line is not straight enough here: halve the bracket.
            guess = self._secant(points) if len(points) < 6 else (low + high) // 2
            size = min(max(guess, low + 1), high - 1, _FARTHEST * max(low, large))
            points.append((size, self._probe(size)))
        return self._settled(low)

    def _settled(self, size: int) -> int:
        while size < _LARGEST and self._probe(size + 1) <= self.capacity:
            size += 1
        while size > 1 and self._probe(size - 1) > self.capacity:  # a lucky exception
            size -= 2
            while size > 0 and self._probe(size) > self.capacity:
                size -= 1
        return size

    def _secant(self, points: list[tuple[int, int]]) -> int:
        (first, at_first), (second, at_second) = points[-2:]
        if first == second or at_first == at_second:
            return 2 * max(first, second)
        return int(first + (self.capacity - at_first) * (second - first) / (at_second - at_first))

    def _probe(self, size: int) -> int:
        if size not in self._reserved:
            self.probes += 1
            if self._progress is not None:
                self._progress(f"{'training' if self.training else 'evaluation'} step with batch {size}")
            self._reserved[size] = simulate(trace_job(self.job, size, self.training)).reserved
        return self._reserved[size]
