"""One download: what is fetched, where from, and by which call."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpulint.facts.scopes import Ref, last_name
from gpulint.finding import Place


@dataclass(frozen=True, slots=True)
class Download:
    """One call that fetches ``what`` (empty when unknown) ``origin``; ``kind``: ``data``, ``weights``, ``metric``."""

    call: Ref
    name: str
    """The callee as a reader knows it (``AutoModel.from_pretrained``)."""
    what: str
    origin: str
    kind: str
    place: Place | None = None
    """Where ``what`` is set, if that is elsewhere."""

    @property
    def node(self) -> ast.Call:
        assert isinstance(self.call.node, ast.Call)
        return self.call.node


def callee(call: ast.Call) -> str:
    """The last two components of what is called."""
    func = call.func
    if isinstance(func, ast.Attribute) and (owner := last_name(func.value)) and owner != "__dict__":
        return f"{owner}.{func.attr}"
    if isinstance(func, ast.Subscript | ast.Call):
        return "the model factory"
    return last_name(func)
