"""What a dictionary that a function or a model of the tree returns holds under a key (``outputs["counts"]`` of
``outputs = self.model(batch)``), and which methods a call may mean if its object is unknown."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import cyclic, query
from gpulint.semantic import dictionary_items
from gpulint.semantic.argument_binding import accepts
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

_NOTHING: tuple[NodeRef, ...] = ()
MAX_FILES = 20
"""Most files that mention a method and are searched for its implementations."""


class TableEntries:
    """Entries of returned dictionaries in one project."""

    def __init__(self, project: Project) -> None:
        self._project, self.db = project, project.db

    def under(self, module: ModuleIndex, node: ast.Subscript) -> tuple[NodeRef, ...]:
        """Expressions for what ``outputs["counts"]`` may be; none if a dictionary that it may be taken from, or its
        key, is unknown."""
        if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, str):
            return ()
        tables = self._tables(module, node.value)
        resolver, found = self._project.fact(Resolver), list[NodeRef]()
        for table in tables:
            held = dictionary_items.items(resolver, table, node.slice.value)
            if not held:
                return ()
            found += held
        return tuple(dict.fromkeys(found))

    @cyclic(_NOTHING)
    def _tables(self, module: ModuleIndex, node: ast.expr) -> tuple[NodeRef, ...]:
        """The displays that a value may be, through the models that are called; none if it may be something else."""
        resolver, found = self._project.fact(Resolver), list[NodeRef]()
        for ref in resolver.points_to(module, node):
            match ref.node:
                case ast.Dict() if not ref.path:
                    found.append(ref)
                    continue
                case ast.Call() if not ref.path:
                    inner = [
                        self._tables(one.module, value)
                        for one in resolver.callees(ref.module, ref.node)
                        if isinstance(one.node, FUNCTIONS) and one.node.name != "__init__"
                        for value in resolver.returns(one.node)
                    ]
                    if inner and all(inner):
                        found += (one for tables in inner for one in tables)
                        continue
            return ()
        return tuple(dict.fromkeys(found))

    def methods(self, call: ast.Call) -> tuple[NodeRef, ...]:
        """The methods of the tree that ``part.update_codes(x)`` may call by their names, which are of several words."""
        match call.func:
            case ast.Attribute(attr=name) if "_" in name.strip("_"):
                return tuple(one for one in self._named(name) if accepts(one.node, call))
        return ()

    @query
    def _named(self, name: str) -> tuple[NodeRef, ...]:
        paths = [one for one in self._project.word_index.mentioning(word_of(name)) if not self._project.is_test(one)]
        modules = [self._project.module_at(path) for path in paths] if len(paths) <= MAX_FILES else []
        if not all(modules):
            return ()
        return tuple(
            NodeRef(module, function)
            for module in modules
            if module is not None
            for function in module.functions
            if function.name == name and isinstance(module.syntax.parents.get(function), ast.ClassDef)
        )
