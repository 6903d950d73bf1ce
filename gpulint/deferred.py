"""Functions whose module is imported at their first call, so that a start pays only for what it uses."""

from __future__ import annotations

import importlib
from operator import attrgetter
from typing import Any


class Deferred:
    """The function at a dotted ``name`` (``RULE.check``) of ``module``; it can be pickled, whatever it does."""

    def __init__(self, module: str, name: str) -> None:
        self.__module__ = module
        self.__name__ = name
        self._function: Any = None

    def __call__(self, *args: Any) -> Any:
        """Call the function; raises whatever importing its module raises."""
        if self._function is None:
            self._function = attrgetter(self.__name__)(importlib.import_module(self.__module__))
        return self._function(*args)

    def __reduce__(self) -> tuple[type[Deferred], tuple[str, str]]:
        return type(self), (self.__module__, self.__name__)
