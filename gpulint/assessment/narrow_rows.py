"""Data sets whose samples are rows of few numbers that they hold, such as rays of the pixels of images, whatever their
code speaks of."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.image_sides import classes_of
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import Binding

_DEPTH = 12
"""How many steps a value is followed."""
_NARROW = 64
"""Most numbers of a row that is taken for one of few."""
MANY = 8192
"""Rows of a batch from which on they are taken for ones of few numbers where nothing tells their width: points of a
domain, pairs of ids, rays."""
_SHAPES = frozenset({"reshape", "view"})
_TURNS = frozenset({"t", "transpose", "permute", "T"})
_KEEPS = frozenset("float double half long int contiguous clone copy detach numpy astype to type cpu".split())
"""Methods whose result has the shape of their object."""
_CONVERTS = frozenset("from_numpy tensor as_tensor array asarray Tensor FloatTensor LongTensor DoubleTensor".split())
"""Functions whose result has the shape of what they get."""
_JOINS = frozenset({"cat", "concat", "concatenate", "vstack"})
_PIXELS = regex.compile(r"->\s*\(((n|b) )?h w\) (c|1|3)$")
"""Ends of patterns of einops that make rows of the pixels of images."""
_ADDS = frozenset({"append", "extend"})


@query
def gives_narrow_rows(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether one of the samples that ``__getitem__`` of a class returns is nothing but rows of few numbers of
    what the object holds (``self.rays[index]`` of ``rays.reshape(-1, 3)``)."""
    rows = _Rows(project, owner)
    where, samples = rows.samples(module)
    return any(
        names and all(name is not None and rows.is_narrow_attribute(where, name, _DEPTH) for name in names)
        for names in samples
    )


def holds_rows(project: Project, loader: Loader, kind: str) -> bool:
    """Return whether the samples of a loader are rows of arrays in memory of unknown width."""
    classes = classes_of(project, loader)
    if not classes:
        return kind == "table"
    return kind in ("table", "other") and all(_picks_rows(project, *one) for one in classes)


@query
def _picks_rows(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether all samples that ``__getitem__`` of a class returns are made of rows of what the object holds,
    and the class gives nothing the shape of wide ones (``self.values.reshape(-1, 1024)``)."""
    _, samples = _Rows(project, owner).samples(module)
    if not samples or not all(names and None not in names for names in samples):
        return False
    return not any(_width(part, turned) > _NARROW for part in walk(owner) for turned in (False, True))


class _Rows:
    """The shapes of what an object of a class holds."""

    def __init__(self, project: Project, owner: ast.ClassDef) -> None:
        self._resolver = project.fact(Resolver)
        self._owner = owner

    def samples(self, module: ModuleIndex) -> tuple[ModuleIndex, list[list[str | None]]]:
        """Return the attributes that the parts of each sample are rows of, None for other parts, and where that is."""
        found = self._resolver.method(module, self._owner, "__getitem__")
        if found is None or not isinstance(found.node, ast.FunctionDef):
            return module, []
        return found.module, [
            [self.picked(part) for part in self.parts(found.module, sample)]
            for value in self._resolver.returns(found.node)
            for sample in self.values(found.module, value)
        ]

    def values(self, module: ModuleIndex, value: ast.expr, depth: int = _DEPTH) -> Iterator[ast.expr]:
        """The values that a variable may have; the value itself if it is none."""
        bound = _bound(module, value) if depth > 0 else []
        given = [
            one.value for one in bound if one.kind is BindingKind.ASSIGN and not one.path and one.value is not None
        ]
        if not given or len(given) < len(bound):
            yield value
            return
        for one in given:
            yield from self.values(module, one, depth - 1)

    def parts(self, module: ModuleIndex, sample: ast.expr) -> Iterator[ast.expr]:
        """The parts of a sample."""
        match sample:
            case ast.Dict(values=given) | ast.Tuple(elts=given) | ast.List(elts=given):
                for part in given:
                    yield from self.values(module, part)
            case _:
                yield sample

    def picked(self, part: ast.expr) -> str | None:
        """The attribute that a part of a sample is a row of; None for another value."""
        match part:
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name), slice=ast.Name()):
                return name
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _KEEPS:
                return self.picked(inner)
            case ast.Call(func=called, args=[inner, *_]) if last_name(called) in _CONVERTS:
                return self.picked(inner)
        return None

    def is_narrow_attribute(self, module: ModuleIndex, name: str, depth: int) -> bool:
        """Return whether all that is seen of an attribute is rows of few numbers."""
        stores = [part for part in walk(self._owner) if isinstance(part, ast.Assign) and _stores(part, name)]
        values = [
            one.value
            for one in stores
            if not (_is_empty(one.value) or _joins_itself(one.value, name) or _converts_itself(one.value, name))
        ]
        added = [
            part.args[0]
            for part in walk(self._owner)
            if isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and part.func.attr in _ADDS
            and _is_own(part.func.value, name)
            and part.args
        ]
        added += [
            part.value.elts[0] if isinstance(part.value, ast.List) and len(part.value.elts) == 1 else part.value
            for part in walk(self._owner)
            if isinstance(part, ast.AugAssign) and _is_own(part.target, name)
        ]
        if added and not any(_joins_itself(one.value, name) for one in stores):
            return False  # each sample is one of what was added, not a row of it
        whole = values + added
        return bool(whole) and all(self._is_narrow(module, value, depth - 1) for value in whole)

    def _is_narrow(self, module: ModuleIndex, value: ast.expr, depth: int) -> bool:
        """Return whether a value is seen to be rows of few numbers."""
        if depth <= 0:
            return False
        match value:
            case ast.Name():
                return self._is_narrow_name(module, value, depth)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self.is_narrow_attribute(module, name, depth - 1)
            case ast.Attribute(value=inner, attr="T"):
                return _is_shaped(inner, turned=True)
            case (
                ast.Subscript(value=inner, slice=ast.Tuple(elts=[ast.Slice(), *_]))
                | ast.Subscript(value=inner, slice=ast.Slice())
            ):
                return self._is_narrow(module, inner, depth - 1)
            case ast.BinOp(left=left, right=right):
                return self._is_narrow(module, left, depth - 1) or self._is_narrow(module, right, depth - 1)
            case ast.Call():
                return self._is_made_narrow(module, value, depth)
        return False

    def _is_narrow_name(self, module: ModuleIndex, name: ast.Name, depth: int) -> bool:
        bound = _bound(module, name)
        return bool(bound) and all(
            one.kind is BindingKind.ASSIGN
            and one.value is not None
            and (
                self._is_narrow(module, one.value, depth - 1)
                if not one.path
                else isinstance(one.value, ast.Call) and self._returns_narrow(module, one.value, depth, one.path)
            )
            for one in bound
        )

    def _is_made_narrow(self, module: ModuleIndex, call: ast.Call, depth: int) -> bool:
        name = last_name(call.func)
        if _is_shaped(call, turned=False) or _is_of_pixels(call):
            return True
        if name in _TURNS and isinstance(call.func, ast.Attribute):
            return _is_shaped(call.func.value, turned=True)
        if name in _JOINS and call.args:
            parts = call.args[0].elts if isinstance(call.args[0], ast.Tuple | ast.List) else [call.args[0]]
            return all(self._is_narrow(module, part, depth - 1) for part in parts)
        if name in _KEEPS and isinstance(call.func, ast.Attribute):
            return self._is_narrow(module, call.func.value, depth - 1)
        if name in _CONVERTS and call.args:
            return self._is_narrow(module, call.args[0], depth - 1)
        return self._returns_narrow(module, call, depth, ())

    def _returns_narrow(
        self, module: ModuleIndex, call: ast.Call, depth: int, path: tuple[int | str | None, ...]
    ) -> bool:
        """Return whether a function of the tree returns rows of few numbers, at a place of what it returns."""
        callees = self._resolver.callees(module, call)
        returned = [
            (callee.module, value)
            for callee in callees
            if isinstance(callee.node, ast.FunctionDef)
            for value in self._resolver.returns(callee.node)
        ]
        for step in path:
            taken = [
                (where, value.elts[step])
                for where, value in returned
                if isinstance(step, int) and isinstance(value, ast.Tuple) and step < len(value.elts)
            ]
            if len(taken) < len(returned):
                return False
            returned = taken
        return bool(returned) and all(self._is_narrow(where, value, depth - 1) for where, value in returned)


def _bound(module: ModuleIndex, value: ast.expr) -> list[Binding]:
    return [*reaching(module, module.scope(value).lookup(value.id), value)] if isinstance(value, ast.Name) else []


def _is_shaped(value: ast.expr, turned: bool) -> bool:
    """``rays.reshape(-1, 3)``, or ``pixels.view(3, -1)`` if it is ``turned`` then."""
    return 0 < _width(value, turned) <= _NARROW


def _width(value: ast.AST, turned: bool) -> int:
    """Return how many numbers a row has of what is shaped there; 0 where that is not seen."""
    if not isinstance(value, ast.Call) or last_name(value.func) not in _SHAPES:
        return 0
    method = isinstance(value.func, ast.Attribute) and last_name(value.func.value) not in ("np", "numpy", "torch")
    given = value.args if method else value.args[1:]
    sizes = given[0].elts if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List) else given
    numbers = [_number(size) for size in sizes]
    if turned:
        numbers.reverse()
    seen = len(numbers) > 1 and numbers[0] == -1 and all(one > 0 for one in numbers[1:])
    return math.prod(numbers[1:]) if seen else 0


def _is_of_pixels(call: ast.Call) -> bool:
    """``rearrange(image, "c h w -> (h w) c")``"""
    text = call.args[1] if last_name(call.func) == "rearrange" and len(call.args) > 1 else None
    return isinstance(text, ast.Constant) and isinstance(text.value, str) and bool(_PIXELS.search(text.value))


def _number(size: ast.expr) -> int:
    """A size that is written out; 0 for another."""
    match size:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return 0


def _is_own(value: ast.AST, name: str) -> bool:
    return isinstance(value, ast.Attribute) and value.attr == name and last_name(value.value) == "self"


def _stores(part: ast.Assign, name: str) -> bool:
    return any(_is_own(target, name) for target in part.targets)


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.List) and not value.elts


def _converts_itself(value: ast.expr, name: str) -> bool:
    """``self.rays = torch.tensor(self.rays.astype(np.float32))``"""
    while isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPS:
            value = value.func.value
        elif last_name(value.func) in _CONVERTS and value.args:
            value = value.args[0]
        else:
            return False
    return _is_own(value, name)


def _joins_itself(value: ast.expr, name: str) -> bool:
    """``self.rays = torch.cat(self.rays, 0)``"""
    return (
        isinstance(value, ast.Call)
        and last_name(value.func) in _JOINS
        and any(_is_own(part, name) for part in walk(value))
    )
