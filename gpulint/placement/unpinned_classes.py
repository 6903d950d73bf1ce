"""Batches of a class of the tree that ``pin_memory`` of a loader does not reach."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

UNPINNED = "the batches are objects of `{}`, which has no method `pin_memory` for loaders to call: add one first"
_DEPTH = 3
_COLLECTIONS = frozenset({"dict", "list", "tuple", "UserDict", "NamedTuple", "BatchEncoding", "Data", "Batch"})
"""Bases of classes that a loader looks into, or that pin what they hold."""
_PLAIN_BASES = frozenset({"object", "ABC", "Generic", "Protocol", "BaseModel"})
"""Bases that are no collection and have no method ``pin_memory``."""
_PLAIN_DECORATORS = frozenset({"dataclass", "s", "attrs", "define", "frozen", "mutable", "final"})
"""Decorators that add no such method."""
_OWN = frozenset({"pin_memory", "__getattr__", "__getattribute__"})
"""What a class has that pins what it holds, or hands the call on."""


def unpinned_class(project: Project, loader: Loader) -> str:
    """Return the class of the objects that a loader yields, perhaps among other parts, if it has no ``pin_memory``: a
    loader passes such objects through as they are, and the copies of what they hold block. Empty if there is none.

    PyTorch pins tensors, and what mappings, sequences and objects with a method ``pin_memory`` hold."""
    for made in _making(project, loader):
        if isinstance(made.node, ast.ClassDef):
            if _is_unpinned(project, made.module, made.node) and _moves(project, made.module, made.node):
                return made.node.name
            continue
        if name := _returned_by(project, made.module, made.node):
            return name
        if isinstance(made.node, FUNCTIONS) and (name := _made_in(project, made.module, made.node, _DEPTH)):
            return name
    return ""


def _making(project: Project, loader: Loader) -> Iterator[NodeRef]:
    """The functions that make a loader's batches, also through ``partial`` and objects that can be called, and the
    classes that are called for it; without batches the method that makes the samples."""
    resolver = project.fact(Resolver)
    given = loader_argument(project, loader, "collate_fn")
    for ref in given.refs:
        for made in resolver.points_to(ref.module, ref.node):
            if isinstance(made.node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
                yield made
            elif isinstance(made.node, ast.Call) and last_name(made.node.func) == "partial" and made.node.args:
                yield from resolver.points_to(made.module, made.node.args[0])
            elif isinstance(made.node, ast.Call):
                yield from _methods(project, made, "__call__")
    sizes = loader_argument(project, loader, "batch_size").refs
    if given.is_absent and any(isinstance(ref.node, ast.Constant) and ref.node.value is None for ref in sizes):
        for source in project.fact(HostToDevice).sources(loader):
            yield from _methods(project, source, "__getitem__")


def _methods(project: Project, made: NodeRef, name: str) -> Iterator[NodeRef]:
    """The methods ``name`` of the classes that an expression makes an object of."""
    resolver = project.fact(Resolver)
    owners = resolver.classes_of(made.module, made.node) if isinstance(made.node, ast.expr) else ()
    for owner in owners:
        if (method := resolver.method(*owner, name)) is not None:
            yield method


@query
def _returned_by(project: Project, module: ModuleIndex, function: ast.AST) -> str:
    """The name of such a class of which a function returns an object, or objects that hold tensors among others."""
    values = list[ast.expr]()
    if isinstance(function, ast.Lambda):
        values = [function.body]
    elif isinstance(function, FUNCTIONS):
        values = project.fact(Resolver).returns(function)
    for value in values:
        for made in project.fact(Resolver).points_to(module, value):
            for is_all, part in _parts(made.node) if not made.path else ():
                for owner in _classes(project, made.module, part):
                    if _is_unpinned(project, *owner) and (is_all or _holds_tensors(project, *owner)):
                        return owner[1].name
    return ""


def _parts(value: ast.AST) -> Iterator[tuple[bool, ast.AST]]:
    """A returned value, or the parts of what a loader looks into, and whether a part is all there is."""
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            yield from ((len(parts) == 1, part) for part in parts)
        case ast.ListComp(elt=part) | ast.DictComp(value=part):
            yield True, part
        case _:
            yield True, value


def _classes(project: Project, module: ModuleIndex, value: ast.AST) -> list[tuple[ModuleIndex, ast.ClassDef]]:
    """The classes of the tree of which a value is made."""
    resolver = project.fact(Resolver)
    return [
        owner
        for made in resolver.points_to(module, value)
        if isinstance(made.node, ast.Call) and not made.path
        for owner in resolver.classes_of(made.module, made.node)
    ]


def _holds_tensors(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether a class moves what it holds, or declares a tensor."""
    return _moves(project, module, owner) or any(
        isinstance(part, ast.AnnAssign) and "Tensor" in ast.unparse(part.annotation) for part in owner.body
    )


@query
def _made_in(project: Project, module: ModuleIndex, function: ast.AST, depth: int) -> str:
    """The name of such a class with ``to`` of which a function makes an object."""
    resolver = project.fact(Resolver)
    for call in (part for part in walk(function) if isinstance(part, ast.Call)):
        for made in resolver.points_to(module, call.func):
            if isinstance(made.node, ast.ClassDef):
                if _moves(project, made.module, made.node) and _is_unpinned(project, made.module, made.node):
                    return made.node.name
                continue
            inner = depth and isinstance(made.node, FUNCTIONS) and made.node is not function
            if inner and (name := _made_in(project, made.module, made.node, depth - 1)):
                return name
    return ""


def _moves(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    resolver = project.fact(Resolver)
    return any(resolver.method(module, owner, name) is not None for name in ("to", "cuda"))


def _is_unpinned(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether a class has no ``pin_memory``, by itself or from a base; a class with ``to`` has its own methods
    where its bases are unknown."""
    resolver = project.fact(Resolver)
    if any(ast.unparse(base).rpartition(".")[2] in _COLLECTIONS for base in owner.bases):
        return False
    if any(resolver.class_attribute(module, owner, name) for name in _OWN):
        return False
    return _moves(project, module, owner) or all(_is_plain(project, *one) for one in resolver.mro(module, owner))


def _is_plain(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether all bases of a class are known, and its decorators add no methods for loaders."""
    resolver = project.fact(Resolver)
    decorators = (one.func if isinstance(one, ast.Call) else one for one in owner.decorator_list)
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in owner.bases)
    return all(last_name(one) in _PLAIN_DECORATORS for one in decorators) and all(
        last_name(base) in _PLAIN_BASES
        or any(isinstance(made.node, ast.ClassDef) for made in resolver.points_to(module, base))
        for base in bases
    )
