"""What findings that are not certain (severity info) rest on, where the place or the job may establish it.

A rule states what it assumed itself (:attr:`gpulint.impact.Cost.assumed`); this table has the rest, by kind of cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Severity

if TYPE_CHECKING:
    from gpulint.assessment.frequency import Frequency
    from gpulint.assessment.subject import Subject

OFTEN = 10
"""Steps between two checkpoints up to which even a small one counts (assumed)."""
_LARGE = regex.compile(r"\bfrom_pretrained\(|\bdeepspeed\b|FullyShardedDataParallel|\bFSDP\b")
"""Words of programs whose models have hundreds of megabytes."""


def assumed(subject: Subject, often: Frequency, gpus: int | None) -> str:
    """Return what a finding has to assume, as a part of a sentence; "" if it is certain, or the rest is established."""
    if subject.finding.severity is not Severity.INFO or subject.cost is None:
        return ""
    asks = _BY_KIND.get(subject.cost.kind)
    return asks(subject, often, gpus) if asks is not None else ""


def _large_checkpoint(subject: Subject, often: Frequency, gpus: int | None) -> str:
    """A disk of the machine takes a small model in milliseconds."""
    if often.every <= OFTEN or (gpus or 1) > 1 or subject.mentions(_LARGE):
        return ""
    return "assuming a large checkpoint"


_BY_KIND: dict[str, Callable[[Subject, Frequency, int | None], str]] = {"local-checkpoint": _large_checkpoint}
