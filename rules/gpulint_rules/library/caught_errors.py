"""Programs that catch the errors of their backward passes, which anomaly detection raises for NaN, and go on."""

from __future__ import annotations

import ast
from pathlib import Path

from gpulint.documents.python import walk
from gpulint.programs.multi_gpu_use import MultiGpuUse, Program
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.unused_symbols import is_unused
from gpulint.workspace.module_index import LOOPS, NodeRef, last_name

_CATCHING = frozenset({"Exception", "BaseException", "RuntimeError"})
_ENDS = frozenset({"exit", "_exit"})
_DEPTH = 3
"""How many calls deep a backward pass is looked for."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_caught(project: Project, path: Path) -> bool:
    """Return whether a program goes on after an error in its backward pass, which anomaly detection raises for NaN;
    functions that only other programs call do not count."""
    return bool(_handled(project, path))


def leaves_out_steps(project: Project, path: Path) -> bool:
    """Return whether a program goes on with its next step after such an error: the ``try`` is in a loop."""
    return any(
        isinstance(up, LOOPS) for place in _handled(project, path) for up in place.module.syntax.ancestors(place.node)
    )


@query
def _handled(project: Project, path: Path) -> list[NodeRef]:
    """The ``try`` statements of a program around its backward passes, after whose errors it goes on."""
    program = project.fact(MultiGpuUse).of(path)
    return [
        NodeRef(module, part)
        for module in program.modules_where(lambda project, path: project.word_index.holds(path, b"except"))
        for part in module.syntax.of(ast.Try)
        if any(map(_goes_on, part.handlers))
        and any(_differentiates(project, NodeRef(module, statement), _DEPTH) for statement in part.body)
        and _may_run(project, program, NodeRef(module, part))
    ]


def _may_run(project: Project, program: Program, place: NodeRef) -> bool:
    """Return whether a program may run a place: not if it is in a function of a module that nothing uses, or that
    modules outside of the program call, and none of its own."""
    module = place.module
    function = module.function(place.node)
    if is_unused(project, module, place.node):
        return False
    if not isinstance(function, _FUNCTIONS) or function not in module.syntax.tree.body:
        return True
    sites = project.fact(Resolver).call_sites(module, function)
    return not sites or any(site.module.path in program.files for site in sites)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler takes the errors of PyTorch, and neither raises one nor ends the program."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    catches = any(kind is None or last_name(kind) in _CATCHING for kind in kinds)
    return catches and not any(
        isinstance(part, ast.Raise) or (isinstance(part, ast.Call) and last_name(part.func) in _ENDS)
        for part in walk(handler)
    )


@query
def _differentiates(project: Project, block: NodeRef, depth: int) -> bool:
    """Return whether a block, or a function that it calls, runs a backward pass."""
    calls = [part for part in walk(block.node) if isinstance(part, ast.Call)]
    if any(isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for call in calls):
        return True
    resolver = project.fact(Resolver)
    return depth > 0 and any(
        _differentiates(project, one, depth - 1)
        for call in calls
        for one in resolver.callees(block.module, call)
        if one.node is not block.node
    )
