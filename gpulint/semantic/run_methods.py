"""Which method of the tree a call of an object runs, where that is sure: no subclass has another one of its name, and
nothing stores one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.absent_members import object_class
from gpulint.semantic.overridden_methods import subclasses_of
from gpulint.semantic.points_to import SELF_METHODS, Resolver
from gpulint.workspace.module_index import BindingKind, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpulint.project import Project

_MODULE = "torch.nn.Module"
_SAME = SELF_METHODS | {"cpu"}
"""Methods of a module that return the module itself."""


@query
def run_method(project: Project, module: ModuleIndex, call: ast.Call) -> tuple[NodeRef, NodeRef] | None:
    """Return the one method that a call runs, after the class of the object: ``self.evaluate()``, ``trainer.fit()`` of
    ``trainer = Trainer()``, and ``model(images)``, which runs ``forward``; None if another may run."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="self") as name, attr=attribute):
            owner = object_class(module, name)
            made = NodeRef(module, owner) if owner is not None else None
            below = subclasses_of(project, owner) if owner is not None else None
        case ast.Attribute(value=ast.Name() as name, attr=attribute):
            made, below = _made(project, module, name), ()
        case ast.Name() as name:
            made, below, attribute = _made(project, module, name), (), ""
        case _:
            return None
    return _of_class(project, made, below, attribute) if made is not None and below is not None else None


@query
def handed_method(
    project: Project, module: ModuleIndex, call: ast.Call, handed: tuple[tuple[ModuleIndex, ast.Name], ...]
) -> tuple[NodeRef, NodeRef] | None:
    """Return the one method that a call of a parameter runs, after the class of the objects that all callers hand
    over: ``searcher.step()`` in ``def train(searcher)``, of ``train(searcher)`` with ``searcher = Searcher()``."""
    made = {_made(project, where, name) for where, name in handed}
    only = made.pop() if len(made) == 1 else None
    attribute = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return _of_class(project, only, (), attribute) if only is not None else None


def _of_class(
    project: Project, made: NodeRef, below: Iterable[tuple[ModuleIndex, ast.ClassDef]], attribute: str
) -> tuple[NodeRef, NodeRef] | None:
    if not isinstance(made.node, ast.ClassDef):
        return None
    attribute = attribute or _called(project, made.module, made.node)
    method = _method(project, made.module, made.node, attribute)
    if method is None or any(_method(project, where, one, attribute) != method for where, one in below):
        return None
    return (made, method) if not _is_stored(project, attribute) else None


def _made(project: Project, module: ModuleIndex, name: ast.Name) -> NodeRef | None:
    """The class of the object that a name stands for, which is bound to what the class makes, and else to itself, as a
    model is that moves (``model = model.to(device)``)."""
    bindings = module.scope(name).lookup(name.id)
    if any(one.kind is not BindingKind.ASSIGN or one.path or one.value is None for one in bindings):
        return None
    values = [_unmoved(one.value) for one in bindings if one.value is not None]
    made = [one for one in values if not (isinstance(one, ast.Name) and one.id == name.id)]
    moved = len(values) > 1 or any(_unmoved(one.value) is not one.value for one in bindings if one.value is not None)
    value, resolver = made[0] if len(made) == 1 else None, project.fact(Resolver)
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name | ast.Attribute):
        return None
    found = resolver.points_to(module, value.func)
    if len(found) != 1 or found[0].path or not isinstance(found[0].node, ast.ClassDef):
        return None
    if moved and resolver.base_names(found[0].module, found[0].node) != {_MODULE}:
        return None
    return found[0] if found[0].node.name == last_name(value.func) else None


def _unmoved(value: ast.expr) -> ast.expr:
    """The model that methods of modules return: ``Net()`` of ``Net().to(device).eval()``."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SAME:
        value = value.func.value
    return value


def _called(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> str:
    """The method that a call of an object runs."""
    if _method(project, module, owner, "__call__") is not None:
        return "__call__"
    return "forward" if project.fact(Resolver).base_names(module, owner) == {_MODULE} else "__call__"


def _method(project: Project, module: ModuleIndex, owner: ast.ClassDef, name: str) -> NodeRef | None:
    """The one method of a name of a class, or of the nearest above it that has any, where each has at most one base."""
    for where, current in project.fact(Resolver).mro(module, owner):
        if current.keywords or current.decorator_list:
            return None
        bindings = [*where.attributes.get((current, name), ()), *where.scope_of[current].bindings.get(name, ())]
        if bindings:
            node = bindings[0].node
            return NodeRef(where, node) if len(bindings) == 1 and isinstance(node, ast.FunctionDef) else None
        if len(current.bases) != 1:
            return None
    return None


@query
def _is_stored(project: Project, name: str) -> bool:
    """Return whether a module stores an attribute of a name, or has it as a text."""
    users = (project.module_at(path) for path in project.word_index.mentioning(word_of(name)))
    return any(
        user is None
        or name in user.strings
        or any(part.attr == name and not isinstance(part.ctx, ast.Load) for part in user.syntax.of(ast.Attribute))
        for user in users
    )
