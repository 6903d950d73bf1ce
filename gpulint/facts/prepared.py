"""Loaders that Accelerate, Fabric, Ray Train or the like have prepared: their batches come out on the device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.facts.iterables import unwrap_iterable
from gpulint.facts.passing import argument_of
from gpulint.facts.scopes import FUNCTIONS, Bound, ModuleScopes, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

PREPARE = frozenset(
    {"prepare", "setup_dataloaders", "prepare_data_loader", "_setup_dataloader", "MpDeviceLoader", "prepare_dataloader"}
)


class Prepared:
    """Answers for one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._active: set[ast.AST] = set()

    def is_prepared(self, scopes: ModuleScopes, source: ast.expr) -> bool:
        """Did the loader go through ``accelerator.prepare`` or ``fabric.setup_dataloaders`` on its way here?"""
        name = last_name(source)
        for method in PREPARE:
            for call in scopes.calls_by_name.get(method, []):
                if any(last_name(argument) == name for argument in call.args):
                    return True
        if isinstance(source, ast.Name) and source not in self._active and self._wraps_prepared(scopes, source):
            return True
        function = scopes.function(source)
        if function is None or not isinstance(source, ast.Name) or function in self._active:
            return False
        if source.id not in {arg.arg for arg in [*function.args.args, *function.args.kwonlyargs]}:
            return False
        self._active.add(function)
        try:
            for site in self._project.resolver.call_sites(scopes, function):
                assert isinstance(site.node, ast.Call)
                passed = argument_of(function, site.node, source.id)
                if passed is not None and self.is_prepared(site.scopes, passed):
                    return True
        finally:
            self._active.discard(function)
        return False

    def _wraps_prepared(self, scopes: ModuleScopes, source: ast.Name) -> bool:
        """Was the name assigned from a prepared loader, as it is or shortened by ``skip_first_batches``?"""
        self._active.add(source)
        try:
            for binding in scopes.scope(source).lookup(source.id):
                value = binding.value
                if binding.kind is Bound.ASSIGN and self._prepares(scopes, value, binding.path):
                    return True
                if binding.kind is Bound.ASSIGN and value is not None and not binding.path:
                    if self._comes_prepared(scopes, value):
                        return True
                    inner = unwrap_iterable(value)
                    if (
                        isinstance(inner, ast.Name | ast.Attribute)
                        and last_name(inner) != source.id
                        and self.is_prepared(scopes, inner)
                    ):
                        return True
        finally:
            self._active.discard(source)
        return False

    def _prepares(self, scopes: ModuleScopes, value: ast.expr | None, path: tuple[int, ...]) -> bool:
        """``accelerator.prepare(model, DataLoader(...))``: is what comes out at ``path`` a loader made on the spot?"""
        if not isinstance(value, ast.Call) or last_name(value.func) not in PREPARE:
            return False
        at = path[0] if path else 0
        made = value.args[at] if at < len(value.args) else None
        return isinstance(made, ast.Call) and bool(self._project.loaders.loaders_of(scopes, made))

    def _comes_prepared(self, scopes: ModuleScopes, value: ast.expr) -> bool:
        """``loader = make_loader()``: does the function hand back what it has let a framework prepare?"""
        if not isinstance(value, ast.Call):
            return False
        return any(
            isinstance(made, ast.Call) and last_name(made.func) in PREPARE
            for callee in self._project.resolver.callees(scopes, value)
            if isinstance(callee.node, FUNCTIONS)
            for made in self._project.resolver.returns(callee.node)
        )
