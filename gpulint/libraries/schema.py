"""Rows of TOML tables as typed objects: each kind of row is a dataclass, and what does not fit it is named by field.

Where a field takes several values, one alone need not be in a list; where it takes a table, a text or a list of texts
alone is the table's first field.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Row = TypeVar("Row")


class RowError(ValueError):
    """A row that does not fit its kind; ``field`` is the key at fault, "" for the row as a whole."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"'{field}' {reason}" if field else reason)
        self.field = field
        self.reason = reason
        self.index = 0
        """Which of several rows it is."""


def build(kind: type[Row], table: object) -> Row:
    """An object of the dataclass ``kind`` with the values of a TOML table; keys have hyphens for underscores.

    Raises:
        RowError: unknown or missing field, a value of the wrong type, or one that a field's own check refuses.
    """
    hints = _hints(kind)  # type: ignore[arg-type]
    if not isinstance(table, Mapping):
        raise RowError("", f"must be a table, not {_shown(table)}")
    values = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in hints:
            raise RowError(key, f"is unknown{suggestion(key, [name.replace('_', '-') for name in hints])}")
        try:
            values[name] = _value(hints[name], value)
        except RowError as error:
            where = f"{key}.{error.field}" if error.field else key
            raise RowError(where, error.reason) from None
        except ValueError as error:
            raise RowError(key, str(error)) from None
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        is_optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if not is_optional and field.name not in values:
            raise RowError(field.name.replace("_", "-"), "is missing")
    return kind(**values)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _value(hint: Any, value: object) -> Any:
    """The value as a field's type has it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner, *checks = arguments
        made = _value(inner, value)
        for check in checks:
            check(made)
        return made
    if origin in (Union, types.UnionType):
        return _value(next(argument for argument in arguments if argument is not types.NoneType), value)
    if origin is tuple:
        return tuple(_value(arguments[0], item) for item in (value if isinstance(value, list) else [value]))
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        if not isinstance(value, Mapping):
            raise ValueError(f"must be a table, not {_shown(value)}")
        return {key: _value(arguments[1], item) for key, item in value.items()}
    if origin is Literal:
        if value not in arguments:
            raise ValueError(f"must be one of {', '.join(map(repr, arguments))}, not {_shown(value)}")
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        alone = isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))
        return build(hint, {next(iter(_hints(hint))): value} if alone else value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ValueError(f"must be {_NAMES[hint]}, not {_shown(value)}")
    return value


_NAMES = {str: "a string", int: "a whole number", bool: "true or false"}


def suggestion(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the closest known word, else nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
