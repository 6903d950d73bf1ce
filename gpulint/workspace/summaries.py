"""Plain summaries of parsed modules, for questions that then need no syntax tree: they outlive the process.

They say what a module binds at its top, and from where it calls what, by names alone.
"""

from __future__ import annotations

import ast
from functools import cached_property

from gpulint.query import query
from gpulint.workspace.module_index import LOOPS, BindingKind, FunctionNode, ModuleIndex

ELSEWHERE = "?"
"""Stands for a caller of which no name says what calls it: in a loop, a method, a nested function or a generator."""
TOP = "-"
"""Stands for a call outside of all functions."""
HANDED = "@"
"""Stands for a call that is handed the function."""
IMPORTED, DEFINED = "i", "d"
"""Kinds of bindings."""
_KINDS = {BindingKind.IMPORT: IMPORTED, BindingKind.FUNCTION: DEFINED, BindingKind.CLASS: DEFINED}

Definition = tuple[str, str]
"""``(IMPORTED, target)`` with the target as the module writes it, or ``(DEFINED, name)`` of a function or class."""


def bound(module: ModuleIndex, name: str) -> tuple[Definition, ...] | None:
    """Return what a module binds a name to at its top; None if that may be more than imports and definitions."""
    bindings = module.top.bindings.get(name, ())
    if any(binding.kind not in _KINDS for binding in bindings):
        return None
    return tuple((_KINDS[binding.kind], binding.target or name) for binding in bindings)


def calls(module: ModuleIndex, name: str) -> bool:
    """Return whether a module calls what it knows by a name, or hands it to a call."""
    if name in module.calls_by_name or name in module.handed_over:
        return True
    return any(alias in module.calls_by_name for alias in module.aliases.get(name, ()))


def callers(module: ModuleIndex, name: str) -> frozenset[str]:
    """Return from where a module calls what it knows by a name: the plain functions that the calls are in (``Name.`` in
    the constructor of a class), ``TOP``, ``ELSEWHERE`` and ``HANDED``."""
    found = {HANDED} if name in module.handed_over else set()
    for alias in {name} | module.aliases.get(name, set()):
        found.update(_caller(module, call) for call in module.calls_by_name.get(alias, ()))
    return frozenset(found)


class Summary:
    """What both say of a module without its syntax tree. ``text`` is plain, and fit to be kept."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _lines(self) -> dict[str, str]:
        return dict(line.partition(" ")[::2] for line in self.text.split("\n"))

    @classmethod
    def of(cls, module: ModuleIndex) -> Summary:
        """Summarize a module: a line for each name, with its definitions and, after a bar, its callers."""
        lines = []
        for name in {*module.top.bindings, *module.calls_by_name, *module.handed_over, *module.aliases}:
            definitions = bound(module, name)
            rows = [ELSEWHERE] if definitions is None else [f"{kind}{target}" for kind, target in definitions]
            lines.append(f"{name} {' '.join(rows)}|{' '.join(sorted(callers(module, name)))}")
        return cls("\n".join(lines))

    def bound(self, name: str) -> tuple[Definition, ...] | None:
        """The same as :func:`bound`."""
        rows = self._lines.get(name, "|").partition("|")[0]
        return None if rows == ELSEWHERE else tuple((row[0], row[1:]) for row in rows.split())

    def calls(self, name: str) -> bool:
        """The same as :func:`calls`."""
        return self._lines.get(name, "|")[-1] != "|"

    def callers(self, name: str) -> frozenset[str]:
        """The same as :func:`callers`."""
        return frozenset(self._lines.get(name, "|").partition("|")[2].split())


def _caller(module: ModuleIndex, call: ast.Call) -> str:
    function = module.function(call)
    if function in _looping(module) and any(isinstance(up, LOOPS) for up in module.syntax.ancestors(call)):
        return ELSEWHERE
    if function is None:
        return TOP
    if function in _generators(module):
        return ELSEWHERE
    if function.name == "__init__":
        return _constructed(module, function)
    return function.name if is_plain(module, function) else ELSEWHERE


@query
def _looping(module: ModuleIndex) -> frozenset[FunctionNode | None]:
    """The functions with loops."""
    return frozenset(module.function(loop) for loop in module.loops)


@query
def _generators(module: ModuleIndex) -> frozenset[FunctionNode | None]:
    """The functions that yield."""
    return frozenset(module.function(node) for node in module.syntax.of(ast.Yield, ast.YieldFrom))


def _constructed(module: ModuleIndex, function: FunctionNode) -> str:
    owner = module.syntax.parents.get(function)
    at_top = isinstance(owner, ast.ClassDef) and module.scope(owner) is module.top
    return f"{owner.name}." if isinstance(owner, ast.ClassDef) and at_top else ELSEWHERE


def is_plain(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function is at the top of its module, and found by its name wherever it is called."""
    special = function.name == "forward" or function.name.startswith("__") or "closure" in function.name
    return not special and module.function(function) is None and module.class_of(function) is None
