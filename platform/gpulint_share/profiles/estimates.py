"""Profiles of answers of ``gpulint estimate --gpu CARD --output-format json``.

The estimated share of time with a kernel is the utilization that nvidia-smi shows, host included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulint_share.errors import ShareError
from gpulint_share.profiles.profile import Profile, Value


def read(path: Path) -> list[Profile]:
    """The job of one answer, or of each in a list. Raises ShareError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ShareError(f"{path}: {error}") from error
    return [of_estimate(one, f"{path} (gpulint estimate)") for one in (found if isinstance(found, list) else [found])]


def of_estimate(answer: Mapping[str, Any], source: str) -> Profile:
    """The estimated memory and utilization with their intervals; the duration is not known. Raises ShareError."""
    try:
        name = f"{answer['target']}, batch {answer['batch_size']}"
        held = Value(answer["device_bytes"], answer["low_bytes"], answer["high_bytes"], source)
        card = str(answer["card"])
        active, busy = _ranged(answer, "sm_activity", source), _ranged(answer, "gpu_busy", source)
    except KeyError as error:
        raise ShareError(f"{source}: not the output of gpulint estimate: {error} is missing") from error
    except (TypeError, ValueError) as error:
        raise ShareError(f"{source}: not the output of gpulint estimate: {error}") from error
    return Profile(name, card, memory_bytes=held, utilization=busy, sm_activity=active)


def _ranged(answer: Mapping[str, Any], name: str, source: str) -> Value | None:
    mid = answer.get(name)
    if mid is None:
        return None
    low, high = answer[f"{name}_range"]
    return Value(float(mid), float(low), float(high), source)
