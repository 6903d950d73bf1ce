"""How many samples the parts of a data set hold that a split or an index takes from it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value, passed_as
from gpulint.libraries.names import matches
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, NodeRef, last_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpulint.libraries import Models
    from gpulint.libraries.samples import SampleSet
    from gpulint.project import Project

    Count = Callable[[NodeRef], tuple[int, ...]]
    """The most samples that an expression may hold, in each case; none if one of them is unknown."""

_FOLDS = frozenset({"KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold"})
_USUAL_FOLDS = 5
_AS_LONG = frozenset({"range", "arange", "zeros", "ones", "array", "asarray", "list", "tensor"})
_OF_EACH = frozenset({"targets", "labels", "data"})
MAX_STEPS = 4
"""Most expressions that lead from what is split to a data set."""
_LISTS = frozenset({"list", "tuple", "enumerate", "tqdm"})


def of_part(project: Project, made: NodeRef, count: Count) -> tuple[int, ...]:
    """Return the most samples that one of several results of a call holds: of ``random_split(data, [500, rest])``,
    ``train_test_split(rows, test_size=100)``, ``next(folds.split(rows))``."""
    match made.node:
        case ast.Call(func=func, args=[whole, *others]) if last_name(func) == "random_split":
            length = _element(others[0], made.path[0]) if others and len(made.path) == 1 else None
            return _stated(project, made, length) or count(NodeRef(made.module, whole))
        case ast.Call(func=func, args=[whole, *_]) as call if last_name(func) == "train_test_split":
            size = keyword_value(call, "test_size" if made.path[0] % 2 else "train_size")
            return _stated(project, made, size) or count(NodeRef(made.module, whole))
    return _of_fold(project, made, count)


def of_index(project: Project, made: NodeRef, count: Count) -> tuple[int, ...]:
    """Return the most samples that an index leaves: ``rows[chosen]``, where an array of numbers chooses them,
    ``[rows[i] for i in chosen]``, and ``folds[0][1]``."""
    match made.node:
        case ast.Subscript(value=folds, slice=ast.Constant(value=int(place))) if place >= 0:
            for origin in project.fact(Resolver).points_to(made.module, folds):
                if found := _of_fold(project, NodeRef(origin.module, origin.node, (*origin.path, place)), count):
                    return found
            return ()
        case ast.Subscript(slice=ast.Name() | ast.Attribute() | ast.Call() as chosen):
            return count(NodeRef(made.module, chosen))
        case ast.ListComp(generators=[one]):
            return count(NodeRef(made.module, one.iter))
    return ()


def length_of(node: ast.expr) -> ast.expr | None:
    """``rows`` of ``len(rows)``"""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[rows]):
            return rows
    return None


def of_rows(call: ast.Call) -> ast.expr | None:
    """Return how many rows of a table a call takes: ``rows.sample(n=500)``, ``rows.head(500)``."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("sample", "head", "tail"):
        return None
    return passed_as(call, "n", 0)


def _element(lengths: ast.expr, place: int) -> ast.expr | None:
    return lengths.elts[place] if isinstance(lengths, ast.List | ast.Tuple) and place < len(lengths.elts) else None


def _stated(project: Project, made: NodeRef, size: ast.expr | None) -> tuple[int, ...]:
    """Return the number of samples of a part, if it is stated as such."""
    if size is None:
        return ()
    known = project.fact(Constants).of(made.module, size)
    whole = [value for value in known.constants if isinstance(value, int) and not isinstance(value, bool)]
    return tuple(whole) if known.complete and len(whole) == len(known.constants) else ()


def _of_fold(project: Project, made: NodeRef, count: Count) -> tuple[int, ...]:
    """Return the samples of one part of a fold: ``folds.split(rows)`` gives two for each, of which the second one has
    a share of ``1 / n_splits``."""
    match made.node, made.path:
        case ast.Subscript(value=folds, slice=chosen), (place,) if not isinstance(chosen, ast.Slice):
            origins = project.fact(Resolver).points_to(made.module, folds)
        case ast.Call(func=ast.Name(id="next"), args=[folds, *_]), (place,):
            origins = project.fact(Resolver).points_to(made.module, folds)
        case _:
            return ()
    found = [_share(project, origin, place, count) for origin in origins]
    return tuple(number for numbers in found for number in numbers) if found and all(found) else ()


def of_loop(project: Project, name: NodeRef, count: Count) -> tuple[int, ...]:
    """Return the samples of a variable of ``for fold, (train, test) in enumerate(folds.split(rows))``."""
    bindings = name.module.scope(name.node).lookup(name.node.id) if isinstance(name.node, ast.Name) else ()
    found = list[tuple[int, ...]]()
    for one in bindings:
        if one.kind is not BindingKind.LOOP or one.value is None or not one.path:
            return ()
        for origin in project.fact(Resolver).points_to(name.module, one.value):
            found.append(_share(project, origin, one.path[-1], count))
    return tuple(number for numbers in found for number in numbers) if found and all(found) else ()


def _share(project: Project, folds: NodeRef, place: int, count: Count) -> tuple[int, ...]:
    call = folds.node
    while isinstance(call, ast.Call) and last_name(call.func) in _LISTS and call.args:
        call = call.args[0]
    match call:
        case ast.Call(func=ast.Attribute(value=splitter, attr="split"), args=[rows, *_]):
            made = project.fact(Resolver).points_to(folds.module, splitter)
        case _:
            return ()
    whole = _whole(project, NodeRef(folds.module, rows), count)
    parts = [_folds(project, one) for one in made]
    if not whole or not parts or not all(parts):
        return ()
    most, fewest = max(whole), min(parts)
    return (-(-most // fewest) if place == 1 else most,)


def _folds(project: Project, splitter: NodeRef) -> int:
    """Return the number of parts that a splitter makes, the least; 0 if it is unknown."""
    call = splitter.node
    if not isinstance(call, ast.Call) or last_name(call.func) not in _FOLDS:
        return 0
    parts = passed_as(call, "n_splits", 0)
    numbers = _stated(project, splitter, parts)
    return min(numbers, default=0) if parts is not None else _USUAL_FOLDS


def _whole(project: Project, rows: NodeRef, count: Count) -> tuple[int, ...]:
    """Return the most samples of what is split, or of the known data set whose length, numbers or labels it has."""
    return count(rows) or _known(project, rows, MAX_STEPS)


def _known(project: Project, rows: NodeRef, steps: int) -> tuple[int, ...]:
    found, resolver = list[int](), project.fact(Resolver)
    for origin in resolver.points_to(rows.module, rows.node):
        names = resolver.call_names(origin.module, origin.node) if isinstance(origin.node, ast.Call) else ()
        sizes = [size for patterns, size in project.models.derived(_sized) if matches(patterns, names)]
        inner = _inner(origin.node)
        if not sizes and steps and inner is not None:
            sizes = [*_known(project, NodeRef(origin.module, inner), steps - 1)]
        if not sizes:
            return ()
        found += sizes
    return tuple(found)


def _inner(node: ast.AST) -> ast.expr | None:
    """Return what has as many items as an expression: ``data`` of ``np.arange(len(data))``, of ``data.targets``."""
    match node:
        case ast.Call(func=func, args=[inner, *_]) if last_name(func) in _AS_LONG:
            return length_of(inner) or inner
        case ast.Attribute(value=inner, attr=name) if name in _OF_EACH:
            return inner
    return None


def _sized(models: Models) -> tuple[tuple[tuple[str, ...], int], ...]:
    rows: tuple[SampleSet, ...] = models.rows("sample-set")
    return tuple((row.classes, row.samples) for row in rows if row.samples)
