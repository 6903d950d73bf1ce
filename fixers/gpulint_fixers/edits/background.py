"""Work that a fix hands to one background worker: the module that has it, and when it must not be handed over."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from gpulint import regex
from gpulint.fix import Declined, Edit, NewFile
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.callers import callers
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContext
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import LOOPS, FunctionNode, ModuleIndex, NodeRef, last_name
from gpulint_fixers.edits.imports import import_sibling

MODULE = "background_uploads"
_HOSTED = regex.compile(r"google\.colab|/content/|/kaggle/|/databricks")
"""What notebooks of services mention that open one file of a repository."""
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
    project: Project, module: ModuleIndex, name: str
) -> tuple[tuple[Edit, ...], tuple[NewFile, ...]] | Declined:
    """Edits and files after which ``name`` of the background module can be called in ``module``."""
    path = module.path.with_name(f"{MODULE}.py")
    if project.kind(module.path) is Kind.NOTEBOOK and _HOSTED.search(module.syntax.source.text):
        return Declined(f"where the notebook runs, the files beside it are not there, nor would {path.name} be")
    edits = import_sibling(project, module, MODULE, name)
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


def touched_later(project: Project, write: NodeRef, path: ast.expr, contexts: Iterable[LoopContext]) -> str | None:
    """Return what reads or moves the written file once it is written, as far as names and constants tell; None if
    nothing."""
    chains = [chain for context in contexts for chain in _chains(project, context)]
    module = write.module
    inside = _surroundings(module, write.node)
    for call in module.calls:
        if inside in module.syntax.ancestors(call) and _moves_files(project, module, call):
            return ast.unparse(call.func)
    for where, names in _texts(project, module, path):
        for call in where.calls:
            last = last_name(call.func)
            if call is write.node or last in _ONLY_NAMES or last == last_name(write.node.func):  # type: ignore[attr-defined]
                continue
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            if any(ast.unparse(value) in names for value in given) and _later(project, NodeRef(where, call), chains):
                return ast.unparse(call.func)
    constants = {str(value) for value in project.fact(Constants).of(module, path).constants if value}
    for where in {id(known): known for known in (module, *(context.loop.module for context in contexts))}.values():
        for call in where.calls:
            if last_name(call.func) not in _READS or not call.args or call is write.node:
                continue
            read = {str(value) for value in project.fact(Constants).of(where, call.args[0]).constants}
            if constants & read and _later(project, NodeRef(where, call), chains):
                return ast.unparse(call.func)
    return None


def _surroundings(module: ModuleIndex, node: ast.AST) -> ast.AST:
    """The function around a node, else its outermost loop."""
    function = module.function(node)
    loops = [up for up in module.syntax.ancestors(node) if isinstance(up, LOOPS)]
    return function or (loops[-1] if loops else module.syntax.tree)


def _moves_files(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    if last_name(call.func) not in _MOVES:
        return False
    names = project.fact(Resolver).call_names(module, call)
    return any(name.partition(".")[0] in _FILE_MODULES for name in names) or last_name(call.func) in (
        "rename",
        "symlink",
        "unlink",
    )


def _texts(project: Project, module: ModuleIndex, path: ast.expr) -> Iterator[tuple[ModuleIndex, set[str]]]:
    """(module, how it writes the path): as in the call and, for a parameter, as its callers pass it."""
    yield module, {ast.unparse(path)}
    function = module.function(path)
    if isinstance(path, ast.Name) and function is not None:
        for site in project.fact(Resolver).call_sites(module, function):
            assert isinstance(site.node, ast.Call)
            passed = argument_of(function, site.node, path.id)
            if passed is not None and not isinstance(passed, ast.Starred):
                yield site.module, {ast.unparse(passed)}


def _chains(project: Project, context: LoopContext) -> Iterator[dict[FunctionNode | None, int]]:
    """Function -> the line in it that leads to the loop."""
    loop = context.loop
    if isinstance(loop.node, LOOPS):
        outermost = [up for up in loop.module.syntax.ancestors(loop.node) if isinstance(up, LOOPS)]
        node = outermost[-1] if outermost else loop.node
        chain = dict[FunctionNode | None, int]()
        for at in callers(project, NodeRef(loop.module, node), _MAX_CALLERS):
            line: int = at.ref.node.lineno  # type: ignore[attr-defined]
            chain[at.function] = min(line, chain.get(at.function, line))
        yield chain


def _later(project: Project, at: NodeRef, chains: list[dict[FunctionNode | None, int]]) -> bool:
    """Return whether ``at`` may run inside or after the loops. Only what is seen to run before them does not."""
    seen = set[FunctionNode]()

    def may_follow(at: NodeRef, calls: int) -> bool:
        function = at.module.function(at.node)
        known = [chain[function] for chain in chains if function in chain]
        if known:
            return any(at.node.lineno >= line for line in known)  # type: ignore[attr-defined]
        if function is None or not calls:
            return True
        if function in seen:
            return False  # its callers are asked already
        seen.add(function)
        sites = project.fact(Resolver).call_sites(at.module, function)
        return not sites or any(may_follow(site, calls - 1) for site in sites)

    return may_follow(at, _MAX_CALLERS)
