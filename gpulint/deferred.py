"""Functions whose module is imported at their first call, so that a start pays only for what it uses."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import reduce
from typing import Any


class Deferred:
    """The function at a dotted ``name`` (``RULE.check``) of ``module``; it can be pickled, whatever it does."""

    def __init__(self, module: str, name: str) -> None:
        self.__module__ = module
        self.__name__ = name
        self._function: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        """Call the function; raises whatever importing its module raises."""
        function = self._function
        if function is None:
            function = self._function = reduce(
                getattr, self.__name__.split("."), importlib.import_module(self.__module__)
            )
        return function(*args)

    def __reduce__(self) -> tuple[type[Deferred], tuple[str, str]]:
        return type(self), (self.__module__, self.__name__)
