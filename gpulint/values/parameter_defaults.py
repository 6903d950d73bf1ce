"""Defaults of parameters that nobody leaves in force, going by callers that cannot be followed to the function.

Callers that can be followed need no asking: the value of a parameter is what they pass.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import with_defaults
from gpulint.semantic.argument_binding import CallbackCall, argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.finding import Place
    from gpulint.project import Project

_INSTANTIATES = regex.compile(rb"_target_|class_path|class_name")
"""Keys of configuration files (Hydra, Lightning, others) that name what to call."""


def is_overridden(project: Project, place: Place) -> bool:
    """Return whether a constant at ``place`` is the default of a parameter that others set, as far as their words show.

    Others are calls of that name (``KINDS[kind](batch_size=n)`` where the class is in a table), code that takes the
    function as a value, classes derived from the class and configuration files that name it. A call that leaves
    the parameter out leaves the default in force.
    """
    module = project.module_at(place.path)
    found = default_at(module, place) if module is not None else None
    if module is None or found is None:
        return False
    function, parameter = found
    if any(not isinstance(site.node, CallbackCall) for site in project.fact(Resolver).call_sites(module, function)):
        return False
    owner = module.syntax.parents.get(function)
    name = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
    method = isinstance(owner, ast.ClassDef) and name == function.name
    overridden = False
    for path in project.word_index.mentioning(word_of(name)):
        where = project.module_at(path)
        for node in where.syntax.nodes if where is not None and not project.is_test(path) else ():
            assert where is not None
            says = _says(where, node, name, function, parameter, method)
            if says is False:
                return False
            overridden = overridden or says is True
    return overridden or (not method and _configured(project, name, parameter))


def default_at(module: ModuleIndex, place: Place) -> tuple[FunctionNode, str] | None:
    """The function and the name of its parameter whose default stands at a place."""
    for function in module.functions:
        for arg, default in with_defaults(function.args):
            if default is not None and module.syntax.span(default) == place.span:
                return function, arg.arg
    return None


def _says(
    module: ModuleIndex, node: ast.AST, name: str, function: FunctionNode, parameter: str, method: bool
) -> bool | None:
    """True where a node sets the parameter or may, False where it leaves it out, None where it does not matter."""
    if isinstance(node, ast.Constant):
        return True if node.value == name and not method and not _is_export(module, node) else None
    if not isinstance(node, ast.Name | ast.Attribute) or last_name(node) != name or not isinstance(node.ctx, ast.Load):
        return None
    up = module.syntax.parents.get(node)
    if isinstance(up, ast.Call) and up.func is node:
        passed = argument_of(function, up, parameter) is not None
        return passed if passed or not method else None
    if isinstance(up, ast.Attribute) or method:
        return None
    if isinstance(up, ast.ClassDef):
        return True if parameter in ast.unparse(up) else None
    return True


def _is_export(module: ModuleIndex, node: ast.Constant) -> bool:
    """``__all__ = ["make"]``"""
    return any(
        isinstance(up, ast.Assign | ast.AugAssign) and "__all__" in ast.unparse(up).split("=")[0]
        for up in module.syntax.ancestors(node)
    )


def _configured(project: Project, name: str, parameter: str) -> bool:
    """Return whether a configuration file calls it by name and sets the parameter."""
    for path in project.files:
        if path.suffix in (".yaml", ".yml"):
            data = project.data(path)
            if word_of(name) in data and word_of(parameter) in data and _INSTANTIATES.search(data):
                return True
    return False
