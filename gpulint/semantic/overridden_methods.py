"""Methods that subclasses replace; some never run: all subclasses have one of their own, and nothing makes the class
itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_SUBCLASSES = 60
"""Most subclasses of a class that are looked at."""


def is_overridden(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a node is in such a method."""
    function = module.function(node)
    owner = module.class_of(function) if function is not None else None
    return (
        isinstance(function, FUNCTIONS)
        and owner is not None
        and (not function.name.startswith("__") or (function.name == "__init__" and not owner.decorator_list))
        and _is_replaced(project, module, owner, function)
    )


@query
def overrides(project: Project, method: NodeRef) -> tuple[NodeRef, ...] | None:
    """Return the methods of subclasses that a call of a method may reach as well; None if these are not all known."""
    owner = method.module.syntax.parents.get(method.node)
    if not isinstance(method.node, FUNCTIONS) or not isinstance(owner, ast.ClassDef) or method.node.name == "__init__":
        return ()
    below = subclasses_of(project, owner)
    if below is None:
        return None
    own = ((where, part) for where, subclass in below for part in subclass.body if isinstance(part, FUNCTIONS))
    return tuple(NodeRef(where, part) for where, part in own if part.name == method.node.name)


@query
def subclasses_of(project: Project, owner: ast.ClassDef) -> tuple[tuple[ModuleIndex, ast.ClassDef], ...] | None:
    """Return the classes that by their names derive from a class, also by way of others; None if these are not all
    known, or too many."""
    found, todo, seen = dict[ast.ClassDef, ModuleIndex](), [word_of(owner.name)], {word_of(owner.name)}
    while todo:
        for path, name in project.word_index.subclasses(todo.pop()):
            where = project.module_at(path)
            subclass = where.classes_by_name.get(name.decode()) if where is not None else None
            if where is None or subclass is None or len(found) > MAX_SUBCLASSES:
                return None
            if subclass is not owner:
                found[subclass] = where
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return tuple((where, subclass) for subclass, where in found.items())


@query
def _is_replaced(project: Project, module: ModuleIndex, owner: ast.ClassDef, method: FunctionNode) -> bool:
    word = word_of(owner.name)
    subclasses = sorted(project.word_index.subclasses(word))
    if not subclasses or project.is_in_other_files(word):
        return False
    for path, name in subclasses:
        where = project.module_at(path)
        subclass = where.classes_by_name.get(name.decode()) if where is not None else None
        if subclass is None or not any(_replaces(part, method.name) for part in subclass.body):
            return False
        if any(_is_of_base(part, method.name) for part in walk(subclass)):
            return False
    users = [project.module_at(path) for path in project.word_index.mentioning(word)]
    return all(user is not None and _only_derives(user, owner.name) for user in (module, *users))


def _replaces(part: ast.stmt, name: str) -> bool:
    """Return whether a part of a subclass is a method of this name that does not call the one of the base."""
    return (
        isinstance(part, FUNCTIONS)
        and part.name == name
        and not any(
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == name
            and last_name(call.func.value) != "self"
            for call in walk(part)
        )
    )


def _is_of_base(part: ast.AST, name: str) -> bool:
    """Return whether this is ``super().name``, in whatever method."""
    match part:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=called):
            return called == name
    return False


def _only_derives(module: ModuleIndex, name: str) -> bool:
    """Return whether a module makes nothing of a class: it derives from it or asks whether something is one of it."""
    if name in module.strings:
        return False
    aliases = (alias for part in module.syntax.of(ast.ImportFrom) for alias in part.names)
    if any(alias.name == name and alias.asname not in (None, name) for alias in aliases):
        return False
    uses = [use for use in module.uses.get(name, ()) if isinstance(use.ctx, ast.Load)]
    named = [part for part in module.syntax.of(ast.Attribute) if part.attr == name]
    return all(makes_nothing(module, use) for use in (*uses, *named))


def makes_nothing(module: ModuleIndex, use: ast.expr) -> bool:
    """Return whether the name of a class is the base of another, what ``super(Base, self)`` starts from, the class that
    ``isinstance`` asks for, alone or in a tuple, or an annotation."""
    inner, up = use, module.syntax.parents.get(use)
    while isinstance(up, ast.Tuple | ast.BinOp):
        inner, up = up, module.syntax.parents.get(up)
    match up:
        case ast.ClassDef(bases=bases):
            return any(base is inner for base in bases)
        case ast.Call(func=ast.Name(id="super"), args=[first, *_]):
            return first is inner
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
            return asked is inner
        case (
            ast.arg(annotation=stated)
            | ast.AnnAssign(annotation=stated)
            | ast.FunctionDef(returns=stated)
            | ast.AsyncFunctionDef(returns=stated)
        ):
            return stated is inner
    return False
