"""Functions that a data set is mapped with: whether they hold work that other cores could share, or a state."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_DEPTH = 3
"""Most functions, each called by the one before it, that are followed."""
_FREE = frozenset(
    "zeros ones constant fill shape size rank reshape expand_dims squeeze set_shape get_shape merge_with ensure_shape"
    " TensorShape identity len int float bool str set dict tuple list isinstance issubset keys values items get pop"
    " update copy append cast one_hot".split()
)
"""Calls that make a constant, change a type, or look at no more than a shape or the container of a sample."""


_STATE = regex.compile(r"(?<!stateless_)random|py_func|numpy_function|augment|dropout", re.IGNORECASE)
"""Names of what draws random numbers or runs Python for every sample."""

_RUNS_PYTHON = frozenset({"py_func", "py_function", "numpy_function"})
_THREADS = frozenset("omp openmp n_jobs num_threads n_threads nthreads threads workers n_workers max_workers".split())
"""Arguments of functions that spread their work over cores."""
_STREAMS = regex.compile(r"(^|_)(stream(s|ed|ing)?|is_iterable)(_|$)|IterableDataset", re.IGNORECASE)
"""Names of settings under which data are read as they come."""
_FAST = regex.compile(r"AutoTokenizer(?![^)]*use_fast\s*=\s*False)|TokenizerFast|AutoProcessor")
"""Tokenizers written in Rust, which are threaded."""


def tokenises_in_batches(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a map that tokenises hands a fast tokenizer many texts at once, which it divides among the cores
    itself unless ``num_proc`` starts processes."""
    batched = keyword_value(call, "batched")
    if not isinstance(batched, ast.Constant) or batched.value is not True:
        return False
    return keyword_value(call, "num_proc") is None and regex.occurs(_FAST, module.syntax.source.text)


def is_streamed(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a map is in the branch for data that are read as they come (``if args.streaming:``), where it does
    its work with each batch and takes no ``num_proc``."""
    given = {
        ast.unparse(keyword.value)
        for loads in module.calls_by_name.get("load_dataset", [])
        for keyword in loads.keywords
        if keyword.arg == "streaming" and not isinstance(keyword.value, ast.Constant)
    }
    return any(
        holds and (ast.unparse(one) in given or _STREAMS.search(last_name(one)))
        for test, outcome in conditions(module, call)
        for part, holds in parts_of(test, outcome)
        for one in (part.values if isinstance(part, ast.BoolOp) else [part])
    )


def is_idle(project: Project, module: ModuleIndex, function: ast.expr) -> bool:
    """Return whether a mapped function only picks, names and shapes parts of a sample (``lambda x: x["a"]``), or adds
    constants."""
    return all(_idles(project, made, MAX_DEPTH) for made in project.fact(Resolver).points_to(module, function))


def has_state(project: Project, module: ModuleIndex, function: ast.expr, depth: int = MAX_DEPTH) -> bool:
    """Return whether a mapped function, or one that it calls, draws random numbers or runs Python code."""
    for made in project.fact(Resolver).points_to(module, function):
        for call in walk(made.node) if isinstance(made.node, (*FUNCTIONS, ast.Lambda)) else ():
            if isinstance(call, ast.Call) and (
                _STATE.search(ast.unparse(call.func))
                or (depth > 1 and has_state(project, made.module, call.func, depth - 1))
            ):
                return True
    return bool(_STATE.search(last_name(function)))


def starts_threads(project: Project, module: ModuleIndex, function: ast.expr) -> bool:
    """Return whether a mapped function runs Python that hands its work to threads or processes itself: ``tf.py_func(
    neighbors, ...)`` over ``knn(points, k, omp=True)``."""
    resolver = project.fact(Resolver)
    for made in resolver.points_to(module, function):
        for call in walk(made.node) if isinstance(made.node, (*FUNCTIONS, ast.Lambda)) else ():
            if not isinstance(call, ast.Call) or last_name(call.func) not in _RUNS_PYTHON or not call.args:
                continue
            if any(_asks_for_threads(run.node) for run in resolver.points_to(made.module, call.args[0])):
                return True
    return False


def loops_in_python(project: Project, module: ModuleIndex, function: ast.expr, depth: int = MAX_DEPTH) -> bool:
    """Return whether a mapped function runs Python (``tf.py_function(read, ...)``) that goes through loops of its
    own: the interpreter runs that for one sample at a time, whatever ``num_parallel_calls`` says."""
    resolver = project.fact(Resolver)
    for made in resolver.points_to(module, function):
        for call in walk(made.node) if isinstance(made.node, (*FUNCTIONS, ast.Lambda)) else ():
            if not isinstance(call, ast.Call):
                continue
            if last_name(call.func) not in _RUNS_PYTHON:
                if depth > 1 and loops_in_python(project, made.module, call.func, depth - 1):
                    return True
                continue
            run = next(iter(call.args), None) or keyword_value(call, "func")
            found = resolver.points_to(made.module, run) if run is not None else ()
            bodies = [ref.node for ref in found if isinstance(ref.node, (*FUNCTIONS, ast.Lambda))]
            if any(isinstance(part, ast.For | ast.While) for body in bodies for part in walk(body)):
                return True
    return False


def _asks_for_threads(function: ast.AST) -> bool:
    return any(
        isinstance(part, ast.keyword)
        and part.arg in _THREADS
        and not (isinstance(part.value, ast.Constant) and repr(part.value.value) in ("None", "False", "0", "1"))
        for part in walk(function)
    )


@query
def _idles(project: Project, function: NodeRef, depth: int) -> bool:
    if not isinstance(function.node, (*FUNCTIONS, ast.Lambda)) or depth == 0:
        return False
    body = function.node.body
    for node in (child for part in (body if isinstance(body, list) else [body]) for child in walk(part)):
        if isinstance(node, ast.BinOp) and not (_is_made(node.left) and _is_made(node.right)):
            return False
        if isinstance(node, ast.Call) and last_name(node.func) not in _FREE:
            called = project.fact(Resolver).callees(function.module, node)
            if not called or not all(_idles(project, callee, depth - 1) for callee in called):
                return False
    return True


def _is_made(operand: ast.expr) -> bool:
    """Return whether an operand is made here, and is no part of a sample. What its calls do is asked for each call."""
    return isinstance(operand, ast.Constant | ast.Call)
