"""What keeps an audit from being made, or from being whole."""

from __future__ import annotations

from dataclasses import dataclass, field


class AuditError(Exception):
    """There is no answer; the message is one line that names the file, row or server, and what to do."""


@dataclass
class Problems:
    """What was left out or changed on the way; an audit with ``missing`` is labelled partial."""

    missing: list[str] = field(default_factory=list)
    """Input that could not be used, so that figures may lack something."""
    notes: list[str] = field(default_factory=list)
    """What was understood in one of several ways."""

    @property
    def partial(self) -> bool:
        return bool(self.missing)
