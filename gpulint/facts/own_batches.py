"""Batches that are objects of the tree's own, whose ``to`` or ``cuda`` moves what they hold."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.facts.loader_classes import TORCH_LOADERS, Loader
from gpulint.facts.once import once
from gpulint.facts.scopes import FUNCTIONS, FunctionNode, ModuleScopes, Ref, last_name

if TYPE_CHECKING:
    from gpulint.facts.devices import Transfer
    from gpulint.facts.draws import Draw
    from gpulint.project import Project

_METHODS = ("to", "cuda")
_DEFINES = (b"def to(self", b"def cuda(self")
_NAME = regex.compile(r"batch|data|input|features?$|interaction|sample|example|encoding|graph|sequence", re.IGNORECASE)


class OwnBatches:
    """Such classes of one project, and the loops that move them."""

    def __init__(self, project: Project) -> None:
        self._project = project

    @cached_property
    def _classes(self) -> tuple[Ref, ...]:
        """Classes named after batches, other than models and data sets, with a method that moves their parts."""
        project, found = self._project, list[Ref]()
        for path in project.python_files:
            if not any(text in project.data(path) for text in _DEFINES):
                continue
            scopes = project.scopes_at(path)
            with project.containing(path, "classes of batches"):
                for owner in scopes.classes if scopes is not None else ():
                    if _NAME.search(owner.name) and any(_moves(method) for method in _methods(owner)):
                        assert scopes is not None
                        bases = project.resolver.base_names(scopes, owner)
                        if not any(base.endswith(("Module", "Dataset")) for base in bases):
                            found.append(Ref(scopes, owner))
        return tuple(found)

    def _of(self, scopes: ModuleScopes, name: str) -> list[ast.ClassDef]:
        """The classes with a method ``name`` in the modules that a module runs with."""
        if not self._classes:
            return []
        paths = {module.path for module in self._project.gpu_use.of(scopes.path).modules} | {scopes.path}
        return [
            ref.node
            for ref in self._classes
            if isinstance(ref.node, ast.ClassDef)
            and ref.scopes.path in paths
            and any(method.name == name for method in _methods(ref.node))
        ]

    def moves_itself(self, transfer: Transfer) -> bool:
        """Is the transfer a call of such a method, as far as can be told?"""
        scopes, name = transfer.call.scopes, last_name(transfer.node.func)
        if isinstance(transfer.value, ast.Name) and transfer.value.id == "self":
            return True
        if name not in _METHODS or transfer.draw is None or not self._is_object(transfer.value, transfer.draw):
            return False
        return bool(self._of(scopes, name))

    def _is_object(self, value: ast.expr, draw: Draw) -> bool:
        """Is a whole batch moved whose class nobody knows: of no loader of the tree, or made by a ``collate_fn``?"""
        return is_whole(value, draw) and all(self._collates(draw))

    def _collates(self, draw: Draw) -> list[bool]:
        return [not self._project.feeding.argument(loader, "collate_fn", 6).is_absent for loader in draw.loaders]

    def draw_of(self, scopes: ModuleScopes, method: FunctionNode) -> Draw | None:
        """The loop over batches in which ``self`` of a method is moved, or None if the method moves no batch."""
        owner = scopes.module.parents.get(method)
        return self._moved.get(owner) if method.name in _METHODS and owner is not None else None

    @cached_property
    def _moved(self) -> dict[ast.AST, Draw]:
        """Class -> a loop that moves its objects."""
        table: dict[ast.AST, Draw] = {}
        for scopes in self._project.training_modules if self._classes else ():
            with self._project.containing(scopes.path, "moves of batches"):
                for name in _METHODS:
                    for call in scopes.calls_by_name.get(name, []):
                        draw = self._drawn(scopes, call)
                        for owner in self._of(scopes, name) if draw is not None else ():
                            assert draw is not None
                            table.setdefault(owner, draw)
        return table

    def _drawn(self, scopes: ModuleScopes, call: ast.Call) -> Draw | None:
        """The loop whose whole batch a call moves."""
        if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
            return None
        for loop in self._project.loops.around(scopes, call):
            draw = self._project.draws.draw(scopes, loop)
            if draw is not None:
                return draw if not draw.prepared and self._is_object(call.func.value, draw) else None
        return None


def is_collated(project: Project, transfer: Transfer) -> bool:
    """Is a variable moved that a ``collate_fn`` (or a loader class of the tree) made, perhaps neither a tensor nor
    anything of PyTorch's?"""
    draw = transfer.draw
    if draw is None or not isinstance(transfer.value, ast.Name) or not isinstance(draw.where.node, ast.For):
        return False
    return any(_makes_own(project, loader) for loader in draw.loaders)


@once
def _makes_own(project: Project, loader: Loader) -> bool:
    return loader.name not in TORCH_LOADERS or not project.feeding.argument(loader, "collate_fn", 6).is_absent


def is_whole(value: ast.expr, draw: Draw | None) -> bool:
    """Is a value the whole batch of a loop, not a part of it?"""
    loop = draw.where.node if draw is not None else None
    target = loop.target if isinstance(loop, ast.For) else None
    if isinstance(loop, ast.For) and isinstance(target, ast.Tuple) and last_name(loop.iter) == "enumerate":
        target = target.elts[-1]
    return isinstance(target, ast.Name) and isinstance(value, ast.Name) and target.id == value.id


def _methods(owner: ast.ClassDef) -> list[FunctionNode]:
    return [part for part in owner.body if isinstance(part, FUNCTIONS) and part.name in _METHODS]


def _moves(method: FunctionNode) -> bool:
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _METHODS
        for part in walk(method)
    )
