"""One download: what is fetched, where from, and by which call."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpulint.facts.scopes import AtCall, last_name
from gpulint.finding import Place


@dataclass(frozen=True, slots=True)
class Download(AtCall):
    """One call that fetches ``what`` (empty when unknown) ``origin``; ``kind``: ``data``, ``weights``, ``metric``."""

    name: str
    """The callee as a reader knows it (``AutoModel.from_pretrained``)."""
    what: str
    origin: str
    kind: str
    place: Place | None = None
    """Where ``what`` is set, if that is elsewhere."""


def callee(call: ast.Call) -> str:
    """The last two components of what is called."""
    func = call.func
    if isinstance(func, ast.Attribute) and (owner := last_name(func.value)) and owner != "__dict__":
        return f"{owner}.{func.attr}"
    if isinstance(func, ast.Subscript | ast.Call):
        return "the model factory"
    return last_name(func)
