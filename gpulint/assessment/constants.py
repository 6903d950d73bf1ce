"""The table of figures that impacts rest on, with their sources."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from gpulint.impact import Range
from gpulint.records import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of waste: what it loses each time, and how often that is."""

    what: str
    per: str
    source: str
    seconds: Range | None = None
    share: Range | None = None
    unit: str = ""
    bandwidth: str = ""
    """The rate that a copy runs at; it takes its bytes' time."""
    by_sample: bool = False
    """It takes the time of one sample for each of a batch."""
    medium_share: float = 0.0
    """The least share of the GPU time that makes it medium, if it is not that of all kinds."""
    high_share: float = 0.0
    """The least share of the GPU time that makes it high, if it is not that of all kinds."""
    medium_gpu_seconds: float = 0.0
    """The least GPU-seconds in each run that make it medium, if they are not those of all kinds."""
    medium_seconds: float = 0.0
    """The least seconds in each run that make it medium, however many GPUs wait."""
    in_training: bool = False
    """It matters in training alone."""
    divides: bool = False
    """The more there is, the less is lost."""
    seldom: bool = False
    """Readers seldom thanked for findings of it, which are low then."""
    small: bool = False
    """What is gained is small beside the time that a repair by hand takes."""
    named: str = ""
    """What the names of its items are: ``packages`` or ``downloads``."""

    def by_name(self, items: tuple[str, ...]) -> tuple[Range, str] | None:
        """Seconds that items take by their names, and what they are in words; None if the names say nothing."""
        from gpulint.assessment.items import download_seconds, install_seconds

        if self.named == "packages":
            return install_seconds(items)
        return download_seconds(items) if self.named == "downloads" else None


@cache
def table() -> dict[str, Any]:
    """All figures."""
    import tomllib

    found = files("gpulint.assessment").joinpath("constants.toml").read_text(encoding="utf-8")
    return tomllib.loads(found)


@cache
def kind(name: str) -> Kind:
    """Return what is known of a kind of waste.

    Raises:
        KeyError: there is none of that name.
    """
    row = dict(table()["kind"][name])
    for key in ("seconds", "share"):
        if key in row:
            row[key] = tuple(row[key])
    return Kind(**row)


def figure(section: str, name: str) -> Any:
    """One figure of a section."""
    found = table()[section][name]
    return tuple(found) if isinstance(found, list) else found


def middle(found: Range) -> float:
    """The value between the lowest and the highest, as far from both by a factor."""
    low, high = found
    return float((max(low, 1e-9) * max(high, 1e-9)) ** 0.5)
