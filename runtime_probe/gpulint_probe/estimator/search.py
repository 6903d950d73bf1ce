"""The largest batch that fits a card, for training and for evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpulint_probe.estimator.allocator import OutOfMemory
from gpulint_probe.estimator.api import Request, build_job, trace_job
from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.job import Job
from gpulint_probe.estimator.simulate import simulate

MARGIN = 0.10
_LARGEST = 1 << 20
_PROBE = (4, 8)
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Batch sizes that keep ``MARGIN`` of the card free; 0 where not even one sample fits. ``probes`` steps were simulated."""

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
    """Brackets the largest batch whose step fits ``capacity`` bytes."""

    def __init__(self, job: Job, training: bool, capacity: int, progress: Progress | None) -> None:
        self.job = job
        self.training = training
        self.capacity = capacity
        self.probes = 0
        self._progress = progress
        self._reserved: dict[int, int | None] = {}

    def largest(self) -> int:
        """Two small probes give the slope; the batch it points at is bracketed, the bracket closed, neighbours checked."""
        small, large = _PROBE
        if not self._fits(small):
            return next((size for size in range(small - 1, 0, -1) if self._fits(size)), 0)
        if not self._fits(large):
            return self._between(small, large)
        low = large
        while low < _LARGEST:
            high = self._extrapolated(small, low)
            if not self._fits(high):
                return self._between(low, high)
            small, low = low, high
        return _LARGEST

    def _between(self, low: int, high: int) -> int:
        """``low`` fits and ``high`` does not. The allocator is not monotonic in the batch, so the size above is checked."""
        while high - low > max(1, low // 100):
            middle = (low + high) // 2
            if self._fits(middle):
                low = middle
            else:
                high = middle
        while self._fits(low + 1):
            low += 1
        return low

    def _extrapolated(self, small: int, large: int) -> int:
        first, second = self._reserved[small], self._reserved[large]
        assert first is not None and second is not None
        slope = (second - first) / (large - small)
        if slope <= 0:
            return min(2 * large, _LARGEST)
        size = int(large + (self.capacity - second) / slope) + 1
        return max(large + 1, min(size, 16 * large, _LARGEST))

    def _fits(self, size: int) -> bool:
        if size not in self._reserved:
            self.probes += 1
            if self._progress is not None:
                self._progress(f"{'training' if self.training else 'evaluation'} step with batch {size}")
            try:
                self._reserved[size] = simulate(trace_job(self.job, size, self.training), self.capacity).reserved
            except OutOfMemory:
                self._reserved[size] = None
        return self._reserved[size] is not None
