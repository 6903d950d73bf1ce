"""Kinds of fixes for waits, of which each rests on other waits of the step in its own way."""

import ast

from gpulint.fix import Declined, Fix

READ_ELSEWHERE = Declined(
    "the value is read in a function that the loop calls; return the tensor and read it less often"
)


def read_in_rounds(inner: ast.For) -> Declined:
    """Return the refusal for a value that each round of an inner loop reads through a function."""
    return Declined(
        f"each round of the loop in line {inner.lineno} reads it; copy what all rounds read before that loop"
    )


class Removal(Fix):
    """Removes a value that nothing reads."""

    __slots__ = ()


class WholeCopy(Fix):
    """Copies a whole tensor to the host instead of its parts one by one."""

    __slots__ = ()
