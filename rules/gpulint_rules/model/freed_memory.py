"""Methods that are there to free memory, and branches that free it whichever is taken."""

from __future__ import annotations

import ast

from gpulint.libraries import Models
from gpulint.libraries.programs import Library
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FunctionNode, ModuleIndex

CALLS = frozenset({"torch.cuda.empty_cache", "torch.cuda.memory.empty_cache", "gc.collect"})
_EMPTIES = CALLS - {"gc.collect"}


def override_for(project: Project, module: ModuleIndex, call: ast.Call) -> str | None:
    """Return the name of the method around a call that overrides one only to free memory: all else that it does is to
    call the one above (``super().training_step(...)``) and to return its result."""
    function = module.function(call)
    if not isinstance(function, ast.FunctionDef) or module.class_of(function) is None:
        return None
    rest = [one for one in function.body if not _frees(project, module, one)]
    calls = [one for one in rest if (value := _value(one)) is not None and _is_super(value, function)]
    others = [one for one in rest if one not in calls and not _is_plain(one)]
    return function.name if len(calls) == 1 and not others else None


def _frees(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return bool(project.fact(Resolver).call_names(module, call) & CALLS)
    return False


def _value(statement: ast.stmt) -> ast.expr | None:
    match statement:
        case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.Return(value=value) | ast.Expr(value=value):
            return value
    return None


def _is_super(value: ast.expr, function: FunctionNode) -> bool:
    """``super().training_step(model, inputs)``, ``Trainer.training_step(self, model, inputs)``."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name)):
            return name == function.name
        case ast.Call(func=ast.Attribute(attr=name), args=[ast.Name(id="self"), *_]):
            return name == function.name
    return False


def _is_plain(statement: ast.stmt) -> bool:
    """Return whether a statement computes nothing: a docstring, ``pass``, ``del inputs``, ``return loss``."""
    match statement:
        case ast.Pass() | ast.Delete() | ast.Return(value=None | ast.Name()) | ast.Expr(value=ast.Constant()):
            return True
    return False


def _emptied(models: Models) -> frozenset[str]:
    rows: tuple[Library, ...] = models.rows("library")
    return frozenset(name for row in rows for name in row.emptied_cache)


def library_that_needs(project: Project, module: ModuleIndex, call: ast.Call, looping: ModuleIndex) -> str:
    """Return the library that the program of a call, or of the loop around it, uses, and whose documentation says to
    empty the cache as the call does; "" for none."""
    if not project.fact(Resolver).call_names(module, call) & _EMPTIES:
        return ""
    return _says_to_empty(project, module) or _says_to_empty(project, looping)


@query
def _says_to_empty(project: Project, module: ModuleIndex) -> str:
    """Return the library whose documentation says to empty the cache, if a module, one of its folder, or a program that
    it is a part of, uses it."""
    names = project.models.derived(_emptied)
    files = {path for name in names for path in project.python_files_with(name.encode())}
    if not files:
        return ""
    near = {module.path, *project.fact(GpuPrograms).users(module.path)}
    near |= {path for program in tuple(near) for path in project.fact(MultiGpuUse).of(program).paths}
    with_name = (path for path in sorted(files) if path in near or path.parent == module.path.parent)
    found = (other for path in with_name if (other := project.module_at(path)) is not None)
    return min((name for other in found for name in other.packages & names), default="")


def in_each_branch(project: Project, module: ModuleIndex, call: ast.Call) -> list[ast.Call]:
    """Return calls of the same function that empty the cache in both branches of a condition, so that it is emptied
    there in any case."""
    function = module.function(call)
    for test, calls in _arms(project, module).get(function, {}).items() if function is not None else ():
        beside = [one for _, one in calls if one is not call]
        if len(beside) == len(calls) and len({arm for arm, _ in calls}) > 1:
            return [] if project.fact(Guards).is_conditional(module, test) else beside
    return []


@query
def _arms(project: Project, module: ModuleIndex) -> dict[FunctionNode, dict[ast.If, list[tuple[str, ast.Call]]]]:
    """The calls in a module that empty the cache, by their function and each condition around them."""
    arms: dict[FunctionNode, dict[ast.If, list[tuple[str, ast.Call]]]] = {}
    for call in module.calls_by_name.get("empty_cache", ()):
        function = module.function(call)
        if function is None or not project.fact(Resolver).call_names(module, call) & _EMPTIES:
            continue
        below: ast.AST = call
        for up in module.syntax.ancestors(call):
            if up is function:
                break
            if isinstance(up, ast.If):
                arm = "orelse" if below in up.orelse else "body"
                arms.setdefault(function, {}).setdefault(up, []).append((arm, call))
            below = up
    return arms
