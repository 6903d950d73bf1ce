"""Calls that initialise CUDA, after which the driver reads no variables any more."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex
from gpulint_rules.library.called_moves import moves_below

_INITIALISES = frozenset(
    """torch.cuda.is_available torch.cuda.current_device torch.cuda.get_device_name
    torch.cuda.init torch.cuda.set_device torch.cuda.get_device_properties torch.cuda.get_device_capability
    torch.cuda.synchronize
    tensorflow.config.list_logical_devices tensorflow.test.is_gpu_available
    tensorflow.config.experimental.list_logical_devices jax.devices jax.device_count jax.local_device_count
    cupy.array cupy.zeros""".split()
)


@dataclass(frozen=True, slots=True)
class Late:
    """The statement that comes too late, and the one that it should come before."""

    statement: ast.stmt
    before: ast.stmt


def first_call(project: Project, module: ModuleIndex, node: ast.AST) -> tuple[ast.Call, Late] | None:
    """The first call that initialises CUDA in a statement that surely runs before the one around ``node``."""
    for inner, statement in _steps_before(module, node):
        call = _initialises(project, module, statement)
        if call is not None:
            return call, Late(inner, statement)
    return None


def _steps_before(module: ModuleIndex, node: ast.AST) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Yield the statements that surely run before the one around a place in its function, each with the one of the same
    block that it comes before."""
    inner = node
    for up in [*module.syntax.ancestors(node)]:
        for block in (getattr(up, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list) and inner in block and isinstance(inner, ast.stmt):
                for statement in block[: block.index(inner)]:
                    yield inner, statement
        if isinstance(up, (*FUNCTIONS, ast.Module)):
            break
        inner = up


def _initialises(project: Project, module: ModuleIndex, statement: ast.stmt) -> ast.Call | None:
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return None
    if isinstance(statement, ast.If | ast.Try | ast.For | ast.While | ast.With):
        parts: list[ast.AST] = [statement.test] if isinstance(statement, ast.If | ast.While) else []
    else:
        parts = [statement]
    for node in (node for part in parts for node in walk(part)):
        if isinstance(node, ast.Lambda):
            return None
        if isinstance(node, ast.Call) and _touches_cuda(project, module, node):
            return node
    return None


def _touches_cuda(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    if project.fact(Resolver).call_names(module, call) & _INITIALISES:
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "cuda" and not isinstance(call.func.value, ast.Name | ast.Attribute):
        return True
    if call.func.attr == "cuda":
        return not any(
            name.startswith(("torch.", "numba", "pycuda")) for name in project.fact(Resolver).names(module, call.func)
        )
    if call.func.attr == "to" and call.args:
        known = project.fact(Constants).of(module, call.args[0])
        return known.every(lambda value: isinstance(value, str) and value.startswith("cuda"))
    return False


def follows_first_call(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether CUDA is initialised above a place, or above each call of the function around it, also in what is
    called or imported there."""
    if _follows(project, module, node):
        return True
    function = module.function(node)
    sites = project.fact(Resolver).call_sites(module, function) if function is not None else ()
    return bool(sites) and all(_follows(project, site.module, site.node) for site in sites)


def _follows(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    return first_call(project, module, node) is not None or any(
        moves_below(project, module, statement) for _, statement in _steps_before(module, node)
    )
