"""Defaults of the options that a submitting program takes itself."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulint.documents.calls.names import Names

_PARSES = frozenset({"parse_args", "parse_known_args"})


class Options:
    """What argparse sets in one file."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[ast.AST, bool] = {}

    def default(self, expr: ast.Attribute) -> ast.expr | None:
        """The default of the option that ``args.model`` is; None if it has none, or several are possible."""
        owner = expr.value
        if not isinstance(owner, ast.Name) or expr.attr not in self._defaults or not self._is_parsed(owner):
            return None
        return self._defaults[expr.attr]

    def _is_parsed(self, name: ast.Name) -> bool:
        """Return whether a name may hold parsed options: a function's own argument may, as one is called with them."""
        meaning = self._names.meaning(name)
        if isinstance(meaning, ast.Call):
            called = self._names.meaning(meaning.func) if isinstance(meaning.func, ast.Name) else None
            parts = [called] if isinstance(called, ast.FunctionDef) else [meaning]
            return any(map(self._parses, parts))
        return meaning is None and self._names.is_argument(name)

    def _parses(self, part: ast.AST) -> bool:
        """Return whether a call or function parses options."""
        known = self._known.get(part)
        if known is None:
            calls = (node.func for node in ast.walk(part) if isinstance(node, ast.Call))
            known = any(isinstance(called, ast.Attribute) and called.attr in _PARSES for called in calls)
            self._known[part] = known
        return known

    @cached_property
    def _defaults(self) -> dict[str, ast.expr | None]:
        calls = list(self._names.module.of(ast.Call))
        if not any(isinstance(call.func, ast.Attribute) and call.func.attr in _PARSES for call in calls):
            return {}
        found: dict[str, ast.expr | None] = {}
        for call in calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                keywords = {keyword.arg: keyword.value for keyword in call.keywords}
                name = _destination(call, keywords.get("dest"))
                found[name] = None if name in found else keywords.get("default")
        return found


def _destination(call: ast.Call, stated: ast.expr | None) -> str:
    if isinstance(stated, ast.Constant):
        return str(stated.value)
    flags = [str(flag.value) for flag in call.args if isinstance(flag, ast.Constant)]
    long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
    return long.lstrip("-").replace("-", "_")
