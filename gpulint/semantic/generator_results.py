"""Uses of generators that raise an error: an item, the length or an attribute of what can only be iterated over."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING

from gpulint.documents.python import walk_own
from gpulint.query import cyclic, query
from gpulint.semantic.chosen_returns import is_ruled_out
from gpulint.semantic.failing_calls import is_only
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.straight_lines import constant_at
from gpulint.workspace.module_index import BindingKind

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_OF_MODULES = frozenset({"parameters", "named_parameters", "modules", "named_modules", "buffers", "named_buffers"})
"""Methods of PyTorch's modules that return generators."""
_OTHERS = ("paddle", "mindspore", "tinygrad")
"""Libraries whose modules return lists."""
_MEMBERS = frozenset({*dir(types.GeneratorType), "next"})
"""Attributes of generators, of Python 2 as well."""


@query
def misused_generators(project: Project, module: ModuleIndex) -> tuple[ast.expr, ...]:
    """Return what a module reads of generators that they do not have: ``parameters["base"]`` of ``parameters =
    model.parameters()``, ``len(batches(rows))`` of a function of the tree that yields."""
    reads = [(part, part.value) for part in module.syntax.of(ast.Subscript)]
    lengths = [(call, call.args[0]) for call in module.calls_by_name.get("len", ()) if len(call.args) == 1]
    members = [
        (part, part.value)
        for part in module.syntax.of(ast.Attribute)
        if part.attr not in _MEMBERS and isinstance(part.value, ast.Name | ast.Call)
    ]
    return tuple(part for part, value in (*reads, *lengths, *members) if _is_generator(project, module, value, ()))


@cyclic(False)
def _is_generator(project: Project, module: ModuleIndex, value: ast.expr, path: tuple[int, ...]) -> bool:
    """Return whether a value, or an element of a tuple, is certainly a generator."""
    match value:
        case ast.GeneratorExp():
            return not path
        case ast.Tuple(elts=parts) if path and not any(isinstance(one, ast.Starred) for one in parts):
            return path[0] < len(parts) and _is_generator(project, module, parts[path[0]], path[1:])
        case ast.Name(id=name):
            bindings = module.scope(value).lookup(name)
            if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN or bindings[0].value is None:
                return False
            return _is_generator(project, module, bindings[0].value, (*bindings[0].path, *path))
        case ast.Call(func=ast.Attribute(attr=attribute), args=[], keywords=[]) if attribute in _OF_MODULES:
            return not path and _is_of_pytorch(project, module, attribute)
        case ast.Call(func=ast.Name()):
            return _returns_generator(project, module, value, path)
    return False


def _is_of_pytorch(project: Project, module: ModuleIndex, method: str) -> bool:
    """Return whether a method is that of PyTorch's modules, which no class of the tree replaces."""
    tops = {binding.target.partition(".")[0] for binding in module.imports}
    return "torch" in tops and tops.isdisjoint(_OTHERS) and not project.python_files_with(f"def {method}(".encode())


def _returns_generator(project: Project, module: ModuleIndex, call: ast.Call, path: tuple[int, ...]) -> bool:
    """Return whether the one function of the tree that a call reaches yields, or returns a generator to this call."""
    found = project.fact(Resolver).callees(module, call)
    if len(found) != 1 or not isinstance(found[0].node, ast.FunctionDef) or found[0].node.decorator_list:
        return False
    where, function = found[0].module, found[0].node
    assert isinstance(call.func, ast.Name)
    if len(module.scope(call.func).lookup(call.func.id)) != 1 or (
        where is not module and not is_only(project, found[0])
    ):
        return False
    own = walk_own(function)
    if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in own):
        return not path
    known = _with_constants(module, call)
    returns = [part for part in own if isinstance(part, ast.Return) and not is_ruled_out(where, function, part, known)]
    return bool(returns) and all(
        part.value is not None and _is_generator(project, where, part.value, path) for part in returns
    )


def _with_constants(module: ModuleIndex, call: ast.Call) -> ast.Call:
    """A call with the constants that statements in front of it give the variables that it passes."""
    arguments = [_constant(module, one) for one in call.args]
    keywords = [ast.keyword(one.arg, _constant(module, one.value)) for one in call.keywords]
    return ast.Call(call.func, arguments, keywords)


def _constant(module: ModuleIndex, passed: ast.expr) -> ast.expr:
    if not isinstance(passed, ast.Name) or any(passed.id in one.names for one in module.syntax.of(ast.Global)):
        return passed
    return constant_at(module, passed) or passed
