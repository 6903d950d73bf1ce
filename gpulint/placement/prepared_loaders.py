"""Loaders that Accelerate, Fabric, Ray Train or the like have prepared: their batches come out on the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.libraries import Models
from gpulint.libraries.frameworks import Mover
from gpulint.placement.unprepared_iterators import handed_over, is_left_alone, yields
from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.spread import Spread
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, FunctionNode, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project


class Frameworks:
    """What the rows say of calls that take loaders over."""

    def __init__(self, models: Models) -> None:
        self.movers: tuple[Mover, ...] = models.rows("mover")
        self.prepares = {name: None for row in self.movers for name in row.prepares}.keys()
        """Functions and methods that hand the loaders back that they are given."""
        hooks: dict[str, tuple[str, ...]] = {}
        for row in models.rows("hook"):
            for name in row.loaders:
                hooks[name] = (*hooks.get(name, ()), *row.bases)
        self.loader_hooks = hooks
        """Methods from which frameworks take loaders -> patterns of the bases of their classes."""


def _prepared_in(project: Project, path: Path) -> Iterator[tuple[str, str, tuple[ModuleIndex, ast.ClassDef]]]:
    """Attributes under which the methods of a module's classes keep a prepared loader, with the class."""
    prepares = project.models.derived(Frameworks).prepares
    if not project.word_index.holds_one(path, frozenset(map(word_of, prepares))):
        return
    module = project.module_at(path)
    for (owner, name), bindings in module.attributes.items() if module is not None else ():
        assert module is not None
        if any(_is_prepared(project, module, one) for one in bindings):
            yield name, name, (module, owner)


def _is_prepared(project: Project, module: ModuleIndex, binding: Binding) -> bool:
    """Return whether a framework gives back what a name is set to, and not an iterator of which it knows nothing."""
    value, path = binding.value, binding.path
    if not isinstance(value, ast.Call) or last_name(value.func) not in project.models.derived(Frameworks).prepares:
        return False
    at = path[0] if path else 0
    return at >= len(value.args) or not is_left_alone(project, module, value, value.args[at])


_ATTRIBUTES: Spread[str, tuple[ModuleIndex, ast.ClassDef]] = Spread(
    __name__, "attributes that hold prepared loaders", _prepared_in
)


class PreparedLoaders:
    """Answers for one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._frameworks = project.models.derived(Frameworks)

    @cyclic(False)
    def is_prepared(self, module: ModuleIndex, source: ast.expr) -> bool:
        """Return whether the loader went through ``accelerator.prepare`` or ``fabric.setup_dataloaders`` on its way
        here."""
        name = last_name(source)
        if self._moves_by_itself(source) or self._prepares(module, source, ()):
            return True
        if name in self._names_handed_in(module):
            return True
        if isinstance(source, ast.Attribute) and self._prepared_by_subclass(module, source):
            return True
        if isinstance(source, ast.Name | ast.Attribute) and self._is_bound_to_prepared(module, source):
            return True
        return isinstance(source, ast.Name) and self._passed_prepared(module, source)

    def _is_bound_to_prepared(self, module: ModuleIndex, source: ast.Name | ast.Attribute) -> bool:
        """Return whether some value that the name is assigned is a prepared loader. All its uses share the answer."""
        bindings = self._bindings(module, source)
        return bool(bindings) and self._is_some_prepared(module, tuple(bindings))

    @cyclic(False)
    def _is_some_prepared(self, module: ModuleIndex, bindings: tuple[Binding, ...]) -> bool:
        return any(
            self._is_from_prepared(module, binding.value, binding.path)
            for binding in bindings
            if binding.kind is BindingKind.ASSIGN and binding.value is not None
        )

    def _passed_prepared(self, module: ModuleIndex, source: ast.Name) -> bool:
        """Return whether the name is a parameter for which some caller passes a prepared loader."""
        function = module.function(source)
        if function is None:
            return False
        return self._is_passed_prepared(module, function, source.id)

    @cyclic(False)
    def _is_passed_prepared(self, module: ModuleIndex, function: FunctionNode, name: str) -> bool:
        if name not in {arg.arg for arg in [*function.args.args, *function.args.kwonlyargs]}:
            return False
        for site in self._project.fact(Resolver).call_sites(module, function):
            assert isinstance(site.node, ast.Call)
            passed = argument_of(function, site.node, name)
            if passed is not None and self.is_prepared(site.module, passed):
                return True
        return False

    def _prepared_by_subclass(self, module: ModuleIndex, source: ast.Attribute) -> bool:
        """``self.loader`` in a base class, which the classes made from it let a framework prepare."""
        owner = module.class_of(source)
        return owner is not None and any(
            owner in (base for _, base in self._project.fact(Resolver).mro(where, child))
            for where, child in _ATTRIBUTES.find(self._project, source.attr, source.attr)
        )

    @staticmethod
    def _bindings(module: ModuleIndex, source: ast.Name | ast.Attribute) -> list[Binding]:
        """The bindings of a name, or of an attribute of the class around it."""
        if isinstance(source, ast.Name):
            return module.scope(source).lookup(source.id)
        owner = module.class_of(source)
        return module.attributes.get((owner, source.attr), []) if owner is not None else []

    def _is_from_prepared(self, module: ModuleIndex, value: ast.expr, path: tuple[int, ...]) -> bool:
        """Return whether a value is a prepared loader, as it is or behind ``skip_first_batches`` or a generator of the
        tree."""
        if self._prepares(module, value, path) or self._moves_by_itself(value):
            return True
        if path:
            return False
        if self._comes_prepared(module, value):
            return True
        inner = unwrap_iterable(value)
        if isinstance(inner, ast.Call) and inner.args and self._yields(module, inner):
            inner = inner.args[0]
        return isinstance(inner, ast.Name | ast.Attribute) and self.is_prepared(module, inner)

    def _yields(self, module: ModuleIndex, call: ast.Call) -> bool:
        """``forever(loader)``, a generator of the tree."""
        return any(yields(callee.node) for callee in self._project.fact(Resolver).callees(module, call))

    def _prepares(self, module: ModuleIndex, value: ast.expr | None, path: tuple[int, ...]) -> bool:
        """Return whether what comes out at ``path`` is a loader, made on the spot (``accelerator.prepare(model,
        DataLoader(...))``) or before, perhaps under another name (``batches = accelerator.prepare(loader)``)."""
        if not isinstance(value, ast.Call) or last_name(value.func) not in self._frameworks.prepares:
            return False
        at = path[0] if path else 0
        made = value.args[at] if at < len(value.args) else None
        if made is None or isinstance(made, ast.Starred) or is_left_alone(self._project, module, value, made):
            return False
        return bool(self._project.fact(LoaderFlow).loaders_of(module, made))

    def _comes_prepared(self, module: ModuleIndex, value: ast.expr) -> bool:
        """Return whether the function returns what it has let a framework prepare: ``loader = make_loader()``."""
        if not isinstance(value, ast.Call):
            return False
        callees = self._project.fact(Resolver).callees(module, value)
        name = last_name(value.func)
        if not callees and any(
            name in row.gives and not module.packages.isdisjoint(row.packages) for row in self._frameworks.movers
        ):
            return True
        return any(
            isinstance(made, ast.Call) and last_name(made.func) in self._frameworks.prepares
            for callee in callees
            if isinstance(callee.node, FUNCTIONS)
            for made in self._project.fact(Resolver).returns(callee.node)
        )

    @query
    def _names_handed_in(self, module: ModuleIndex) -> frozenset[str]:
        """Names of what a module lets a framework prepare."""
        calls = (call for name in self._frameworks.prepares for call in module.calls_by_name.get(name, []))
        return frozenset(last_name(argument) for call in calls for argument in handed_over(self._project, module, call))

    def _moves_by_itself(self, source: ast.expr) -> bool:
        """``shard.iter_torch_batches()``: an iterator of a framework that places batches on the worker's device."""
        if not isinstance(source, ast.Call):
            return False
        name, given = last_name(source.func), {keyword.arg for keyword in source.keywords}
        return any(name in row.iterators and given.isdisjoint(row.unless) for row in self._frameworks.movers)
