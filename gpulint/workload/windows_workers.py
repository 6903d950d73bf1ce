"""Trees that keep loaders without workers on Windows: who writes such a test trains there."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.semantic.operating_systems import excludes_linux, names_linux_folder
from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import FUNCTIONS, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_ASKS = regex.compile(r"""['"](nt|win\w{0,10}|linux\w?|posix)['"]""", re.IGNORECASE)
"""Names of systems in a test that leaves Windows alone."""
_WORKERS = regex.compile(r"workers?(_|$)", re.IGNORECASE)


@query
def keeps_none_on_windows(project: Project) -> bool:
    """Return whether a program of the tree sets or returns 0 workers where it runs on Windows, and none but notebooks,
    which may be those of a service, names a folder of Linux."""
    paths = [path for path in project.python_files_with(b"workers") if not project.is_test(path)]
    modules = (project.module_at(path) for path in paths if project.matches(path, _ASKS))
    if not any(module is not None and _keeps_none(module) for module in modules):
        return False
    programs = (path for path in project.python_files if path.suffix == ".py" and not project.is_test(path))
    return not any(names_linux_folder(project, path) for path in programs)


@query
def _keeps_none(module: ModuleIndex) -> bool:
    zeros = (one for one in module.syntax.of(ast.Constant) if one.value == 0 and type(one.value) is int)
    return any(_is_on_windows(module, one) and _is_for_workers(module, one) for one in zeros)


def _is_on_windows(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is only reached on Windows, or on all systems but Linux."""
    return any(
        excludes_linux(module, test, holds) and "darwin" not in ast.unparse(test).lower()
        for test, holds in conditions(module, node)
    )


def _is_for_workers(module: ModuleIndex, zero: ast.Constant) -> bool:
    """Return whether a number is what a setting of workers gets, or what a function that decides on them returns."""
    inner: ast.AST = zero
    for up in module.syntax.ancestors(zero):
        match up:
            case ast.IfExp() if inner is not up.test:
                inner = up
                continue
            case ast.keyword(arg=str(name)) | ast.AnnAssign(target=ast.Name(id=name)):
                return _is_workers(name)
            case ast.Assign(targets=[target]):
                return _is_workers(_named(target))
            case ast.Dict():
                keys = [key for key, value in zip(up.keys, up.values, strict=True) if value is inner]
                return any(isinstance(key, ast.Constant) and _is_workers(key.value) for key in keys)
            case ast.Return():
                function = module.function(up)
                return isinstance(function, FUNCTIONS) and _is_workers(function.name)
        return False
    return False


def _named(target: ast.expr) -> object:
    """Return the name of a variable or an attribute, or the key of an element."""
    if isinstance(target, ast.Subscript):
        return target.slice.value if isinstance(target.slice, ast.Constant) else None
    return last_name(target)


def _is_workers(name: object) -> bool:
    return isinstance(name, str) and _WORKERS.search(name) is not None
