"""Calls that make data loaders, and which of them the value of an expression may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value, passed_as
from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.call_graph import calls_taking
from gpulint.semantic.containers import elements, stored_values
from gpulint.semantic.hardware_words import is_for_tpu
from gpulint.semantic.points_to import Resolver
from gpulint.spread import Spread
from gpulint.training.bounded_loops import FEW
from gpulint.training.guards import Guards
from gpulint.training.loader_calls import TORCH_LOADER, Loader, LoaderClasses
from gpulint.training.loop_iterables import is_loader_name, is_of_parts, unwrap_iterable, unwrap_zipped
from gpulint.training.renamed_loaders import calling_names
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_KEPT = 40
"""Of more loaders kept under one name it is unknown which is meant."""

MAX_LOADERS = 100
"""Most loaders that one expression may be; with more, its loader is unknown."""

_BOOSTERS = ("plugin", "booster")
"""Names of ColossalAI's plugins, whose ``prepare_dataloader(dataset, batch_size, ...)`` makes a DataLoader:
https://github.com/hpcaitech/ColossalAI/blob/main/colossalai/booster/plugin/dp_plugin_base.py"""
_MAKERS = ("__init__", "prepare_dataloader")
_SET = ("pin_memory", "num_workers")
_MAX_NESTED = 2
"""Collections in collections whose elements are followed."""


def _kept_in(project: Project, path: Path) -> Iterator[tuple[str, str, Loader]]:
    return project.fact(LoaderFlow).kept_in(path)


_NO_LOADERS: tuple[Loader, ...] = ()
_KEPT: Spread[str, Loader] = Spread(__name__, "loaders of classes", _kept_in)


def _bounded(loaders: tuple[Loader, ...], module: ModuleIndex, *_: object) -> tuple[Loader, ...]:
    if len(loaders) <= MAX_LOADERS:
        return loaders
    module.report_limit(f"an expression may be any of more than {MAX_LOADERS} data loaders")
    return ()


class LoaderFlow:
    """Data loaders of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._classes = project.models.derived(LoaderClasses)

    @query
    def in_module(self, module: ModuleIndex) -> list[Loader]:
        """Calls of a module that make a torch-like data loader, in source order; ``super().__init__`` of a subclass
        counts. Left out are loaders that only try the program out (``if args.dry_run``), hold a few samples, or get
        arguments that PyTorch refuses."""
        if is_for_tpu(module):
            return []
        names = calling_names(self._project, module)
        found = [
            loader
            for call in module.calls_where(lambda name: name in names or name in _MAKERS or "Loader" in name)
            if (loader := self._loader(module, call)) is not None
            and not self._holds_few(module, call)
            and not self._is_refused(loader)
            and not self._project.fact(Guards).is_debugging(module, call)
        ]
        return sorted(found, key=lambda loader: (loader.node.lineno, loader.node.col_offset))

    def _is_refused(self, loader: Loader) -> bool:
        """Return whether PyTorch refuses the arguments: ``shuffle=True`` beside a sampler."""
        shuffle = keyword_value(loader.node, "shuffle")
        if not isinstance(shuffle, ast.Constant) or shuffle.value is not True:
            return False
        given = [keyword_value(loader.node, name) for name in ("sampler", "batch_sampler")]
        return any(
            all(
                isinstance(ref.node, ast.Call) for ref in self._project.fact(Resolver).points_to(loader.module, sampler)
            )
            for sampler in given
            if sampler is not None
        )

    def _holds_few(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether the samples of a loader are listed one by one (``DataLoader(Subset(data, [index]))``) or
        are counted to make a few batches (``Subset(data, range(2 * batch_size))``)."""
        match passed_as(call, "dataset", 0):
            case ast.Call(func=func, args=[_, indices]) if last_name(func) == "Subset":
                pass
            case _:
                return False
        size = keyword_value(call, "batch_size")
        text = ast.unparse(size) if size is not None else ""
        if isinstance(indices, ast.List | ast.Tuple):
            return not any(isinstance(part, ast.Starred) for part in indices.elts)
        return all(_is_few(ref.node, text) for ref in self._project.fact(Resolver).points_to(module, indices))

    def is_loader(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether the call is one of those."""
        return call in self._nodes(module)

    @query
    def _nodes(self, module: ModuleIndex) -> set[ast.Call]:
        return {loader.node for loader in self.in_module(module)}

    def _loader(self, module: ModuleIndex, call: ast.Call) -> Loader | None:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "__init__":
            owner = module.class_of(call)
            if owner is None or self._has_own_base(module, owner):
                return None
            names = self._project.fact(Resolver).base_names(module, owner) & self._classes.rows.keys()
        else:
            last = last_name(func)
            if not last or isinstance(func, ast.Call):
                return None
            known = last in self._classes.last_names or last in calling_names(self._project, module)
            names = (
                self._project.fact(Resolver).names(module, func) & self._classes.rows.keys() if known else frozenset()
            )
            if not names and "Loader" in last and last not in self._classes.last_names:
                names = self._forwarding(module, func)
            if last == "prepare_dataloader" and isinstance(func, ast.Attribute) and last_name(func.value) in _BOOSTERS:
                names = frozenset({TORCH_LOADER})
        return self._made(NodeRef(module, call), min(names)) if names else None

    def _has_own_base(self, module: ModuleIndex, owner: ast.ClassDef) -> bool:
        """Return whether ``super().__init__`` of a class is a constructor of the tree with parameters of its own."""
        for _, base in self._project.fact(Resolver).mro(module, owner)[1:]:
            if any(isinstance(part, FUNCTIONS) and part.name == "__init__" for part in base.body):
                return not _forwards(base)
        return False

    def _made(self, call: NodeRef, name: str) -> Loader:
        return Loader(call, name, self._classes.rows.get(name))

    def _forwarding(self, module: ModuleIndex, func: ast.expr) -> frozenset[str]:
        """The name of a class of the tree that makes a DataLoader of what it is given (``**kwargs``)."""
        resolver = self._project.fact(Resolver)
        return frozenset(
            made.node.name
            for made in resolver.points_to(module, func)
            if isinstance(made.node, ast.ClassDef)
            and _forwards(made.node)
            and resolver.base_names(made.module, made.node) & self._classes.rows.keys()
        )

    def loaders_of(self, module: ModuleIndex, node: ast.expr) -> tuple[Loader, ...]:
        """Loaders that the value of an expression may be (in-tree subclasses of DataLoader included)."""
        return self._loaders_of(module, node, _MAX_NESTED)

    @cyclic(_NO_LOADERS, _bounded)
    def _loaders_of(self, module: ModuleIndex, node: ast.expr, nested: int) -> tuple[Loader, ...]:
        """The same, with collections opened that are ``nested`` so deep."""
        if is_of_parts(node):
            return ()
        if isinstance(node, ast.Starred):
            return tuple(dict.fromkeys(self._held(stored_values(self._project, module, node.value), nested)))
        found: list[Loader] = []
        resolver = self._project.fact(Resolver)
        for ref in resolver.points_to(module, node):
            call = ref.node
            if isinstance(call, ast.arg):
                found.extend(self._handed_along(ref.module, call, nested))
            elif isinstance(call, ast.Name) and call.id == "self" and (owner := ref.module.class_of(call)) is not None:
                found.extend(self._passed_on(ref.module, owner, nested))
            elif isinstance(call, ast.Attribute) and is_loader_name(call.attr):
                found.extend(self._kept_under(ref.module, call.attr))
            elif isinstance(call, ast.Subscript | ast.Name) and not ref.path:
                found.extend(self._collected(ref, nested))
            if not isinstance(call, ast.Call):
                continue
            if (loader := self._loader(ref.module, call)) is not None:
                found.append(loader)
            elif (sources := unwrap_zipped(call)) != [call]:
                found.extend(one for source in sources for one in self._loaders_of(ref.module, source, nested))
            else:
                for made in resolver.points_to(ref.module, call.func):
                    if isinstance(made.node, FUNCTIONS):
                        found.extend(self._yielded(made, nested, NodeRef(ref.module, call)))
                    if not isinstance(made.node, ast.ClassDef):
                        continue
                    if resolver.base_names(made.module, made.node) & self._classes.rows.keys():
                        found.extend(self._own(made) or [self._made(ref, TORCH_LOADER)])
                    else:
                        found.extend(self._passed_on(made.module, made.node, nested))
        return tuple(dict.fromkeys(found))

    def _own(self, owner: NodeRef) -> list[Loader]:
        """Return what the constructor of a loader class of the tree makes of its base (``super().__init__(data,
        ...)``)."""
        calls = owner.module.calls_by_name.get("__init__", [])
        own = (self._loader(owner.module, call) for call in calls if owner.module.class_of(call) is owner.node)
        return [loader for loader in own if loader is not None]

    def _collected(self, held: NodeRef, nested: int) -> Iterator[Loader]:
        """Loaders that are kept in a list or dictionary, or in one that is itself kept in one."""
        return self._held(elements(self._project, held), nested)

    def _held(self, parts: Iterator[NodeRef], nested: int) -> Iterator[Loader]:
        """Loaders that the elements of a collection may be."""
        for ref in islice(parts, MAX_LOADERS + 1) if nested else ():
            assert isinstance(ref.node, ast.expr)
            yield from self._loaders_of(ref.module, ref.node, nested - 1)

    def _passed_on(self, module: ModuleIndex, owner: ast.ClassDef, nested: int) -> Iterator[Loader]:
        """Loaders whose batches the ``__iter__`` of a class yields as they are, or its ``__next__`` returns."""
        resolver = self._project.fact(Resolver)
        if (method := resolver.method(module, owner, "__iter__")) is not None:
            yield from self._yielded(method, nested)
        drawn = resolver.method(module, owner, "__next__")
        if drawn is None or _moves(drawn.node):
            return
        for part in walk(drawn.node):
            if isinstance(part, ast.Call) and last_name(part.func) == "next" and len(part.args) == 1:
                yield from self._loaders_of(drawn.module, part.args[0], nested)

    def _yielded(self, generator: NodeRef, nested: int, call: NodeRef | None = None) -> Iterator[Loader]:
        """Loaders whose batches a generator yields as they are; of its parameters, what ``call`` hands to them."""
        for part in walk(generator.node):
            if isinstance(part, ast.YieldFrom):
                source = unwrap_iterable(part.value)
            elif isinstance(part, ast.For) and _yields_as_it_is(part):
                source = _repeated(unwrap_iterable(part.iter))
            else:
                continue
            where = _handed_in(generator, call, source)
            assert isinstance(where.node, ast.expr)
            yield from self._loaders_of(where.module, where.node, nested)

    def _kept_under(self, module: ModuleIndex, name: str) -> Iterator[Loader]:
        """Loaders that classes beside the module, or beside what it imports, keep as ``self.train_loader``: what
        ``data`` may be in ``data.train_loader`` when its class is chosen by name (``getattr(datasets, name)(...)``)."""
        kept = _KEPT.find(self._project, name, name)
        if not 0 < len(kept) <= MAX_KEPT:
            return
        folders = {module.path.parent, *(path.parent for path in self._project.imported(module.path))}
        yield from (loader for loader in kept if loader.module.path.parent in folders)

    def kept_in(self, path: Path) -> Iterator[tuple[str, str, Loader]]:
        """Loaders that the classes of a module which is no program keep, by the name of the attribute (twice)."""
        module = self._project.module_at(path)
        if module is None or "__main__" in module.syntax.source.text:
            return
        for (_, name), bindings in module.attributes.items():
            for binding in bindings:
                if isinstance(binding.value, ast.Call) and is_loader_name(name):
                    made = self._loader(module, binding.value)
                    if made is not None:
                        yield name, name, made

    def _handed_along(self, module: ModuleIndex, parameter: ast.arg, nested: int) -> Iterator[Loader]:
        """Loaders for a parameter of a function that is itself an argument: ``run(step=step, batches=loader)``."""
        arguments = module.syntax.parents.get(parameter)
        function = module.syntax.parents.get(arguments) if arguments is not None else None
        if not isinstance(function, FUNCTIONS):
            return
        for site in calls_taking(self._project.fact(Resolver), module, function):
            assert isinstance(site.node, ast.Call)
            for keyword in site.node.keywords:
                if keyword.arg == parameter.arg:
                    yield from self._loaders_of(site.module, keyword.value, nested)


def _handed_in(generator: NodeRef, call: NodeRef | None, source: ast.expr) -> NodeRef:
    """Return what a call hands to a generator for ``source``, if that is a parameter; else ``source`` itself."""
    function, site = generator.node, call.node if call is not None else None
    if not isinstance(function, FUNCTIONS) or not isinstance(site, ast.Call) or not isinstance(source, ast.Name):
        return NodeRef(generator.module, source)
    passed = argument_of(function, site, source.id) if source.id in parameters(function) else None
    if call is None or passed is None or isinstance(passed, ast.Starred):
        return NodeRef(generator.module, source)
    return NodeRef(call.module, passed)


def _yields_as_it_is(loop: ast.For) -> bool:
    """Return whether a generator's loop yields what it draws, and moves nothing to a device."""
    yields = ast.Yield if _repeated(loop.iter) is loop.iter else ast.Yield | ast.YieldFrom
    return any(isinstance(part, yields) for part in walk(loop)) and not _moves(loop)


def _moves(node: ast.AST) -> bool:
    """Return whether code moves anything to a device."""
    return any(isinstance(part, ast.Attribute) and part.attr in ("to", "cuda") for part in walk(node))


def _repeated(source: ast.expr) -> ast.expr:
    """Return what ``itertools.repeat(loader)`` gives again and again."""
    match source:
        case ast.Call(func=func, args=[again, *_]) if last_name(func) == "repeat":
            return again
    return source


def _forwards(owner: ast.ClassDef) -> bool:
    """Return whether a class leaves it to its base how batches are loaded, as its maker says by keywords."""
    made = next((part for part in owner.body if isinstance(part, FUNCTIONS) and part.name == "__init__"), None)
    if made is None:
        return True
    if made.args.kwarg is None or any(arg.arg in _SET for arg in (*made.args.args, *made.args.kwonlyargs)):
        return False
    parts = walk(made)
    if any(isinstance(part, ast.Constant) and part.value in _SET for part in parts):
        return False  # `kwargs["pin_memory"] = True`
    calls = [part for part in parts if isinstance(part, ast.Call) and last_name(part.func) == "__init__"]
    return len(calls) == 1 and (
        any(keyword.arg is None and last_name(keyword.value) == made.args.kwarg.arg for keyword in calls[0].keywords)
        and not any(keyword.arg in _SET for keyword in calls[0].keywords)
    )


def _is_few(indices: ast.AST, size: str) -> bool:
    """Return whether indices are counted for a few batches of a size."""
    match indices:
        case ast.Call(func=ast.Name(id="list"), args=[inner]):
            return _is_few(inner, size)
        case ast.Call(func=ast.Name(id="range"), args=[ast.BinOp(left=left, op=ast.Mult(), right=right)]):
            sides = {ast.unparse(left), ast.unparse(right)}
            return size in sides and any(part.isdecimal() and int(part) <= FEW for part in sides - {size})
    return False
