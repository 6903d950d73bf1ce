"""What a profile measured on one card says about another.

The assumption (chapter 7 of the thesis of the RAD group): a kernel keeps as many multiprocessors busy on either card,
so that SM activity scales with their numbers, and memory activity with the bandwidths. Utilization and duration are
left alone: a job limited by its host takes as long on a faster card, and nothing in the profile tells by how much
another gains.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from gpulint_probe.estimator.cards import Card, card_by_name
from gpulint_probe.estimator.errors import EstimateError

from gpulint_share.errors import ShareError
from gpulint_share.profiles.profile import Profile

_SPREAD = 0.25
"""How much wider the bounds get: clocks, caches and kernels differ as well as the number of multiprocessors."""


@functools.cache
def card(name: str) -> Card:
    """The known card of that name. Raises ShareError."""
    try:
        return card_by_name(name)
    except EstimateError as error:
        known = str(error).partition("one of ")[2]
        raise ShareError(f"unknown card {name!r}; known are {known}") from error


def on_card(profile: Profile, name: str) -> Profile:
    """The profile as it would be on another card, its assumptions named in the sources. Raises ShareError."""
    new = card(name)
    if not profile.card:
        return replace(profile, card=new.name)
    old = card(profile.card)
    if old.name == new.name:
        return replace(profile, card=new.name)
    changed = {}
    for field, unit in (("sm_activity", "sms"), ("memory_activity", "bandwidth")):
        value = getattr(profile, field)
        before, after = getattr(old, unit), getattr(new, unit)
        if value is not None and before and after:
            assumption = f"{old.name} to {new.name}: scaled by {unit} {before:g}/{after:g}"
            changed[field] = value.times(before / after, assumption, _SPREAD, 1.0)
    return replace(profile, card=new.name, **changed)
