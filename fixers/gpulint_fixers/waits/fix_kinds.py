"""Kinds of fixes for waits, of which each rests on other waits of the step in its own way."""

from gpulint.fix import Declined, Fix

READ_ELSEWHERE = Declined(
    "the value is read in a function that the loop calls; return the tensor and read it less often"
)


class Removal(Fix):
    """Removes a value that nothing reads."""

    __slots__ = ()


class WholeCopy(Fix):
    """Copies a whole tensor to the host instead of its parts one by one."""

    __slots__ = ()
