"""Commands that ask a program to evaluate only: ``main.py -e --load model.pt``, ``train.py --eval_only``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.workload.small_batches import names_training, says_no_training

if TYPE_CHECKING:
    from gpulint.launch.job import JobLaunch

_SWITCH = regex.compile(r"-e|--?(eval|evaluate|evaluation|test|testing|inference|infer|validate)", re.IGNORECASE)
"""Switches that programs evaluate with; with a value, they may be a number of epochs or the name of a split."""
_TRUE = frozenset({"true", "1", "yes", "on"})


def evaluate_only(starts: Iterable[JobLaunch]) -> bool:
    """Return whether all programs that a job starts are asked to evaluate, and not to train."""
    words = [[word.text for word in start.launch.args] for start in starts if start.program is not None]
    return bool(words) and all(map(_evaluates, words))


def _evaluates(words: list[str]) -> bool:
    if says_no_training(words):
        return True
    switched = any(
        _SWITCH.fullmatch(name) and (following.startswith("-") or following.lower() in _TRUE)
        for name, following in pairwise([*words, "--"])
    ) or any(_SWITCH.fullmatch(name) and value.lower() in _TRUE for name, _, value in (w.partition("=") for w in words))
    return switched and not any(names_training(word) for word in words if word.startswith("-"))
