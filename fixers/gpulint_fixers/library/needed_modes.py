"""What a program does with debugging switches on that it could not do without them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.programs.multi_gpu_use import MultiGpuUse, Program
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.unused_symbols import is_unused
from gpulint.workspace.module_index import NodeRef, last_name

_CATCHING = frozenset({"Exception", "BaseException", "RuntimeError"})
_ENDS = frozenset({"exit", "_exit"})
_DEPTH = 3
"""How many calls deep a backward pass is looked for."""
_RECURRENT = regex.compile(r"\b(GRU|LSTM|RNN)(Cell)?\(")
_TWICE = regex.compile(r"create_graph|\bcaptum\b|\bshap\b")
"""Gradients of gradients, and libraries that take those of a model's inputs."""
_OF_INPUTS = regex.compile(r"\.requires_grad_\(|requires_grad\s*=\s*True|autograd\.grad\(|\.backward\(")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_EVALUATES = regex.compile(r"\.eval\(\)")


def is_caught(project: Project, path: Path) -> bool:
    """Return whether a program goes on after an error in its backward pass, which anomaly detection raises for NaN;
    functions that only other programs call do not count."""
    program = project.fact(MultiGpuUse).of(path)
    return any(
        isinstance(part, ast.Try)
        and any(map(_goes_on, part.handlers))
        and any(_differentiates(project, NodeRef(module, statement), _DEPTH) for statement in part.body)
        and _may_run(project, program, NodeRef(module, part))
        for module in program.modules_where(lambda project, path: project.word_index.holds(path, b"except"))
        for part in module.syntax.of(ast.Try)
    )


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


def exceeds_cudnn(project: Project, path: Path) -> bool:
    """Return whether a program may take gradients through recurrent layers that cuDNN cannot: in evaluation mode, or of
    gradients."""
    program = project.fact(MultiGpuUse).of(path)
    if not program.mentions(_RECURRENT):
        return False
    return program.mentions(_TWICE) or _differentiates_evaluations(program)


def _differentiates_evaluations(program: Program) -> bool:
    """Return whether a function of a program, or a script, sets evaluation mode and takes gradients of inputs."""
    for module in program.modules:
        scopes = [*module.syntax.of(ast.FunctionDef), *module.syntax.tree.body]
        if not _EVALUATES.search(module.syntax.source.text):
            continue
        top = "\n".join(module.syntax.text(part) for part in scopes if not isinstance(part, _DEFINITIONS))
        texts = [*(module.syntax.text(part) for part in scopes if isinstance(part, ast.FunctionDef)), top]
        if any(
            (mode := _EVALUATES.search(text)) is not None
            and re.search(r"\.train\(", text) is None
            and _OF_INPUTS.search(text, mode.end()) is not None
            for text in texts
        ):
            return True
    return False
