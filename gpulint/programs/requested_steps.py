"""Commands of scripts that run only where somebody asks for them, and not as the script stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint import regex

if TYPE_CHECKING:
    from gpulint.documents.shell import Block, Command

_TEST = regex.compile(
    r"\[\[?\s+\"?\$(?:(?P<plain>\w+)|\{(?P<name>\w+)(?P<given>:?-(?P<default>[\w.-]*))?\})\"?\s+(?P<how>==?|!=|-eq|-ne)"
    r"\s+[\"']?(?P<other>[\w.-]*)[\"']?\s+\]\]?"
)
_EQUAL = frozenset({"=", "==", "-eq"})


def runs_on_request(command: Command) -> bool:
    """Return whether a test leaves a command out unless its variable is set (``if [ "${SYNC:-0}" = 1 ]``)."""
    return any(_leaves_out(command, block) for block in command.conditions)


def _leaves_out(command: Command, block: Block) -> bool:
    if block.kind not in ("if", "and") or (test := _TEST.fullmatch(block.text.strip())) is None:
        return False
    value = _value(command, test["plain"] or test["name"], test["default"] if test["given"] else None)
    return value is not None and (value == test["other"]) != (test["how"] in _EQUAL)


def _value(command: Command, name: str, default: str | None) -> str | None:
    """Return what the variable is where nobody sets it; None if that is not known."""
    if all(item.name != name for item in command.script.assignments):
        return default
    found = command.script.expander().variable(name, command)
    return found.text if found is not None and found.known else None
