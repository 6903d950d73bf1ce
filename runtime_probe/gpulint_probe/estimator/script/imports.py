"""Actions that run when a script first imports a module."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

Action = Callable[[ModuleType], None]


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls ``actions[name](module)`` once the module of that name is imported."""

    def __init__(self, actions: dict[str, Action]) -> None:
        self._actions = actions

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        action = self._actions.get(name)
        if action is None or sys._getframe(1).f_code.co_name == "find_spec":  # asked whether it is installed
            return None
        del self._actions[name]
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then_act(module: ModuleType) -> None:
            execute(module)
            action(module)

        spec.loader.exec_module = execute_then_act  # type: ignore[method-assign]
        return spec


def after_import(actions: Mapping[str, Action], stack: contextlib.ExitStack) -> None:
    """Call an action with each module of these names: now, or when it is imported until ``stack`` is closed."""
    finder = _AfterImport({name: action for name, action in actions.items() if name not in sys.modules})
    sys.meta_path.insert(0, finder)
    stack.callback(sys.meta_path.remove, finder)
    for name in actions.keys() & sys.modules.keys():
        actions[name](sys.modules[name])
