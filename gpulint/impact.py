"""What a finding costs: how much GPU time, on what basis."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from gpulint.records import dataclass

if TYPE_CHECKING:
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import NodeRef

Range = tuple[float, float]

SELDOM = "seldom worth a change"
"""Ends the basis of a finding that is low for nothing but its kind: readers seldom thanked for such findings."""


class Level(enum.IntEnum):
    """How much GPU time a finding costs; ordered, so that ``level >= Level.MEDIUM`` reads as it should."""

    LOW = 1
    """Hardly any: a few bytes, once per long run, or in code that holds no GPU for long."""
    MEDIUM = 2
    """Worth a person's time in a job that runs often or for long."""
    HIGH = 3
    """A large part of the job's GPU time, or whole GPUs."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Impact:
    """The cost of one finding, as far as the code and stated assumptions tell it."""

    level: Level = Level.MEDIUM
    basis: str = ""
    """One sentence without a full stop: ``every step, 38 MB from pageable memory, 8 GPUs``."""
    gpu_share: Range | None = None
    """Share of the job's GPU time that is lost, 0 to 1, lowest and highest; None where it cannot be computed."""
    gpu_hours: Range | None = None
    """GPU-hours lost per run, lowest and highest; None where the run's length or number of GPUs is unknown."""
    own: float = 0
    """Of findings with one cause, how much of the amount is of this one; the largest represents the others."""
    small: bool = False
    """Whether the gain is small beside the time that a repair by hand takes: it is worth a person's time only where a
    fix is offered."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a finding of a rule costs each time, as far as the rule knows; :mod:`gpulint.assessment` makes an
    :class:`Impact` of it."""

    kind: str
    """A row of ``gpulint/assessment/constants.toml``: ``host-wait``, ``install``, ``idle-gpus`` ..."""
    amount: float | None = None
    """How much of it, in the unit of the row: samples of a batch, packages, bytes."""
    share: Range | None = None
    """Share of the GPUs or of a step that is known to be lost, 0 to 1; overrides the row's."""
    seconds: Range | None = None
    """Seconds that are known to be lost each time; overrides the row's."""
    per: str = ""
    """How often, where the rule knows: ``step``, ``epoch``, ``evaluation`` or ``run``; "" to look around the place."""
    every: float = 1
    """It happens in one of so many steps or epochs, where ``per`` says which."""
    done_at: NodeRef | None = None
    """Where the work is done, if the finding marks a call that leads there: conditions there count as well."""
    items: tuple[str, ...] = ()
    """What it is about by name: packages that are installed, models and data sets that are downloaded."""
    loader: Loader | None = None
    """The loader whose batches are concerned."""
    basis: str = ""
    """What the rule knows of the amount, as a part of the sentence: ``2 of 8 GPUs in use``."""
    assumed: str = ""
    """What has to hold for the cost and nothing in the code establishes, as a part of the sentence: ``assuming samples
    of one shape``. The impact is low then."""
    own: float = 0
    """How much of the amount is of this place, where it is that of several places together."""
