"""Samples that a loop takes by hand: ``dataset[i]``, ``images[i : i + size]``, the files of a folder one by one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries import Models
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, LoopNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_STEPS = 8
"""Most expressions between a value and the index, or the data, that it is made of."""
_HOST_ROOTS = frozenset({"numpy", "pandas", "h5py", "scipy", "sklearn", "PIL", "cv2", "torchvision"})
_MOVES = frozenset({"to", "cuda", "type"})
_MADE = frozenset(
    f"torch.{name}"
    for name in ("load", "from_numpy", "tensor", "as_tensor", "stack", "cat", "FloatTensor", "LongTensor")
)
_ALLOCATED = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.full"})
"""Functions that make room which a memory or storage fills later."""
_PLACES = frozenset({"device", "map_location", None})
_CONVERTS = regex.compile(r"transform|preprocess|to_?tensor|2tensor|processor|augment|resize|normali[sz]e")
"""Functions that make a tensor of a sample, on the host as what they are given."""
_INDICES = regex.compile(r"perm|(^|_)(idx|index|indexes|indices|order|ids?|inds?)(_|$)")
"""Names of what holds the places of samples, a few numbers for each batch."""
_MODES = ("eval", "load_state_dict", "parameters")
"""Methods of models that tell what is one."""


class Readers:
    """Functions that read a file, by their qualified names."""

    def __init__(self, models: Models) -> None:
        self.kinds = {name: row.kind for row in models.rows("reader") for name in row.calls}
        self._headers = {
            name: {*row.header, "close"} for row in models.rows("reader") for name in row.calls if row.header
        }
        self.last_names = frozenset(name.rpartition(".")[2] for name in self.kinds)

    def decodes(self, module: ModuleIndex, call: ast.Call, names: frozenset[str]) -> bool:
        """Return whether more than the header is read of what a reader with these ``names`` returns."""
        headers = [self._headers.get(name, set()) for name in names & self.kinds.keys()]
        if not all(headers):
            return True
        used = _uses(module, call)
        parents = [module.syntax.parents.get(use) for use in used]
        return not used or not all(
            isinstance(parent, ast.Attribute) and all(parent.attr in header for header in headers) for parent in parents
        )


def _uses(module: ModuleIndex, call: ast.Call) -> list[ast.expr]:
    """Return where the value of a call is used: the uses of its variable, or the call."""
    match module.syntax.parents.get(call):
        case ast.Assign(targets=[ast.Name() as variable]) | ast.withitem(optional_vars=ast.Name() as variable):
            bindings = module.scope(variable).lookup(variable.id)
            return [
                use
                for use in module.uses.get(variable.id, ())
                if use is not variable
                and module.scope(use).lookup(variable.id) is bindings
                and any(one.value is call for one in reaching(module, bindings, use))
            ]
    return [call]


class SampleDraws:
    """Samples that the loops of one project take by hand."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._readers = project.models.derived(Readers)

    def takes_samples(self, module: ModuleIndex, loop: LoopNode) -> bool:
        """Return whether a loop runs a model on samples that it takes by hand, as far as is known."""
        if not isinstance(loop, ast.For) or "torch" not in module.packages:
            return False
        return self._runs_model(module, loop) and any(
            self.loop_of(module, part) is loop
            for part in _parts(module, loop)
            if isinstance(part, ast.Subscript) or (isinstance(part, ast.Call) and self._may_read(part))
        )

    def _runs_model(self, module: ModuleIndex, loop: ast.For) -> bool:
        models = _models(module)
        return any(isinstance(part, ast.Call) and ast.unparse(part.func) in models for part in _parts(module, loop))

    def loop_of(self, module: ModuleIndex, node: ast.expr, certain: bool = True) -> ast.For | None:
        """The innermost loop each round of which takes another sample by ``node``; ``certain`` if it has to be known
        that the data are in host memory."""
        loops = [up for up in _around(module, node) if isinstance(up, ast.For)]
        return next((loop for loop in loops if self._is_drawn(module, loop, node, certain, MAX_STEPS)), None)

    def _is_drawn(self, module: ModuleIndex, loop: ast.For, node: ast.expr, certain: bool, steps: int) -> bool:
        """Return whether a value is a sample that the loop takes, or made of one on the host."""
        if steps <= 0:
            return False
        counts = depending(module, loop)
        match node:
            case ast.Name(id=name) if name in counts:
                for binding in reaching(module, module.scope(node).lookup(name), node):
                    if binding.kind is BindingKind.ASSIGN and binding.value is not None and binding.value is not node:
                        return self._is_drawn(module, loop, binding.value, certain, steps - 1)
            case ast.Subscript(value=base, slice=index):
                if self._is_drawn(module, loop, base, certain, steps - 1):
                    return True
                if not _mentions(index, counts) or _mentions(base, counts) or _INDICES.search(last_name(base)):
                    return False
                return not certain or self.is_host_data(module, base, MAX_STEPS)
            case ast.Call(func=ast.Attribute(value=held, attr=method), args=args):
                if self._may_read(node) and self._reads(module, node):
                    return any(_mentions(argument, counts) for argument in args)
                if method in _MOVES:
                    return False
                parts = args if _is_function(module, held) or _CONVERTS.search(method) else [held]
                return any(self._is_drawn(module, loop, part, certain, steps - 1) for part in parts)
            case ast.Call(func=ast.Name(id=name), args=args):
                if self._may_read(node) and self._reads(module, node):
                    return any(_mentions(argument, counts) for argument in args)
                if _CONVERTS.search(name):
                    return any(self._is_drawn(module, loop, part, certain, steps - 1) for part in args)
            case ast.BinOp(left=left, right=right):
                return any(self._is_drawn(module, loop, part, certain, steps - 1) for part in (left, right))
        return False

    def _may_read(self, call: ast.Call) -> bool:
        return last_name(call.func) in self._readers.last_names

    def _reads(self, module: ModuleIndex, call: ast.Call) -> bool:
        return not self._readers.kinds.keys().isdisjoint(self._project.fact(Resolver).call_names(module, call))

    def is_host_data(self, module: ModuleIndex, node: ast.expr, steps: int) -> bool:
        """Return whether all data that an expression may refer to are in host memory, as far as is known."""
        if steps <= 0:
            return False
        resolver = self._project.fact(Resolver)
        match node:
            case ast.List() | ast.ListComp():
                return True
            case ast.Tuple(elts=parts):
                return bool(parts) and all(self.is_host_data(module, part, steps - 1) for part in parts)
            case ast.Name():
                bindings = reaching(module, module.scope(node).lookup(node.id), node)
                return bool(bindings) and all(
                    value is not None and value is not node and self.is_host_data(where, value, steps - 1)
                    for binding in bindings
                    for where, value in (
                        self._passed(module, binding.scope.node, node.id)
                        if binding.kind is BindingKind.PARAMETER
                        else [(module, binding.value if binding.kind is BindingKind.ASSIGN else None)]
                    )
                )
            case ast.Attribute(value=base, attr=attr):
                held = [
                    (where, binding.value)
                    for home, owner in resolver.classes_of(module, base)
                    for where, binding in resolver.class_attribute(home, owner, attr)
                ]
                if held:
                    return all(
                        value is not None
                        and (self._allocates(where, value) or self.is_host_data(where, value, steps - 1))
                        for where, value in held
                    )
                return self.is_host_data(module, base, steps - 1)
            case ast.Subscript(value=base):
                return self.is_host_data(module, base, steps - 1)
            case ast.Call(func=func):
                return self._makes_host_data(module, node, func, steps)
        return False

    def _allocates(self, module: ModuleIndex, value: ast.expr) -> bool:
        """``self.states = torch.zeros(steps, size)``, on no device that is named."""
        return (
            isinstance(value, ast.Call)
            and not any(keyword.arg in _PLACES for keyword in value.keywords)
            and not self._project.fact(Resolver).call_names(module, value).isdisjoint(_ALLOCATED)
        )

    def _makes_host_data(self, module: ModuleIndex, call: ast.Call, func: ast.expr, steps: int) -> bool:
        resolver = self._project.fact(Resolver)
        if any(keyword.arg in _PLACES for keyword in call.keywords):
            return False
        names = resolver.call_names(module, call)
        if names & _MADE:
            inner = names & {"torch.stack", "torch.cat"}
            return not inner or any(self.is_host_data(module, part, steps - 1) for part in call.args[:1])
        if any(name.partition(".")[0] in _HOST_ROOTS for name in names) or last_name(func) == "load_dataset":
            return True
        if isinstance(func, ast.Attribute) and not _is_function(module, func.value):
            return func.attr not in _MOVES and self.is_host_data(module, func.value, steps - 1)
        return self._returns_host_data(module, call, steps) or any(
            base.endswith("Dataset")
            for where, owner in resolver.classes_of(module, call)
            for base in resolver.base_names(where, owner)
        )

    def _returns_host_data(self, module: ModuleIndex, call: ast.Call, steps: int) -> bool:
        """Return whether functions of the tree return nothing but data in host memory (``images = load_images()``)."""
        resolver = self._project.fact(Resolver)
        callees = resolver.callees(module, call)
        returned = [
            (callee.module, value)
            for callee in callees
            if isinstance(callee.node, ast.FunctionDef) and callee.node.name != "__init__"
            for value in resolver.returns(callee.node)
        ]
        return (
            bool(returned)
            and {callee.module for callee in callees} == {where for where, _ in returned}
            and all(self.is_host_data(where, value, steps - 1) for where, value in returned)
        )

    def _passed(
        self, module: ModuleIndex, function: ast.AST, name: str
    ) -> Iterator[tuple[ModuleIndex, ast.expr | None]]:
        """Yield what the callers of a function pass for a parameter; None if that is unknown."""
        sites = self._project.fact(Resolver).call_sites(module, function) if isinstance(function, FUNCTIONS) else ()
        if not sites:
            yield module, None
        for site in sites:
            assert isinstance(site.node, ast.Call)
            assert isinstance(function, FUNCTIONS)
            passed = argument_of(function, site.node, name)
            yield site.module, None if isinstance(passed, ast.Starred) else passed


@query
def _parts(module: ModuleIndex, loop: LoopNode) -> tuple[ast.AST, ...]:
    return tuple(part for statement in loop.body for part in walk(statement))


@query
def _models(module: ModuleIndex) -> frozenset[str]:
    """Return what is called as models are, and has their methods."""
    owners = (
        ast.unparse(call.func.value)
        for name in _MODES
        for call in module.calls_by_name.get(name, [])
        if isinstance(call.func, ast.Attribute)
    )
    names = {name.removesuffix(".module") for name in owners}
    return frozenset({"model", "net", "network", "self.model", "self.net", *names})


def _around(module: ModuleIndex, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands around a node in its function."""
    for up in module.syntax.ancestors(node):
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return
        yield up


@query
def depending(module: ModuleIndex, loop: ast.For) -> frozenset[str]:
    """The names that a loop counts or goes through by, and those that it sets from them."""
    found = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    assigned = [part for part in _parts(module, loop) if isinstance(part, ast.Assign)]
    for _ in range(2):
        for part in assigned:
            if _mentions(part.value, found):
                found |= {
                    name.id
                    for target in part.targets
                    for name in walk(target)
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
                }
    return frozenset(found)


def _mentions(node: ast.expr, names: set[str] | frozenset[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in walk(node))


def _is_function(module: ModuleIndex, base: ast.expr) -> bool:
    """Return whether it is a module that has functions (``np``), not a value with methods."""
    while isinstance(base, ast.Attribute):
        base = base.value
    return isinstance(base, ast.Name) and any(
        binding.kind is BindingKind.IMPORT for binding in module.scope(base).lookup(base.id)
    )
