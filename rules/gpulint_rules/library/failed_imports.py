"""Places of programs that run only where an import has failed: what installs the package there installs nothing where
the image has it."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

_FAILS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "PackageNotFoundError"})
_IMPORTS = frozenset({"import_module", "__import__", "version", "distribution"})
"""Functions that fail for a package that is not there."""
_LEAVES = (ast.Return, ast.Continue, ast.Break)


def follows_failed_import(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call runs only where an import failed: in the handler of an error, behind a block that returns
    where the import works (``try: import apex; return``), or in a function that is only called so."""
    if _runs_so(module, call):
        return True
    function = module.function(call)
    sites = project.fact(Resolver).call_sites(module, function) if function is not None else ()
    return bool(sites) and all(isinstance(one.node, ast.Call) and _runs_so(one.module, one.node) for one in sites)


def _runs_so(module: ModuleIndex, call: ast.Call) -> bool:
    inner: ast.AST = call
    for up in module.syntax.ancestors(call):
        if isinstance(up, ast.ExceptHandler) or _is_behind_import(module, inner):
            return True
        if isinstance(up, FUNCTIONS):
            break
        inner = up
    return False


def _is_behind_import(module: ModuleIndex, statement: ast.AST) -> bool:
    """Return whether a block in front of a statement imports something and leaves, and goes on only if that fails."""
    up, place = module.syntax.parents.get(statement), module.syntax.place(statement)
    block = getattr(up, place[0], None) if place is not None else None
    if not isinstance(block, list) or statement not in block:
        return False
    return any(
        isinstance(one, ast.Try)
        and _imports(one)
        and isinstance((one.orelse or one.body)[-1], _LEAVES)
        and bool(one.handlers)
        and all(map(_is_for_import, one.handlers))
        for one in block[: block.index(statement)]
    )


def _imports(tried: ast.Try) -> bool:
    return any(
        isinstance(part, ast.Import | ast.ImportFrom)
        or (isinstance(part, ast.Call) and last_name(part.func) in _IMPORTS)
        for one in tried.body
        for part in walk(one)
    )


def _is_for_import(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return all(kind is None or last_name(kind) in _FAILS for kind in kinds)
