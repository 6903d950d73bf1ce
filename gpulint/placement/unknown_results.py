"""What functions of libraries return of which nothing says where they compute: perhaps numbers of NumPy, or tensors
that were copied to the host before."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from gpulint.libraries.gpu_libraries import Libraries
from gpulint.placement.host_outputs import HostOutputs
from gpulint.placement.host_values import HostValues
from gpulint.placement.sync_points import SyncPoint
from gpulint.placement.tensor_results import MAKES
from gpulint.query import cyclic
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project


class UnknownResults:
    """Values of one project that unknown libraries return."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._libraries = project.models.derived(Libraries)

    def holds(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether all that a value may be is what a function of an unknown library returns, and nothing
        differentiates it: neither the name of the function nor its use says that a tensor of the GPU comes back."""
        if not self._is_unknown(module, node):
            return False
        text, function = ast.unparse(node), module.function(node)
        return not any(
            isinstance(call.func, ast.Attribute)
            and module.function(call) is function
            and ast.unparse(call.func.value) == text
            for call in module.calls_by_name.get("backward", ())
        )

    @cyclic(False)
    def _is_unknown(self, module: ModuleIndex, node: ast.expr) -> bool:
        match node:
            case ast.Call():
                return self._is_call_of_stranger(module, node)
            case ast.Subscript(value=base):
                return self._is_unknown(module, base)
            case ast.Name(id=name):
                bindings = reaching(module, module.scope(node).lookup(name), node)
                return bool(bindings) and all(
                    one.kind is BindingKind.ASSIGN and one.value is not None and self._is_unknown(module, one.value)
                    for one in bindings
                )
        return False

    def _is_call_of_stranger(self, module: ModuleIndex, call: ast.Call) -> bool:
        """``segmentation_metrics(output, target)`` of ``from somewhere.metrics import segmentation_metrics``"""
        resolver = self._project.fact(Resolver)
        names = resolver.call_names(module, call)
        if MAKES.search(last_name(call.func)) or resolver.callees(module, call):
            return False
        roots = {name.partition(".")[0] for name in names if "." in name}
        return bool(roots) and len(roots) == len(names) and not any(map(self._is_known, roots))

    def _is_known(self, root: str) -> bool:
        """Return whether a library is one for GPUs, by the rows or its name, or one that is known to use none."""
        known = root in self._libraries.gpu or root in self._libraries.no_gpu or root in sys.stdlib_module_names
        return known or "torch" in root


def is_not_on_gpu(project: Project, module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether a value is on the host, or a number is read of what an unknown library returns, of which nothing
    says that it is on the GPU. Who copies it to the CPU may know."""
    assert sync.value is not None
    facts: tuple[HostOutputs | HostValues, ...] = (project.fact(HostOutputs), project.fact(HostValues))
    if any(fact.holds(module, sync.value) for fact in facts):
        return True
    number = isinstance(sync.node, ast.Call) and last_name(sync.node.func) == "item"
    return number and project.fact(UnknownResults).holds(module, sync.value)
