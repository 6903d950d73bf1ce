"""Losses whose targets are cast to a type of the CPU: PyTorch computes them there, or stops where the rest is not."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.placement.host_results import casts_to_host
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_LOSS = regex.compile(r"^torch\.nn\..*(Loss|_loss|cross_entropy\w*)$")


def has_host_target(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``criterion(scores, labels.type(torch.LongTensor))``; the targets of CTC may lie on the host, and come with two
    lengths."""
    if len(call.args) != 2 or call.keywords or not _is_cast(module, call.args[1]):
        return False
    return any(_LOSS.match(name) for name in names_of_called(project, module, call))


def names_of_called(project: Project, module: ModuleIndex, call: ast.Call) -> set[str]:
    """Return the full names of what a call runs, and of what makes it: ``torch.nn.CrossEntropyLoss`` of
    ``criterion(...)``."""
    resolver = project.fact(Resolver)
    names = set(resolver.names(module, call.func))
    for made in resolver.points_to(module, call.func):
        names |= resolver.call_names(made.module, made.node) if isinstance(made.node, ast.Call) else frozenset()
    return names


def is_only_result(module: ModuleIndex, node: ast.expr, is_so: Callable[[ast.Call], bool]) -> bool:
    """Return whether a variable is bound to nothing but results of calls of which something is so."""
    if not isinstance(node, ast.Name):
        return False
    bindings = reaching(module, module.scope(node).lookup(node.id), node)
    return bool(bindings) and all(
        one.kind is BindingKind.ASSIGN and not one.path and isinstance(one.value, ast.Call) and is_so(one.value)
        for one in bindings
    )


def _is_cast(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is a cast to a type of the CPU, perhaps by a name for it."""
    if isinstance(node, ast.Call):
        return casts_to_host(node)
    return is_only_result(module, node, casts_to_host)
