"""What the names of one Python file mean, as far as the file alone tells."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from gpulint.records import dataclass

if TYPE_CHECKING:
    from gpulint.documents.python import PythonModule

_SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_DEFINITIONS: tuple[type[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef], ...] = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)
_CHANGES = frozenset({"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault"})
_MAX_DEPTH = 20

Meaning = ast.expr | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | str
"""An expression, a definition of the file, or the dotted name of what is imported."""


@dataclass(frozen=True, slots=True)
class _Binding:
    """``is_plain``: the statement runs whenever its scope does."""

    value: Meaning | None
    line: int
    is_plain: bool


class _Bindings:
    """All that binds a name in one scope, in order."""

    def __init__(self, found: list[_Binding]) -> None:
        self.all = sorted(found, key=lambda binding: binding.line)
        self.lines = [binding.line for binding in self.all]
        values = {one.value if isinstance(one.value, str) else id(one.value) for one in self.all}
        self.is_one_value = len(values) == 1
        self.is_plain = all(binding.is_plain for binding in self.all)

    def value(self, line: int | None) -> Meaning | None:
        """The one value; of several assignments in turn the last one before a line of the same scope."""
        if self.is_one_value:
            return self.all[0].value
        at = bisect_left(self.lines, line) if line is not None and self.is_plain else 0
        return self.all[at - 1].value if at else None


class Names:
    """Imports, assignments and definitions of one module."""

    def __init__(self, module: PythonModule) -> None:
        self.module = module

    def meaning(self, name: ast.Name) -> Meaning | None:
        """Return what a name stands for where it is used; None if that may be several things, or comes from outside."""
        home = self._home(name)
        if home is None:
            return None
        return self._bindings[home, name.id].value(name.lineno if home is self.scope(name) else None)

    def _home(self, name: ast.Name) -> ast.AST | None:
        """The scope that binds a name which is used in this one or one within it."""
        scope: ast.AST = self.scope(name)
        own = scope
        while (scope, name.id) not in self._bindings or (isinstance(scope, ast.ClassDef) and scope is not own):
            if scope is self.module.tree:
                return None
            scope = self.scope(scope)
        return scope

    def qualified(self, node: ast.AST, depth: int = 0) -> str | None:
        """The dotted name of an expression: ``modal.App().function`` of ``app.function`` after ``app = modal.App()``,
        ``./train.py:main`` of what this file defines."""
        if depth > _MAX_DEPTH:
            return None
        match node:
            case ast.Name():
                meaning = self.meaning(node)
                if isinstance(meaning, str):
                    return meaning
                if isinstance(meaning, _DEFINITIONS):
                    return f"./{self.module.path.name}:{meaning.name}"
                return self.qualified(meaning, depth + 1) if meaning is not None else None
            case ast.Attribute():
                owner = self.qualified(node.value, depth + 1)
                return None if owner is None else f"{owner}.{node.attr}"
            case ast.Call():
                called = self.qualified(node.func, depth + 1)
                return None if called is None else f"{called}()"
        return None

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, class or module that a node is evaluated in: of decorators and defaults the one around."""
        child = node
        for up in self.module.ancestors(node):
            if isinstance(up, _SCOPES) and not _is_outside(up, child, node):
                return up
            child = up
        return self.module.tree

    def alternatives(self, name: ast.Name) -> list[ast.expr]:
        """All values that the scope of a name assigns to it; none if some are unknown."""
        bindings = self._bindings.get((self.scope(name), name.id))
        values = [binding.value for binding in bindings.all] if bindings is not None else []
        found = [value for value in values if isinstance(value, ast.expr)]
        return found if len(found) == len(values) else []

    def is_argument(self, name: ast.Name) -> bool:
        """Return whether a name is an argument of the function around it, and nothing else."""
        bindings = self._bindings.get((self.scope(name), name.id))
        return bindings is not None and bindings.lines == [0]

    def is_changed(self, name: str) -> bool:
        """Return whether the file changes a list or dictionary by that name after it was made, by more than ``added``
        tells."""
        return name in self._changed

    @cached_property
    def added(self) -> dict[str, dict[str, tuple[ast.expr, ast.expr | None]]]:
        """Key and value of entries that are set in dictionaries one by one, by the names of both (``options["nodes"] =
        2``); no value where it is set under a condition or several times."""
        found: dict[str, dict[str, tuple[ast.expr, ast.expr | None]]] = {}
        for node in self.module.of(ast.Subscript):
            if _sets_entry(node) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):
                entries, key = found.setdefault(node.value.id, {}), str(node.slice.value)
                statement = self.module.parents.get(node)
                is_plain = isinstance(statement, ast.Assign) and self.module.parents.get(statement) is self.scope(node)
                value = statement.value if is_plain and isinstance(statement, ast.Assign) else None
                entries[key] = (node.slice, None if key in entries else value)
        return found

    def uses(self, name: ast.Name) -> Iterator[ast.Attribute]:
        """Attributes of a name that is assigned here, up to where it is assigned again: ``executor.submit``."""
        home = self._home(name)
        if home is None:
            return
        lines = self._bindings[home, name.id].lines
        following = bisect_right(lines, name.lineno)
        end = lines[following] if following < len(lines) else None
        found = self._uses.get((home, name.id), [])
        for use in found[bisect_left(found, name.lineno, key=lambda one: one.lineno) :]:
            if end is not None and use.lineno > end:
                return
            yield use

    @cached_property
    def _uses(self) -> dict[tuple[ast.AST, str], list[ast.Attribute]]:
        found: dict[tuple[ast.AST, str], list[ast.Attribute]] = {}
        for node in self._attributes:
            if isinstance(node.value, ast.Name) and (home := self._home(node.value)) is not None:
                found.setdefault((home, node.value.id), []).append(node)
        return found

    @cached_property
    def _attributes(self) -> list[ast.Attribute]:
        """Attributes of plain names, in order."""
        found = (node for node in self.module.of(ast.Attribute) if isinstance(node.value, ast.Name))
        return sorted(found, key=lambda node: node.lineno)

    @cached_property
    def _changed(self) -> frozenset[str]:
        stores = [node for node in self.module.of(ast.Subscript) if not isinstance(node.ctx, ast.Load)]
        stores = [node for node in stores if not _sets_entry(node)]
        changed = {node.value.id for node in stores if isinstance(node.value, ast.Name)}
        calls = (use.value for use in self._attributes if use.attr in _CHANGES)
        return frozenset(changed | {owner.id for owner in calls if isinstance(owner, ast.Name)})

    @cached_property
    def _bindings(self) -> dict[tuple[ast.AST, str], _Bindings]:
        found: dict[tuple[ast.AST, str], list[_Binding]] = {}
        for home, name, binding in self._all():
            found.setdefault((home, name), []).append(binding)
        return {key: _Bindings(bindings) for key, bindings in found.items()}

    def _all(self) -> Iterator[tuple[ast.AST, str, _Binding]]:
        parents = self.module.parents
        imports: list[ast.Import | ast.ImportFrom] = [*self.module.of(ast.Import), *self.module.of(ast.ImportFrom)]
        for statement in imports:
            scope = self.scope(statement)
            for alias in statement.names:
                is_whole = isinstance(statement, ast.Import) and alias.asname is None
                bound = alias.name.split(".")[0] if is_whole else alias.asname or alias.name
                yield scope, bound, _Binding(_imported(statement, alias), statement.lineno, True)
        for kind in _DEFINITIONS:
            for definition in self.module.of(kind):
                scope = self.scope(definition)
                is_plain = parents.get(definition) is scope
                yield scope, definition.name, _Binding(definition, definition.lineno, is_plain)
        for declared in self.module.of(ast.Global):
            yield from ((self.module.tree, name, _Binding(None, 0, False)) for name in declared.names)
        for argument in self.module.of(ast.arg):
            yield self.scope(argument), argument.arg, _Binding(None, 0, True)
        for name in self.module.of(ast.Name):
            if not isinstance(name.ctx, ast.Load):
                scope = self.scope(name)
                up = parents.get(name)
                value = _assigned(name, up)
                yield scope, name.id, _Binding(value, name.lineno, up is not None and parents.get(up) is scope)


def _sets_entry(node: ast.Subscript) -> bool:
    return (
        isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    )


def _is_outside(scope: ast.AST, child: ast.AST, node: ast.AST) -> bool:
    """Return whether a part of a definition is evaluated before the definition's own scope is there."""
    if isinstance(scope, ast.ClassDef):
        return child not in scope.body
    if isinstance(scope, ast.Lambda):
        return child is scope.args and not isinstance(node, ast.arg)
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return child in scope.decorator_list or (child is scope.args and not isinstance(node, ast.arg))
    return False


def _imported(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(statement, ast.Import):
        return alias.name if alias.asname else alias.name.split(".")[0]
    package = "." * statement.level + (statement.module or "")
    return package + alias.name if package.endswith(".") else f"{package}.{alias.name}"


def _assigned(name: ast.Name, statement: ast.AST | None) -> ast.expr | None:
    match statement:
        case ast.Assign(targets=targets, value=value) if any(target is name for target in targets):
            return value
        case ast.AnnAssign(value=value) | ast.NamedExpr(value=value):
            return value
    return None
