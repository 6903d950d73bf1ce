"""Qualified names: what an expression is called where it comes from, through imports, aliases and re-exports."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.compact import both
from gpulint.query import cyclic
from gpulint.semantic.hidden_modules import is_hidden
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding, BindingKind, ModuleIndex
from gpulint.workspace.summaries import DEFINED

if TYPE_CHECKING:
    from gpulint.project import Project

BUILTINS = frozenset(dir(builtins))
MAX_NAMES = 120
"""Of what may have more names than this none is known."""
_NO_NAMES: frozenset[str] = frozenset()
_NAMED = both(
    ast.Name, ast.Attribute, ast.Call, ast.IfExp, ast.BoolOp, ast.Subscript, ast.FunctionDef, ast.AsyncFunctionDef,
    ast.ClassDef,
)  # fmt: skip
"""Nodes that may have a name."""
_NAMING = (BindingKind.IMPORT, BindingKind.FUNCTION, BindingKind.CLASS, BindingKind.ASSIGN)
"""Bindings that may give one."""


def _known(names: frozenset[str], *_: object) -> frozenset[str]:
    return names if len(names) <= MAX_NAMES else _NO_NAMES


class QualifiedNames:
    """Qualified names in the modules of one project; every answer is a set, and cached."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def _shared(self, names: Iterable[str]) -> frozenset[str]:
        """Names as a set, of which all equal answers share one: most are asked of many places."""
        found = frozenset(names)
        return self._sets.setdefault(found, found)

    def names(self, module: ModuleIndex, node: ast.AST) -> frozenset[str]:
        """Qualified dotted names that an expression may have, as imported and as defined in the tree."""
        kind = type(node)
        if kind not in _NAMED:
            return _NO_NAMES
        # Most are a name that is bound once, or attributes of it: one answer for all that are written alike.
        root, attributes = node, ""
        while isinstance(root, ast.Attribute):
            attributes = f"{root.attr}.{attributes}" if attributes else root.attr
            root = root.value
        if isinstance(root, ast.Name):
            bindings = module.scope(root).lookup(root.id)
            if len(bindings) == 1:
                binding = bindings[0]
                return self._names_under(module, binding, attributes) if binding.kind in _NAMING else _NO_NAMES
        return self._names(module, node)

    @cyclic(_NO_NAMES, _known)
    def _names(self, module: ModuleIndex, node: ast.AST) -> frozenset[str]:
        """The same, asked of each expression by itself."""
        return self._shared(self._find_names(module, node))

    @cyclic(_NO_NAMES, _known)
    def _names_under(self, module: ModuleIndex, binding: Binding, attributes: str) -> frozenset[str]:
        """Qualified names of a binding, or of ``attributes`` (``nn.functional``) of what it binds."""
        if not attributes:
            return self._shared(self._binding_names(module, binding))
        rest, _, last = attributes.rpartition(".")
        return self._shared(self._attribute_names(module, self._names_under(module, binding, rest), last))

    def _attribute_names(self, module: ModuleIndex, prefixes: frozenset[str], attribute: str) -> Iterator[str]:
        for prefix in prefixes:
            yield from self._meant(f"{prefix}.{attribute}", module.path)

    def call_names(self, module: ModuleIndex, call: ast.Call) -> frozenset[str]:
        """Qualified names of what a call calls."""
        return self.names(module, call.func)

    def calls_to(self, module: ModuleIndex, targets: frozenset[str]) -> list[ast.Call]:
        """Calls of a module to one of the qualified names, under whatever alias, in source order."""
        words: set[str] = set()
        for last in {target.rsplit(".", 1)[-1] for target in targets}:
            words |= {last} | module.aliases.get(last, set())
        calls = [call for word in sorted(words) for call in module.calls_by_name.get(word, [])]
        found = [call for call in calls if self.call_names(module, call) & targets]
        return sorted(found, key=lambda call: (call.lineno, call.col_offset))

    def _find_names(self, module: ModuleIndex, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Name(id=name):
                yield from self._name_names(module, name, node)
            case ast.Attribute(value=base, attr=attr):
                yield from self._attribute_names(module, self.names(module, base), attr)
            case ast.Call(func=func, args=[inner, *_]) if "functools.partial" in self.names(module, func):
                yield from self.names(module, inner)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self.names(module, body) | self.names(module, orelse)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self.names(module, value)
            case ast.Subscript():
                for part in self._entries(module, node, ()):
                    yield from self.names(module, part)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                outer = module.class_of(node)
                yield f"{module.name}.{outer.name}.{name}" if outer else f"{module.name}.{name}"

    def _name_names(self, module: ModuleIndex, name: str, use: ast.AST) -> Iterator[str]:
        bindings = module.scope(use).lookup(name)
        if not bindings:
            stars = [binding.target[:-2] for binding in module.top.bindings.get("*", [])]
            for package in stars:
                absolute = self._project.absolute(package, module.path)
                if name in BUILTINS:  # which hardly anybody overrides, and which half of the tree mentions
                    yield f"{absolute}.{name}"
                else:
                    yield from self._meant(f"{absolute}.{name}", module.path)
            if name in BUILTINS:
                yield name
        for binding in reaching(module, bindings, use):
            yield from self._binding_names(module, binding)

    def _binding_names(self, module: ModuleIndex, binding: Binding) -> Iterator[str]:
        if binding.kind is BindingKind.IMPORT:
            yield from self._meant(self._project.absolute(binding.target, module.path), module.path)
        elif binding.kind in (BindingKind.FUNCTION, BindingKind.CLASS):
            yield from self.names(module, binding.node)
        elif binding.kind is BindingKind.ASSIGN and binding.value is not None:
            for part in self._entries(module, binding.value, binding.path) if binding.path else (binding.value,):
                yield from self.names(module, part)

    def _entries(self, module: ModuleIndex, node: ast.expr, path: tuple[int, ...]) -> Iterator[ast.expr]:
        """Yield what ``TABLE[name]`` may be, or the elements that unpacking takes of it, if the table is a dictionary
        that is written out."""
        match node:
            case ast.Subscript(value=base, slice=ast.Constant(value=int(index))) if type(index) is int:
                yield from self._entries(module, base, (index, *path))
            case ast.Subscript(value=ast.Name(id=name) as base, slice=key):
                bindings = module.scope(base).lookup(name)
                table = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
                if not isinstance(table, ast.Dict) or not all(table.keys):
                    return
                for given, value in zip(table.keys, table.values, strict=True):
                    if not _are_different(key, given):
                        yield from self._entries(module, value, path)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if path:
                if not any(isinstance(part, ast.Starred) for part in parts) and -len(parts) <= path[0] < len(parts):
                    yield from self._entries(module, parts[path[0]], path[1:])
            case _ if not path:
                yield node

    def _meant(self, name: str, importer: Path) -> Iterator[str]:
        """Yield a dotted name as it is written, and the names under which it is defined elsewhere in the tree
        (re-exports followed). What is beside a script hides what has the name at the root."""
        found = self._project.definition_of(name, importer)
        if found is None or found[0] == importer:
            yield name
            return
        if not is_hidden(self._project, name, importer, found[0]):
            yield name
        bound = self._project.bound(*found)
        if bound is not None:
            for number in range(len(bound)):
                yield from self._bound_names(*found, number)
        elif (where := self._project.module_at(found[0])) is not None:
            for binding in where.top.bindings.get(found[1], ()):
                yield from self._names_under(where, binding, "")

    @cyclic(_NO_NAMES, _known)
    def _bound_names(self, path: Path, name: str, number: int) -> frozenset[str]:
        """Qualified names of one binding of a file, which is an import or a definition; the file is not parsed if an
        earlier run has summarized it."""
        bound = self._project.bound(path, name)
        assert bound is not None
        kind, target = bound[number]
        if kind == DEFINED:
            return frozenset({f"{self._project.module_name(path)}.{target}"})
        return frozenset(self._meant(self._project.absolute(target, path), path))


def _are_different(one: ast.expr, other: ast.expr | None) -> bool:
    return isinstance(one, ast.Constant) and isinstance(other, ast.Constant) and one.value != other.value
