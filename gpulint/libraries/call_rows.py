"""What all rows on functions and classes have in common."""

from __future__ import annotations

from gpulint.libraries.names import words


class CallRow:
    """A row on functions and classes, by their qualified names, and on methods where it has some."""

    __slots__ = ()
    calls: tuple[str, ...]

    @property
    def _names(self) -> tuple[str, ...]:
        return (*self.calls, *getattr(self, "methods", ()))

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self._names[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that makes such a call has one of these words."""
        return words(self._names)
