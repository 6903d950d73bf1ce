"""Qualified names: what an expression is called where it comes from, through imports, aliases and re-exports."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.facts.reaching import reaching
from gpulint.facts.scopes import Binding, Bound, ModuleScopes
from gpulint.query import cyclic

if TYPE_CHECKING:
    from gpulint.project import Project

BUILTINS = frozenset(dir(builtins))
MAX_NAMES = 120
"""Of what may have more names than this none is known."""
_NO_NAMES: frozenset[str] = frozenset()


def _known(names: frozenset[str], *_: object) -> frozenset[str]:
    return names if len(names) <= MAX_NAMES else _NO_NAMES


class Names:
    """Qualified names in the modules of one project; every answer is a set, and cached."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    @cyclic(_NO_NAMES, _known)
    def names(self, scopes: ModuleScopes, node: ast.AST) -> frozenset[str]:
        """Qualified dotted names that an expression may have, as imported and as defined in the tree."""
        return frozenset(self._find_names(scopes, node))

    def call_names(self, scopes: ModuleScopes, call: ast.Call) -> frozenset[str]:
        """Qualified names of what a call calls."""
        return self.names(scopes, call.func)

    def calls_to(self, scopes: ModuleScopes, targets: frozenset[str]) -> list[ast.Call]:
        """Calls of a module to one of the qualified names, under whatever alias, in source order."""
        words: set[str] = set()
        for last in {target.rsplit(".", 1)[-1] for target in targets}:
            words |= {last} | scopes.aliases.get(last, set())
        calls = [call for word in sorted(words) for call in scopes.calls_by_name.get(word, [])]
        found = [call for call in calls if self.call_names(scopes, call) & targets]
        return sorted(found, key=lambda call: (call.lineno, call.col_offset))

    def _find_names(self, scopes: ModuleScopes, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Name(id=name):
                yield from self._name_names(scopes, name, node)
            case ast.Attribute(value=base, attr=attr):
                for prefix in self.names(scopes, base):
                    yield f"{prefix}.{attr}"
                    yield from self._defined(f"{prefix}.{attr}", scopes)
            case ast.Call(func=func, args=[inner, *_]) if "functools.partial" in self.names(scopes, func):
                yield from self.names(scopes, inner)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self.names(scopes, body) | self.names(scopes, orelse)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self.names(scopes, value)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                outer = scopes.class_of(node)
                yield f"{scopes.name}.{outer.name}.{name}" if outer else f"{scopes.name}.{name}"

    def _name_names(self, scopes: ModuleScopes, name: str, use: ast.AST) -> Iterator[str]:
        bindings = scopes.scope(use).lookup(name)
        if not bindings:
            stars = [binding.target[:-2] for binding in scopes.top.bindings.get("*", [])]
            for module in stars:
                absolute = self._project.absolute(module, scopes.path)
                yield f"{absolute}.{name}"
                if name not in BUILTINS:  # which hardly anybody overrides, and which half of the tree mentions
                    yield from self._defined(f"{absolute}.{name}", scopes)
            if name in BUILTINS:
                yield name
        for binding in reaching(scopes, bindings, use):
            yield from self._binding_names(scopes, binding)

    def _binding_names(self, scopes: ModuleScopes, binding: Binding) -> Iterator[str]:
        if binding.kind is Bound.IMPORT:
            absolute = self._project.absolute(binding.target, scopes.path)
            yield absolute
            yield from self._defined(absolute, scopes)
        elif binding.kind in (Bound.FUNCTION, Bound.CLASS):
            yield from self.names(scopes, binding.node)
        elif binding.kind is Bound.ASSIGN and binding.value is not None and not binding.path:
            yield from self.names(scopes, binding.value)

    def _defined(self, name: str, scopes: ModuleScopes) -> Iterator[str]:
        """Names under which a dotted name is defined elsewhere in the tree (re-exports followed)."""
        for where, binding in self._project.find(name, scopes):
            if where is not scopes or binding.scope is not scopes.top:
                yield from self._names_of_binding(where, binding)

    @cyclic(_NO_NAMES, _known)
    def _names_of_binding(self, scopes: ModuleScopes, binding: Binding) -> frozenset[str]:
        return frozenset(self._binding_names(scopes, binding))
