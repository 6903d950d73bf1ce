"""Keys and answers of queries as JSON, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Plain = Any
"""What JSON can hold."""


class Codec:
    """Keys of inputs and queries as JSON, and back; paths count from a root."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._paths: dict[Path, str] = {}
        self._known: dict[str, Path] = {}

    def out(self, value: Any) -> Plain:
        if isinstance(value, Path):
            known = self._paths.get(value)
            if known is None:
                text = str(value)
                inside = text.startswith(self._root)
                known = self._paths[value] = f".{text[len(self._root) :]}" if inside else f"/{text}"
            return known
        if isinstance(value, bytes):
            return f"b{value.decode('latin-1')}"
        if isinstance(value, str):
            return f"s{value}"
        if isinstance(value, frozenset):
            return {"set": [self.out(part) for part in sorted(value)]}
        if isinstance(value, tuple):
            return [self.out(part) for part in value]
        return value

    def back(self, value: Plain) -> Any:
        if isinstance(value, str):
            match value[:1]:
                case "s":
                    return value[1:]
                case "b":
                    return value[1:].encode("latin-1")
            known = self._known.get(value)
            if known is None:
                known = self._known[value] = Path(self._root + value[1:] if value[0] == "." else value[1:])
            return known
        if isinstance(value, dict):
            return frozenset(map(self.back, value["set"]))
        if isinstance(value, list):
            return tuple(map(self.back, value))
        return value
