"""A batch size from what was measured and how the estimator's memory grows with the batch.

The estimator alone errs by what it cannot know (context, workspaces, fragmentation); one measurement fixes that
offset. So: expected(batch) = measured peak + slope x (batch - measured batch), where the slope is the difference of
two estimates. Evaluation keeps no graph and has a slope of its own; its offset to the estimate is the one that
training showed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpulint_probe.analysis.series import GpuSeries
from gpulint_probe.analysis.words import size

MARGIN = 0.10
"""Share of the card that stays free, as for ``gpulint estimate --suggest-batch``."""
_FARTHEST = 16
"""A slope is trusted up to this many times the measured batch."""
_FLAG = re.compile(r"--?(?:per[-_]device[-_]train[-_]|train[-_]|micro[-_])?(?:batch[-_]?size|batch|bs|b)$")
Estimator = Callable[[int, bool], int]
"""(batch size, training?) -> bytes on the device by the estimator."""


@dataclass(frozen=True, slots=True)
class BatchAdvice:
    """Batch sizes with the memory expected on the device, or in ``lines`` what is missing to tell them."""

    lines: list[str]
    measured_batch: int | None = None
    measured_bytes: int | None = None
    bytes_per_sample: float | None = None
    train_batch: int | None = None
    train_bytes: int | None = None
    eval_batch: int | None = None
    eval_bytes: int | None = None


def batch_in_command(command: Sequence[str]) -> int | None:
    """The batch size that a command line states (``--batch-size 64``, ``--bs=64``); None if it states none or two."""
    found = set()
    for at, word in enumerate(command):
        flag, equals, value = word.partition("=")
        if _FLAG.match(flag):
            text = value if equals else command[at + 1] if at + 1 < len(command) else ""
            found |= {int(text)} if text.isdecimal() and int(text) > 0 else set()
    return found.pop() if len(found) == 1 else None


def suggest(
    series: Sequence[GpuSeries], batch: int | None, estimate: Estimator | None, has_factory: bool = False
) -> BatchAdvice:
    """Batches for training and evaluation that leave ``MARGIN`` of the fullest card free.

    ``batch`` is what one GPU computed at a time in the recorded run. Without ``estimate`` it says what is missing; the
    factory is not, if ``has_factory``. Raises EstimateError from ``estimate``.
    """
    fullest = max((one for one in series if one.peak_memory), key=lambda one: one.peak_memory or 0.0, default=None)
    missing = []
    if estimate is None and not has_factory:
        missing.append("a model factory: --estimate-with 'train.py:build --input 3x224x224', or the setting estimate")
    if batch is None:
        missing.append("the batch of one GPU in this run: --batch-size N (the command does not state it)")
    if fullest is None or fullest.peak_memory_bytes is None:
        missing.append("a recording in which GPU memory was seen")
    if estimate is None or batch is None or fullest is None or fullest.peak_memory_bytes is None:
        return BatchAdvice([f"needed for a suggestion: {text}" for text in missing])
    measured, capacity = fullest.peak_memory_bytes, int(fullest.info.memory_bytes * (1 - MARGIN))
    at_batch, at_double = estimate(batch, True), estimate(2 * batch, True)
    slope = (at_double - at_batch) / batch
    if slope <= 0:
        return BatchAdvice(["the estimate does not grow with the batch, so the measured memory says nothing of others"])
    train = _largest(batch, measured, slope, capacity)
    offset = measured - at_batch
    eval_one, eval_two = estimate(batch, False), estimate(2 * batch, False)
    eval_slope = max((eval_two - eval_one) / batch, 1.0)
    evaluation = _largest(batch, eval_one + offset, eval_slope, capacity)
    advice = BatchAdvice(
        [], batch, measured, slope,
        train, round(measured + slope * (train - batch)),
        evaluation, round(eval_one + offset + eval_slope * (evaluation - batch)),
    )  # fmt: skip
    advice.lines.extend(_lines(advice, fullest.info.memory_bytes, at_batch))
    return advice


def _largest(batch: int, at_batch: float, slope: float, capacity: int) -> int:
    """The largest batch within the capacity: a multiple of 8 from 16 on, at most ``_FARTHEST`` times the measured
    one."""
    fits = min(batch + int((capacity - at_batch) // slope), _FARTHEST * batch)
    return max(1, fits - fits % 8 if fits >= 16 else fits)


def _lines(advice: BatchAdvice, card: int, estimated: int) -> list[str]:
    assert advice.measured_batch and advice.train_batch and advice.eval_batch
    lines = [
        f"measured: {size(advice.measured_bytes or 0)} of {size(card)} at batch {advice.measured_batch} "
        f"(estimated {size(estimated)}); {size(advice.bytes_per_sample or 0)} more for each sample",
        f"training: batch {advice.train_batch}, expected {size(advice.train_bytes or 0)}",
        f"evaluation without gradients: batch {advice.eval_batch}, expected {size(advice.eval_bytes or 0)}",
    ]
    if max(advice.train_batch, advice.eval_batch) >= _FARTHEST * advice.measured_batch - 7:
        lines.append(f"more than {_FARTHEST} times the measured batch is not suggested: measure again from there")
    if advice.train_batch > advice.measured_batch:
        lines.append("a larger batch changes training: adapt the learning rate, and look at the loss")
    return lines
