"""The editor's settings: the section ``gpulint`` of its configuration, checked key by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpulint.finding import Severity
from gpulint.records import dataclass
from gpulint.suggestions import suggestion

SECTION = "gpulint"


@dataclass(frozen=True)
class Settings:
    """What the editor asks for."""

    options: tuple[str, ...] = ()
    """The same as options of ``gpulint scan``; like them they are laid over the settings file."""
    unsafe_fixes: bool = True
    """Offer fixes that change behaviour or need a choice, marked as such."""
    syntax_errors: bool = True
    """Show why a file could not be read."""
    complaints: tuple[str, ...] = ()
    """Keys that are unknown or have the wrong type; they have no effect."""


def read(given: Any) -> Settings:
    """Settings from ``initializationOptions`` or the client's configuration, with or without the section's name."""
    if isinstance(given, Mapping) and isinstance(given.get(SECTION), Mapping):
        given = given[SECTION]
    options: list[str] = []
    switches: dict[str, bool] = {}
    complaints = []
    for key, value in given.items() if isinstance(given, Mapping) else ():
        if value is None:
            continue
        if key in _OPTIONS:
            option, words = _OPTIONS[key][0], _OPTIONS[key][1](value)
            if words is None:
                complaints.append(f"{SECTION}.{key}: not a valid value: {value!r}")
            elif words:
                options.append(f"{option}={words}")
        elif key in _SWITCHES and isinstance(value, bool):
            switches[_SWITCHES[key]] = value
        elif key in _SWITCHES:
            complaints.append(f"{SECTION}.{key}: must be true or false")
        else:
            complaints.append(f"{SECTION}.{key}: unknown setting{suggestion(key, [*_OPTIONS, *_SWITCHES])}")
    return Settings(tuple(options), complaints=tuple(complaints), **switches)


def _rules(value: Any) -> str | None:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return None


def _severity(value: Any) -> str | None:
    return value if value in [str(level) for level in Severity] else None


def _file(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_OPTIONS: dict[str, tuple[str, Callable[[Any], str | None]]] = {
    "select": ("--select", _rules),
    "extendSelect": ("--extend-select", _rules),
    "ignore": ("--ignore", _rules),
    "severity": ("--severity", _severity),
    "config": ("--config", _file),
}
_SWITCHES = {"unsafeFixes": "unsafe_fixes", "showSyntaxErrors": "syntax_errors"}
