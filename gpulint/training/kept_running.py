"""Waits that keep something running for a person: what is printed beside them says so, or the test around them."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.workspace.module_index import ModuleIndex, last_name

_SERVES = regex.compile(
    r"\b(?:viewer|server|dashboard|visuali[sz]er|web ?ui|gui|demo|notebook)\b[^.!?]{0,40}"
    r"\b(?:running|runs|open|opened|started|listening|listens|available|alive|live|serving|ready|up)\b"
    r"|\b(?:running|serving|listening|available|open)\b[^.!?]{0,20}(?:https?://|\blocalhost\b)"
    r"|\b(?:close|stop|exit|quit|leave|shut ?down) (?:the )?"
    r"(?:viewer|server|dashboard|visuali[sz]er|web ?ui|gui|demo)\b",
    re.IGNORECASE,
)
_STOPPED = regex.compile(r"\b(?:ctrl|control)\s?[-+ ]\s?c\b|\^C\b|keyboard ?interrupt", re.IGNORECASE)
_SWITCH = regex.compile(r"(?:^|_)(?:viewer|gui|webui|dashboard|visuali[sz]er)(?:_|$)", re.IGNORECASE)
_TELLS = frozenset({"print", "info", "log", "warning", "input", "echo", "cprint", "secho", "rule"})
MAX_STATEMENTS = 3
"""Statements above a wait whose texts are about it."""


def tells_of_person(text: str) -> bool:
    """Return whether a text says that a viewer or server runs, or how a person stops what runs."""
    return _SERVES.search(text) is not None or _STOPPED.search(text) is not None


def keeps_running(module: ModuleIndex, wait: ast.stmt) -> bool:
    """Return whether a wait is for a person who looks at something that the program keeps running."""
    for test, holds in conditions(module, wait):
        if any(
            isinstance(one, ast.Name | ast.Attribute) and _SWITCH.search(last_name(one))
            for one, _ in parts_of(test, holds)
        ):
            return True
    return any(tells_of_person(text) for statement in (wait, *_above(module, wait)) for text in _told(statement))


def _above(module: ModuleIndex, wait: ast.stmt) -> list[ast.stmt]:
    """The statements right above a wait in its block."""
    place = module.syntax.place(wait)
    parent = module.syntax.parents.get(wait)
    if place is None or parent is None:
        return []
    block, at = getattr(parent, place[0]), place[1]
    return [one for one in block[max(at - MAX_STATEMENTS, 0) : at] if isinstance(one, ast.Expr)]


def _told(statement: ast.stmt) -> list[str]:
    """The texts that a statement prints, logs or asks."""
    calls = [part for part in walk(statement) if isinstance(part, ast.Call) and last_name(part.func) in _TELLS]
    return [
        " ".join(part.value for part in walk(call) if isinstance(part, ast.Constant) and isinstance(part.value, str))
        for call in calls
    ]
