"""Losses whose targets are cast to a type of the CPU: PyTorch computes them there, or stops where the rest is not."""

from __future__ import annotations

import ast
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
    resolver = project.fact(Resolver)
    made = [one for one in resolver.points_to(module, call.func) if isinstance(one.node, ast.Call)]
    names = set(resolver.names(module, call.func))
    for one in made:
        assert isinstance(one.node, ast.Call)
        names |= resolver.call_names(one.module, one.node)
    return bool(names) and any(_LOSS.match(name) for name in names)


def _is_cast(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is a cast to a type of the CPU, perhaps by a name for it."""
    if isinstance(node, ast.Call):
        return casts_to_host(node)
    if not isinstance(node, ast.Name):
        return False
    bindings = reaching(module, module.scope(node).lookup(node.id), node)
    return bool(bindings) and all(
        one.kind is BindingKind.ASSIGN and not one.path and isinstance(one.value, ast.Call) and casts_to_host(one.value)
        for one in bindings
    )
