"""A job's profile: what it needs of a GPU when it has it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gpulint_share.errors import ShareError

MIB = 1 << 20
RATIOS = ("utilization", "sm_activity", "memory_activity", "gpu_bound")
AMOUNTS = ("memory_bytes", "pcie_bytes_s", "cpu_cores", "watts", "seconds")
POLICIES = ("collocation", "exclusive")


@dataclass(frozen=True, slots=True)
class Value:
    """A figure with the bounds that hold it in nine of ten cases, and where it comes from."""

    mid: float
    low: float
    high: float
    source: str

    @classmethod
    def of(cls, mid: float, source: str, spread: float = 0.0, most: float = float("inf")) -> Value:
        """``mid`` give or take ``spread`` of itself, within 0 and ``most``."""
        return cls(mid, max(0.0, mid * (1 - spread)), min(most, mid * (1 + spread)), source)

    def times(self, factor: float, assumption: str, spread: float, most: float = float("inf")) -> Value:
        """Scaled by an assumption, which widens the bounds and is named in the source."""
        parts = (self.mid, self.low * (1 - spread), self.high * (1 + spread))
        mid, low, high = (min(most, part * factor) for part in parts)
        return Value(mid, low, high, f"{self.source}; {assumption}")


@dataclass(frozen=True, slots=True)
class Profile:
    """One job alone on a ``card``. Ratios are 0 to 1; None is "not known".

    ``utilization`` is the share of time in which any kernel ran (nvidia-smi), ``sm_activity`` the share of
    multiprocessors with work averaged over time (DCGM's SMACT), ``memory_activity`` the share of time in which the
    card's memory was read or written (nvidia-smi's memory utilization or DCGM's DRAM activity), ``memory_bytes`` what
    the job holds on the card with its CUDA context, ``gpu_bound`` the share of its time that grows as its part of the
    card gets smaller, ``seconds`` its duration, ``submitted`` seconds since the first.
    """

    name: str
    card: str = ""
    gpus: int = 1
    user: str = ""
    policy: str = "collocation"
    command: str = ""
    submitted: float = 0.0
    utilization: Value | None = None
    sm_activity: Value | None = None
    memory_activity: Value | None = None
    gpu_bound: Value | None = None
    memory_bytes: Value | None = None
    pcie_bytes_s: Value | None = None
    cpu_cores: Value | None = None
    watts: Value | None = None
    seconds: Value | None = None

    def figures(self) -> dict[str, Value]:
        """The known values by name."""
        return {name: value for name in (*RATIOS, *AMOUNTS) if (value := getattr(self, name)) is not None}

    def to_json(self) -> dict[str, Any]:
        """Plain data; each value with its bounds and source."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain | {
            name: {"mid": value.mid, "low": value.low, "high": value.high, "source": value.source}
            for name, value in self.figures().items()
        }


def profile(row: Mapping[str, Any], source: str, spread: float = 0.0) -> Profile:
    """The profile of a row of plain values under the names of the fields.

    ``memory_mib`` and ``minutes`` or ``hours`` are taken too; empty cells are unknown.

    Raises:
        ShareError: no name, no number where one should be, or a ratio above 1.
    """
    known = {key: value for key, value in row.items() if value not in (None, "")}
    if not known.get("name"):
        raise ShareError(f"{source}: a job without a name")
    where = f"{source}: job {known['name']}"
    for name, unit, factor in (
        ("memory_mib", "memory_bytes", MIB), ("minutes", "seconds", 60), ("hours", "seconds", 3600),
    ):  # fmt: skip
        if name in known:
            known[unit] = number(known.pop(name), f"{where}: {name}") * factor
    values: dict[str, Any] = {}
    for name in (*RATIOS, *AMOUNTS):
        if name in known:
            most = 1.0 if name in RATIOS else float("inf")
            value = number(known[name], f"{where}: {name}")
            if value > most:
                percent = f"; for {value:g}% write {value / 100:g}" if value <= 100 else ""
                raise ShareError(f"{where}: {name} is {value:g}, but ratios are from 0 to 1{percent}")
            values[name] = Value.of(value, source, spread, most)
    if "gpus" in known:
        values["gpus"] = max(1, round(number(known["gpus"], f"{where}: gpus")))
    if "submitted" in known:
        values["submitted"] = number(known["submitted"], f"{where}: submitted")
    if known.get("policy", "collocation") not in POLICIES:
        raise ShareError(f"{where}: policy {known['policy']!r} is not one of {', '.join(POLICIES)}")
    values |= {name: str(known[name]) for name in ("name", "card", "user", "policy", "command") if name in known}
    return Profile(**values)


def number(value: Any, where: str) -> float:
    """A number that is not negative. Raises ShareError."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ShareError(f"{where}: {value!r} is not a number") from None
    if not 0 <= found < float("inf"):
        raise ShareError(f"{where}: {found:g} is negative or not finite")
    return found
