"""Passes over data whose result the program keeps: they run only while the file is missing that it then writes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef, last_name, source_text

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_CALLS = 2
"""How many calls a pass may be away from the test for its file."""
_TESTS = frozenset({"exists", "isfile", "is_file", "isdir", "is_dir"})
_WRITES = frozenset(
    """save savez savez_compressed dump to_csv to_parquet to_pickle to_feather to_hdf to_json save_file save_to_disk
    write_bytes write_text writerows write imwrite imsave export""".split()
)
"""Functions and methods that write what they are given to a file."""
_OPENS = frozenset({"open", "File", "memmap"})
_MODES = ("w", "a", "x")
MIN_NAME = 4
"""Characters of a text that names a file."""


@query
def is_kept(project: Project, module: ModuleIndex, node: ast.AST, calls: int = MAX_CALLS) -> bool:
    """Return whether a place runs only while a file is missing that its function writes, or that the functions which
    call it write."""
    if any(_is_written(module, node, path) for path in _missing(module, node)):
        return True
    function = module.function(node)
    if function is None or not calls:
        return False
    sites = project.fact(Resolver).first_sites(module, function)
    return bool(sites) and all(
        _hands_missing(module, node, function, site) or is_kept(project, site.module, site.node, calls - 1)
        for site in sites
    )


def _hands_missing(module: ModuleIndex, node: ast.AST, function: FunctionNode, site: NodeRef) -> bool:
    """Return whether a call hands its function the path of a missing file or folder, where that then writes (``if not
    os.path.exists(wav): convert(source, wav)``)."""
    if not isinstance(site.node, ast.Call):
        return False
    missing = {source_text(site.module, path) for path in _missing(site.module, site.node)}
    passed = {name: argument_of(function, site.node, name) for name in (parameters(function) if missing else ())}
    names = {name for name, value in passed.items() if value is not None and source_text(site.module, value) in missing}
    return bool(names) and any(
        isinstance(part, ast.Name) and part.id in names for call in _writes(module, node) for part in walk(call)
    )


def _missing(module: ModuleIndex, node: ast.AST) -> Iterator[ast.expr]:
    """Yield the paths of files that are missing where a place runs."""
    for test, holds in conditions(module, node):
        for part in walk(test):
            if not isinstance(part, ast.Call) or last_name(part.func) not in _TESTS:
                continue
            if _is_negated(test, part) == holds and (path := _tested(part)) is not None:
                yield path


def _is_negated(test: ast.expr, part: ast.Call) -> bool:
    return any(
        isinstance(up, ast.UnaryOp) and isinstance(up.op, ast.Not) and any(one is part for one in walk(up))
        for up in walk(test)
    )


def _tested(call: ast.Call) -> ast.expr | None:
    """The path that a test for a file is about: ``os.path.exists(path)``, ``path.exists()``."""
    if call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _is_written(module: ModuleIndex, node: ast.AST, path: ast.expr) -> bool:
    """Return whether the function around a place writes a file, after the place began."""
    for call in _writes(module, node):
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        given = [*call.args, *(keyword.value for keyword in call.keywords), *receiver]
        if any(_is_same(module, one, path) for one in given):
            return True
    return False


def _writes(module: ModuleIndex, node: ast.AST) -> Iterator[ast.Call]:
    """The calls that write files in the function around a place, after the place began."""
    start = getattr(node, "lineno", 0)
    for call in module.calls_of(module.function(node)):
        name = last_name(call.func)
        if call.lineno >= start and (name in _WRITES or (name in _OPENS and _is_for_writing(call))):
            yield call


def _is_for_writing(call: ast.Call) -> bool:
    texts = [part.value for part in (*call.args, *(k.value for k in call.keywords)) if isinstance(part, ast.Constant)]
    return any(isinstance(text, str) and text[:1] in _MODES and len(text) < MIN_NAME for text in texts)


def _is_same(module: ModuleIndex, one: ast.expr, other: ast.expr) -> bool:
    """Return whether two expressions are the same path, or have the name of a file in common."""
    return source_text(module, one) == source_text(module, other) or bool(_names(one) & _names(other))


def _names(path: ast.expr) -> set[str]:
    texts = (part.value for part in walk(path) if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return {text for text in texts if len(text) >= MIN_NAME and "." in text}
