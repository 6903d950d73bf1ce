"""The environment that a script gives to a command."""

from __future__ import annotations

from collections.abc import Mapping

from gpulint.documents.shell import ArgWord, Command


def environment(command: Command, env: Mapping[str, str] | None) -> dict[str, ArgWord]:
    """Exported variables with their value at the command, then those written before it."""
    script = command.script
    expander = script.expander(env)
    found = dict[str, ArgWord]()
    names = {item.name for item in script.assignments if item.exported and item.start < command.start}
    for other in script.exports:
        if other.start < command.start:
            names |= {word.value for word in other.words[1:] if word.value and word.value.isidentifier()}
    for name in sorted(names):
        value = expander.variable(name, command)
        if value is not None:
            found[name] = value
    for item in command.assignments:
        if item.value is not None:
            fields = expander.words([item.value], command)
            if len(fields) == 1:
                found[item.name] = fields[0]
    return found
