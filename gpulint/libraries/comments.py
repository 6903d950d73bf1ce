"""Rows on comments: words with which authors give a reason, one row per language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.records import dataclass

if TYPE_CHECKING:
    from gpulint.libraries import Models


@dataclass(frozen=True, slots=True)
class ReasonWords:
    """What a comment in one language says where it gives a reason. All are parts of words, in lower case."""

    language: str
    reasons: tuple[str, ...]
    """What says why, or what a setting prevents: "because", "avoids", "otherwise"."""
    trouble: tuple[str, ...] = ()
    """What goes wrong otherwise, and on which systems: "deadlock", "hangs", "multiprocessing"."""
    restates: tuple[str, ...] = ()
    """What a comment says that only tells what a number is, or that it may be changed: "number", "adjust"."""

    alike: tuple[str, ...] = ()
    """What says that a setting is as elsewhere: "the same as", "consistent with"."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.language

    @property
    def words(self) -> frozenset[str]:
        """No rule applies because of a comment."""
        return frozenset()


def reason_pattern(models: Models) -> re.Pattern[str]:
    """Return what finds the reasons of all languages."""
    return _any_of(word for row in models.rows("reason-words") for word in row.reasons)


def trouble_pattern(models: Models) -> re.Pattern[str]:
    """Return what finds the trouble of all languages."""
    return _any_of(word for row in models.rows("reason-words") for word in row.trouble)


def setting_pattern(models: Models) -> re.Pattern[str]:
    """Return what finds comments that tell what a number is, in all languages."""
    return _any_of(word for row in models.rows("reason-words") for word in row.restates)


def likeness_pattern(models: Models) -> re.Pattern[str]:
    """Return what finds comments that say that a setting is as elsewhere, in all languages."""
    return _any_of(word for row in models.rows("reason-words") for word in row.alike)


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    return regex.compile("|".join(map(re.escape, words)) or r"(?!)", re.IGNORECASE)


KINDS = {"reason-words": ReasonWords}
