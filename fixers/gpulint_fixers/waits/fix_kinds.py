"""Kinds of fixes for waits, of which each rests on other waits of the step in its own way."""

import ast

from gpulint.fix import Declined, Fix
from gpulint.workspace.module_index import ModuleIndex

READ_ELSEWHERE = Declined(
    "the value is read in a function that the loop calls; return the tensor and read it less often"
)


def read_in_rounds(module: ModuleIndex, inner: ast.For) -> Declined:
    """Return the refusal for a value that each round of an inner loop reads through a function."""
    where = module.syntax.span(inner).words
    return Declined(f"each round of the loop in {where} reads it; copy what all rounds read before that loop")


class Removal(Fix):
    """Removes a value that nothing reads."""

    __slots__ = ()


class WholeCopy(Fix):
    """Copies a whole tensor to the host instead of its parts one by one."""

    __slots__ = ()
