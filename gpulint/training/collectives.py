"""Collective operations (all-reduce, gather, barrier ...) and whether a program exchanges gradients between
processes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.libraries import Models
from gpulint.libraries.operations import Collective
from gpulint.query import query
from gpulint.semantic.argument_binding import RECEIVERS
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import Binding, ModuleIndex, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

WRAPPERS = frozenset({"DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "fully_shard"})
"""What makes a model exchange its gradients."""
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_ASKS = ("isinstance", "issubclass")
_WRAPPERS = frozenset(name.encode() for name in WRAPPERS)


class Collectives:
    """What the rows say of collective operations, all libraries together."""

    def __init__(self, models: Models) -> None:
        rows: tuple[Collective, ...] = models.rows("collective")
        self.modules = tuple(name for row in rows for name in row.modules)
        self.objects = frozenset(name for row in rows for name in row.objects)
        self.reductions = frozenset(name for row in rows for name in row.reductions)
        self.gathers = frozenset(name for row in rows for name in row.gathers)
        self.barriers = frozenset(name for row in rows for name in row.barriers)
        self.names = self.reductions | self.gathers | self.barriers
        self.logs = {name: row for row in rows for name in row.logs}


def collective(module: ModuleIndex, call: ast.Call, project: Project) -> str:
    """Name of the collective that a call makes, else ''."""
    known = project.models.derived(Collectives)
    name = last_name(call.func)
    if name not in known.names or not isinstance(call.func, ast.Attribute | ast.Name):
        return ""
    names = project.fact(Resolver).call_names(module, call)
    if any(found.startswith(known.modules) for found in names):
        return name
    if isinstance(call.func, ast.Attribute) and last_name(call.func.value) in known.objects and not names:
        return name
    return ""


def reduces_log(module: ModuleIndex, call: ast.Call, project: Project) -> str:
    """``self.log("loss", loss, sync_dist=True)`` as it is written, which reduces the value at each step; else ''."""
    row = project.models.derived(Collectives).logs.get(last_name(call.func))
    if row is None or not isinstance(call.func, ast.Attribute) or last_name(call.func.value) not in RECEIVERS:
        return ""
    owner = module.class_of(call)
    bases = project.fact(Resolver).base_names(module, owner) if owner is not None else ()
    if not any(base.startswith(row.modules) for base in bases):
        return ""
    passed = {keyword.arg: keyword.value for keyword in call.keywords}
    if row.asked not in passed or _is(passed[row.asked], False) or _is(passed.get(row.unless), False):
        return ""
    asks = isinstance(passed[row.asked], ast.Constant)
    return f"self.{call.func.attr}(..., {row.asked}=True)" if asks else ""


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def wraps_itself(module: ModuleIndex, project: Project) -> bool:
    """Return whether the module wraps a model in DDP or FSDP, or defines something used elsewhere that does."""
    return project.word_index.holds_one(module.path, _WRAPPERS) and not _only_names(project, module)


@query
def _only_names(project: Project, module: ModuleIndex) -> bool:
    """Return whether the module names DDP and FSDP only to test what a model is (``type(model) in (DataParallel,
    DDP)``), in a class or helper that nothing uses, or only imports or speaks of them."""
    named = [
        node
        for node in module.syntax.nodes
        if isinstance(node, ast.Name | ast.Attribute) and last_name(node) in WRAPPERS
    ]
    if not named:
        wrappers = [binding for binding in module.imports if binding.target.rpartition(".")[2] in WRAPPERS]
        return not any(_is_used(module, binding) for binding in wrappers)
    return all(_asks_type(module, node) or _is_idle(project, module, node) for node in named)


def _asks_type(module: ModuleIndex, node: ast.expr) -> bool:
    return any(
        isinstance(up, ast.Compare) or (isinstance(up, ast.Call) and last_name(up.func) in _ASKS)
        for up in module.syntax.ancestors(node)
    )


def _is_idle(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a name is part of a wrapper class (``class MyDDP(DDP)``, or a copy of DDP itself), or of a
    function that returns a wrapped model, and nothing in the tree uses that class or function."""
    outer = next((up for up in reversed([*module.syntax.ancestors(node)]) if isinstance(up, _Definition)), None)
    if isinstance(outer, ast.ClassDef):
        defines = outer.name in WRAPPERS or any(last_name(base) in WRAPPERS for base in outer.bases)
    else:
        defines = outer is not None and _returns(module, outer, node)
    return outer is not None and defines and not _is_mentioned(project, module, outer)


def _returns(module: ModuleIndex, function: ast.AST, node: ast.expr) -> bool:
    """``return DDP(model)``, or of a variable that is set to it"""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    if isinstance(statement, ast.Return):
        return True
    targets = {ast.unparse(target) for target in statement.targets} if isinstance(statement, ast.Assign) else set()
    returned = (part.value for part in walk(function) if isinstance(part, ast.Return) and part.value is not None)
    return any(ast.unparse(value) in targets for value in returned)


def _is_mentioned(project: Project, module: ModuleIndex, definition: _Definition) -> bool:
    """Return whether code of the tree makes or hands over what a definition defines: an import alone is no use, nor is
    a test of types. A decorator may register it under another name."""
    if definition.decorator_list:
        return True
    inside = set(walk(definition))
    for path in project.word_index.mentioning(definition.name.encode()):
        other = project.module_at(path)
        if other is None:
            return True
        names = {definition.name} | {
            name
            for one in other.imports
            if one.target.rpartition(".")[2] == definition.name
            for name, bound in one.scope.bindings.items()
            if one in bound
        }
        if any(
            last_name(node) in names and node not in inside and not _asks_type(other, node)
            for node in other.syntax.nodes
            if isinstance(node, ast.Name | ast.Attribute) and not dotted(node).startswith("torch.")
        ):
            return True
    return False


def _is_used(module: ModuleIndex, binding: Binding) -> bool:
    """Return whether a module uses what it imports, under the name that it gives it."""
    return any(binding in bound and name in module.uses for name, bound in binding.scope.bindings.items())


def wraps_in_ddp(module: ModuleIndex, project: Project) -> bool:
    """Return whether the module, or one that imports it or that it imports, wraps a model in DDP or FSDP."""
    if wraps_itself(module, project):
        return True
    for binding in module.imports:
        target = project.absolute(binding.target, module.path)
        path = project.module_path(target, module.path) or project.module_path(target.rpartition(".")[0], module.path)
        if path is not None and project.word_index.holds_one(path, _WRAPPERS):
            other = project.module_at(path)
            if other is None or not _only_names(project, other):
                return True
    names = [definition.name for definition in (*module.functions[:40], *module.classes[:40])]
    return any(wraps_itself(user, project) for user in project.users_of(module, names))
