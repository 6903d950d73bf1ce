"""The cards of the simulated cluster, and the power that they draw."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpulint_probe.estimator.cards import card_by_name
from gpulint_probe.estimator.errors import EstimateError

from gpulint_share.simulation.errors import SimulationError

MIB = 1 << 20
MOST_CARDS = 100_000
_SPEC = re.compile(r"(\d+)x(\S+)")


@dataclass(frozen=True, slots=True)
class Power:
    """Watts of a card: ``idle`` without a task, ``active`` with one that computes nothing, ``most`` at the limit, which
    it reaches at the SM activity ``saturation``. In between, power is linear in SM activity."""

    idle: float
    active: float
    most: float
    saturation: float = 0.75

    def watts(self, tasks: int, activity: float) -> float:
        """Power of a card with that many tasks."""
        return (
            self.idle if not tasks else self.active + (self.most - self.active) * min(activity / self.saturation, 1.0)
        )


@dataclass(frozen=True, slots=True)
class Fleet:
    """Equal cards, ``per_node`` to a node."""

    card: str
    count: int
    per_node: int
    memory_mib: float
    power: Power


def fleet(spec: str, per_node: int | None = None, watts: float | None = None) -> Fleet:
    """A fleet from ``4xA100-40GB``. ``watts`` replaces the card's power limit.

    Idle cards draw 13% of the limit, cards with a task at least 22%: 52 W and 88 W of 400 W, as A100s do.

    Raises:
        SimulationError: the text is no fleet, or the card is unknown.
    """
    match = _SPEC.fullmatch(spec)
    if match is None or not 1 <= int(match[1]) <= MOST_CARDS:
        raise SimulationError(f"--gpus {spec}: must be COUNTxCARD with 1 to {MOST_CARDS} cards, such as 4xA100-40GB")
    try:
        card = card_by_name(match[2])
    except EstimateError as error:
        known = str(error).partition("one of ")[2]
        raise SimulationError(f"--gpus: unknown card {match[2]!r}; choose one of {known}") from None
    count = int(match[1])
    each = min(per_node or 8, count)
    if count % each:
        raise SimulationError(f"--per-node {each}: must divide the {count} cards")
    most = watts or float(card.watts)
    return Fleet(card.name, count, each, card.total_bytes / MIB, Power(0.13 * most, 0.22 * most, most))
