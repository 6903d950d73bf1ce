"""Where the body of a generator runs: in the loops that take what it yields, not where it is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.query import query
from gpulint.training.loop_iterables import unwrap_iterable, unwrap_zipped
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, dotted, last_name


def yields(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function itself has a ``yield``."""
    return function in _generators(module)


@query
def _generators(module: ModuleIndex) -> frozenset[ast.AST]:
    """The functions of a module that have a ``yield`` in their bodies."""
    found = set[ast.AST]()
    for node in module.syntax.of(ast.Yield, ast.YieldFrom):
        inner: ast.AST = node
        for up in module.syntax.ancestors(node):
            if isinstance(up, FUNCTIONS) and inner in up.body:
                found.add(up)
            if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
                break
            inner = up
    return frozenset(found)


def consumers(site: NodeRef) -> Iterator[NodeRef]:
    """Yield places that run with each item of the generator that a call makes: the first statement of the loops over
    it, and ``next(generator)``.

    None where the generator is handed on to a function.
    """
    module = site.module
    assert isinstance(site.node, ast.expr)
    kept = _kept_as(module, site.node)
    here = module.function(site.node)
    for loop in module.loops:
        if not isinstance(loop, ast.For):
            continue
        sources = [*unwrap_zipped(loop.iter), unwrap_iterable(loop.iter)]
        named = kept and _is_in_reach(module, loop, here, kept) and any(dotted(source) == kept for source in sources)
        if named or site.node in sources:
            yield NodeRef(module, loop.body[0])
    for call in module.calls_by_name.get("next", []) if kept else []:
        if call.args and dotted(unwrap_iterable(call.args[0])) == kept and _is_in_reach(module, call, here, kept):
            yield NodeRef(module, call)


def _kept_as(module: ModuleIndex, call: ast.expr) -> str:
    """The variable or attribute that gets the generator, perhaps as ``iter(batches())``; "" if none does."""
    up = module.syntax.parents.get(call)
    while isinstance(up, ast.Call) and last_name(up.func) in ("iter", "enumerate", "tqdm", "cycle"):
        up = module.syntax.parents.get(up)
    return dotted(up.targets[0]) if isinstance(up, ast.Assign) and len(up.targets) == 1 else ""


def _is_in_reach(module: ModuleIndex, node: ast.AST, here: FunctionNode | None, kept: str) -> bool:
    """Return whether a name that ``here`` sets means the same at ``node``: in its function, or for an attribute in its
    class."""
    function = module.function(node)
    if function is here or here is None:
        return True
    return (
        kept.startswith("self.")
        and module.class_of(node) is not None
        and module.class_of(node) is module.class_of(here)
    )
