"""The environment that a script gives to a command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from gpulint.documents.shell import ArgWord, Command

T = TypeVar("T")


class Layered(Mapping[str, T]):
    """Mappings as one; of several that have a key the first counts. Nothing is copied."""

    def __init__(self, *layers: Mapping[str, T]) -> None:
        self._layers = [layer for layer in layers if not isinstance(layer, dict) or layer]

    def __getitem__(self, key: str) -> T:
        for layer in self._layers:
            if (found := layer.get(key)) is not None:
                return found
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for layer in self._layers for key in layer))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Environment(Mapping[str, ArgWord]):
    """Exported variables with their value at a command, and those written before it.

    A value is looked up when somebody asks for it: a script with thousands of exports starts thousands of programs.
    """

    def __init__(self, command: Command, env: Mapping[str, str] | None) -> None:
        self._command = command
        self._expander = command.script.expander(env)

    def __getitem__(self, name: str) -> ArgWord:
        if name in self._prefixed:
            return self._prefixed[name]
        exported = self._command.script.exported.get(name)
        value = None
        if exported is not None and exported < self._command.start:
            value = self._expander.variable(name, self._command)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        start = self._command.start
        names = {name for name, first in self._command.script.exported.items() if first < start}
        return (name for name in sorted(names | self._prefixed.keys()) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _prefixed(self) -> dict[str, ArgWord]:
        found = dict[str, ArgWord]()
        for item in self._command.assignments:
            if item.value is not None:
                fields = self._expander.words([item.value], self._command)
                if len(fields) == 1:
                    found[item.name] = fields[0]
        return found
