"""Numbers that options state, as rows describe them, and what Slurm's generic resources say."""

from __future__ import annotations

import re
from typing import Annotated, Literal, NamedTuple

from gpulint import regex
from gpulint.numerals import whole
from gpulint.records import dataclass


class Stated(NamedTuple):
    """What an option's value states: a number, None if it cannot be known, and the GPU's model in lower case."""

    number: int | None
    model: str | None = None


def _one_group(pattern: str) -> None:
    if pattern and regex.compile(pattern).groups != 1:
        raise ValueError("must have one group")


@dataclass(frozen=True, slots=True)
class Number:
    """A number that options state."""

    options: tuple[str, ...]
    """Without leading dashes, ``_`` written as ``-``. The first that is given counts."""
    pattern: Annotated[str, _one_group] = ""
    """What the value has to match as a whole; its group holds the number. Any other value states none."""
    entries: str = ""
    """Separator of entries that each have to match, and to state the same number (``a:4,b:4``)."""
    syntax: Literal["number", "list", "gpus", "gres", "some"] = "number"
    """``list``: as many as a comma-separated list has items; ``gpus``: ``4``, ``a100:4`` or ``a100``; ``gres``: generic
    resources of Slurm (``gpu:a100:4,nvme:1``); ``some``: a number that is not written."""

    def read(self, text: str) -> Stated | None:
        """Return what a value states; None if it states no number."""
        if self.syntax == "gpus":
            return gpus_of(text)
        if self.syntax == "gres":
            return gres_gpus(text)
        if self.syntax == "some":
            return Stated(None)
        if not self.pattern:
            return Stated(self._number(text))
        entries = text.split(self.entries) if self.entries else [text]
        found = [match[1] for entry in entries if (match := re.fullmatch(self.pattern, entry)) is not None]
        values = {self._number(one) for one in found}
        return Stated(values.pop()) if len(found) == len(entries) and len(values) == 1 else None

    def _number(self, text: str) -> int | None:
        return len(text.split(",")) if self.syntax == "list" else whole(text.strip())


def gpus_of(text: str) -> Stated | None:
    """Number and model of ``4``, ``a100:4``, ``a100``; None when the text names no GPU."""
    parts = [part for part in re.sub(r"\(.*", "", text).split(":") if part]
    if not parts:
        return None
    if parts[-1].isdecimal():
        return Stated(whole(parts[-1]), parts[-2].lower() if len(parts) > 1 else None)
    if any(char in parts[-1] for char in "$<{"):
        return Stated(None)
    return Stated(1, parts[-1].lower())


def gres_gpus(text: str) -> Stated | None:
    """The same of ``gpu:a100:4,nvme:1``; several GPU entries add up; None when it names no GPU."""
    total, model, seen = 0, None, False
    for entry in text.split(","):
        kind, _, rest = entry.strip().partition(":")
        if kind in ("gres/gpu", "gres:gpu"):
            kind = "gpu"
        if kind != "gpu":
            continue
        number, model = gpus_of(rest) or (1, model)
        seen = True
        if number is None:
            return Stated(None, model)
        total += number
    return Stated(total, model) if seen else None
