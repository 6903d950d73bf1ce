"""Work that a fix hands to one background worker: the module that has it, and when it must not be handed over."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from gpulint.facts.loops import Context
from gpulint.facts.passing import argument_of
from gpulint.facts.scopes import LOOPS, FunctionNode, ModuleScopes, Ref, last_name
from gpulint.fix import Declined, Edit, NewFile
from gpulint.project import Project
from gpulint_fixers.imports import import_sibling

MODULE = "background_uploads"
_MAX_CALLERS = 4
_ONLY_NAMES = frozenset(
    "print str repr format info debug warning log write join makedirs mkdir dirname basename Path exists isfile isdir "
    "append abspath fspath set_postfix set_description rank_zero_info".split()
)
"""Calls that take a file's name and do not touch the file."""
_READS = frozenset(
    "load load_model load_checkpoint load_state load_weights restore open copy copy2 copyfile move getsize stat "
    "upload_file log_artifact".split()
)
_MOVES = frozenset("copy copy2 copyfile copytree move rename symlink link remove unlink rmtree".split())
_FILE_MODULES = frozenset({"shutil", "os", "pathlib"})


def bring_module(
    project: Project, scopes: ModuleScopes, name: str
) -> tuple[tuple[Edit, ...], tuple[NewFile, ...]] | Declined:
    """Edits and files after which ``name`` of the background module can be called in ``scopes``."""
    path = scopes.path.with_name(f"{MODULE}.py")
    edits = import_sibling(project, scopes, MODULE, name)
    if isinstance(edits, Declined):
        return edits
    if not project.is_file(path):
        return edits, (NewFile(path, template()),)
    if project.data(path).replace(b"\r\n", b"\n") != template().encode():
        return Declined(f"{path.name} exists and is a different module")
    return edits, ()


@cache
def template() -> str:
    """Source of the background module."""
    return files("gpulint_fixers.templates").joinpath(f"{MODULE}.py").read_text("utf-8")


def touched_later(project: Project, write: Ref, path: ast.expr, contexts: Iterable[Context]) -> str | None:
    """What reads or moves the written file once it is written, as far as names and constants tell; None if nothing."""
    chains = [chain for context in contexts for chain in _chains(project, context)]
    scopes = write.scopes
    inside = _surroundings(scopes, write.node)
    for call in scopes.calls:
        if inside in scopes.module.ancestors(call) and _moves_files(project, scopes, call):
            return ast.unparse(call.func)
    for where, names in _texts(project, scopes, path):
        for call in where.calls:
            last = last_name(call.func)
            if call is write.node or last in _ONLY_NAMES or last == last_name(write.node.func):  # type: ignore[attr-defined]
                continue
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            if any(ast.unparse(value) in names for value in given) and _later(project, Ref(where, call), chains):
                return ast.unparse(call.func)
    constants = {str(value) for value in project.values.of(scopes, path).constants if value}
    for where in {id(known): known for known in (scopes, *(context.loop.scopes for context in contexts))}.values():
        for call in where.calls:
            if last_name(call.func) not in _READS or not call.args or call is write.node:
                continue
            read = {str(value) for value in project.values.of(where, call.args[0]).constants}
            if constants & read and _later(project, Ref(where, call), chains):
                return ast.unparse(call.func)
    return None


def _surroundings(scopes: ModuleScopes, node: ast.AST) -> ast.AST:
    """The function around a node, else its outermost loop."""
    function = scopes.function(node)
    loops = [up for up in scopes.module.ancestors(node) if isinstance(up, LOOPS)]
    return function or (loops[-1] if loops else scopes.module.tree)


def _moves_files(project: Project, scopes: ModuleScopes, call: ast.Call) -> bool:
    if last_name(call.func) not in _MOVES:
        return False
    names = project.resolver.call_names(scopes, call)
    return any(name.partition(".")[0] in _FILE_MODULES for name in names) or last_name(call.func) in (
        "rename",
        "symlink",
        "unlink",
    )


def _texts(project: Project, scopes: ModuleScopes, path: ast.expr) -> Iterator[tuple[ModuleScopes, set[str]]]:
    """(module, how it writes the path): as in the call and, for a parameter, as its callers pass it."""
    yield scopes, {ast.unparse(path)}
    function = scopes.function(path)
    if isinstance(path, ast.Name) and function is not None:
        for site in project.resolver.call_sites(scopes, function):
            assert isinstance(site.node, ast.Call)
            passed = argument_of(function, site.node, path.id)
            if passed is not None and not isinstance(passed, ast.Starred):
                yield site.scopes, {ast.unparse(passed)}


def _chains(project: Project, context: Context) -> Iterator[dict[FunctionNode | None, int]]:
    """Function -> the line in it that leads to the loop."""
    loop = context.loop
    if isinstance(loop.node, LOOPS):
        outermost = [up for up in loop.scopes.module.ancestors(loop.node) if isinstance(up, LOOPS)]
        node = outermost[-1] if outermost else loop.node
        yield dict(_leading(project, Ref(loop.scopes, node), 0))


def _leading(project: Project, at: Ref, depth: int) -> Iterator[tuple[FunctionNode | None, int]]:
    function = at.scopes.function(at.node)
    yield function, at.node.lineno  # type: ignore[attr-defined]
    if function is not None and depth < _MAX_CALLERS:
        for site in project.resolver.call_sites(at.scopes, function):
            if site.scopes.function(site.node) is not function:
                yield from _leading(project, site, depth + 1)


def _later(project: Project, at: Ref, chains: list[dict[FunctionNode | None, int]], depth: int = 0) -> bool:
    """May ``at`` run inside or after the loops? Only what is seen to run before them does not."""
    function = at.scopes.function(at.node)
    known = [chain[function] for chain in chains if function in chain]
    if known:
        return any(at.node.lineno >= line for line in known)  # type: ignore[attr-defined]
    sites = project.resolver.call_sites(at.scopes, function) if function is not None and depth < _MAX_CALLERS else ()
    return not sites or any(_later(project, site, chains, depth + 1) for site in sites)
