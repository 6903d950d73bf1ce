"""How many samples a data set holds, where the code counts them: ``TensorDataset(torch.randn(1000, 3))``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value, passed_as
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.values.constants import Constants
from gpulint.workload.filled_lists import appended, is_empty_list, is_grown, rounds, written_items
from gpulint.workload.folder_samples import files_below, files_of
from gpulint.workload.listed_samples import lines_of
from gpulint.workload.part_counts import length_of, of_index, of_loop, of_part, of_rows
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, BindingKind, NodeRef, last_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex

_SIZED = frozenset("randn rand zeros ones empty full randint normal random standard_normal".split())
"""Functions that make an array of a given shape."""
_DRAWN = {"sample": "k", "choices": "k", "choice": "size"}
"""Functions that draw some items, with the parameter for how many."""
_SAME_LENGTH = frozenset(
    "tolist astype copy numpy reset_index sort_values sort_index to_numpy to_list dropna drop_duplicates".split()
)
"""Methods that leave as many items, or fewer."""
_COUNTED = frozenset({"range", "arange"})
_LOADS = frozenset({"torch.load", "numpy.load", "pickle.load", "joblib.load"})
_MODULES = frozenset({"torch", "np", "numpy", "jnp", "random"})
_HELD = ("samples", "imgs", "data", "images", "indices")
"""Attributes of data sets that hold their samples."""
MAX_DEPTH = 8
"""Most expressions that lead from a data set to the numbers that it holds."""

FEW_BATCHES = 2
FEW_SAMPLES = 16
"""So many samples take less time than starting workers for them, whatever they are."""


@query
def is_one_batch(project: Project, loader: Loader, batches: int = 1) -> bool:
    """Return whether a loader gives out all samples of its data set at once (or in so many batches), as far as literals
    and defaults tell."""
    argument = loader_argument(project, loader, "batch_size")
    if argument.refs and not argument.unknown and all(_is_whole(loader, ref) for ref in argument.refs):
        return True
    sizes = [project.fact(Constants).of(ref.module, ref.node) for ref in argument.refs]
    counts = [_samples(project, source, MAX_DEPTH) for source in _data_sets(project, loader)]
    if not sizes or not counts or argument.unknown or not all(counts):
        return False
    most = max(max(count) for count in counts)
    return all(size.every(lambda value: isinstance(value, int) and value * batches >= most) for size in sizes)


def _is_whole(loader: Loader, size: NodeRef) -> bool:
    """``DataLoader(rows, batch_size=len(rows))``"""
    match size.node:
        case ast.Call(func=ast.Name(id="len"), args=[counted]) if size.module is loader.module and loader.node.args:
            return ast.unparse(counted) == ast.unparse(loader.node.args[0])
    return False


def has_few_batches(project: Project, loader: Loader) -> bool:
    """Return whether a loader has one or two batches, so that workers have nothing to prepare while others compute."""
    return is_one_batch(project, loader, FEW_BATCHES)


def has_few_samples(project: Project, loader: Loader) -> bool:
    """Return whether a data set holds no more than a handful of samples."""
    return 0 < most_samples(project, loader) <= FEW_SAMPLES


def is_written_out(project: Project, loader: Loader) -> bool:
    """Return whether a data set is a list of a handful of samples in the program, such as texts that show what a model
    does."""
    origins = project.fact(Resolver).points_to
    made = [ref.node for one in _data_sets(project, loader) for ref in origins(one.module, one.node)]
    return all(isinstance(node, ast.List | ast.Tuple) for node in made) and has_few_samples(project, loader)


def most_samples(project: Project, loader: Loader) -> int:
    """Return the most samples that the data set of a loader holds; 0 if the code does not tell."""
    counts = [_samples(project, source, MAX_DEPTH) for source in _data_sets(project, loader)]
    return max((max(count) for count in counts), default=0) if all(counts) else 0


def _data_sets(project: Project, loader: Loader) -> list[NodeRef]:
    if loader.node.args and not isinstance(loader.node.args[0], ast.Starred):
        return [NodeRef(loader.module, loader.node.args[0])]
    return [ref for ref in loader_argument(project, loader, "dataset").refs if isinstance(ref.node, ast.expr)]


def _samples(project: Project, source: NodeRef, depth: int) -> tuple[int, ...]:
    """Return the most samples that an expression may hold, in each case; none if one of them is unknown."""
    if isinstance(source.node, ast.Name) and (cut := _cut(project, source.module, source.node)):
        return cut
    found: list[int] = []
    origins = project.fact(Resolver).points_to(source.module, source.node)
    guards = project.fact(Guards)
    usual = [made for made in origins if not guards.is_off_by_default(made.module, made.node)]  # no other file is given
    fresh = [made for made in usual or origins if not _is_loaded(project, made)]
    if origins and all(not made.path and is_empty_list(made.node) for made in origins):
        return appended(project, source)
    for made in fresh or origins:  # what a program loads or else makes and saves is the same
        counts = _of_value(project, made, depth) if depth > 0 else ()
        if not counts:
            return ()
        found += counts
    return tuple(found)


def _cut(project: Project, module: ModuleIndex, name: ast.Name) -> tuple[int, ...]:
    """Return how many samples a program leaves in a data set that it has made, on every way to a use of it
    (``photos.samples = photos.samples[:64]``)."""
    for key in _HELD:
        for target, value, _ in module.stored_under(name.id, key):
            match value:
                case ast.Subscript(value=held, slice=ast.Slice(lower=None, upper=ast.expr() as upper, step=None)):
                    function = module.function(target)
                    own = ast.unparse(held) == ast.unparse(target) and function is module.function(name)
                    if own and not project.fact(Guards).is_conditional(module, target):
                        return _numbers(project, NodeRef(module, upper))
    return ()


def _is_loaded(project: Project, made: NodeRef) -> bool:
    """``torch.load("train.pt")``"""
    return isinstance(made.node, ast.Call) and bool(project.fact(Resolver).call_names(made.module, made.node) & _LOADS)


def _of_value(project: Project, made: NodeRef, depth: int) -> tuple[int, ...]:
    def count(part: NodeRef) -> tuple[int, ...]:
        return _samples(project, part, depth - 1)

    if made.path:
        return of_part(project, made, count)
    if found := files_of(project, made) or lines_of(project, made):
        return (found,)
    match made.node:
        case ast.Call() as call:
            return _of_call(project, made, call, depth)
        case ast.Subscript(slice=ast.Slice(lower=None, upper=ast.expr() as upper, step=None)):
            return _numbers(project, NodeRef(made.module, upper))
        case ast.Subscript() | ast.ListComp():
            return of_index(project, made, count)
        case ast.Name():
            return of_loop(project, made, count)
        case ast.List():
            return (items,) if (items := written_items(made)) else ()
    return ()


def _of_call(project: Project, made: NodeRef, call: ast.Call, depth: int) -> tuple[int, ...]:
    name, first = last_name(call.func), call.args[0] if call.args else None
    if name == "Subset" and len(call.args) > 1:
        return _samples(project, NodeRef(made.module, call.args[1]), depth - 1)
    if name in _SAME_LENGTH and isinstance(call.func, ast.Attribute) and last_name(call.func.value) not in _MODULES:
        return _samples(project, NodeRef(made.module, call.func.value), depth - 1)
    if name == "list" and first is not None:
        return _samples(project, NodeRef(made.module, first), depth - 1)
    if name == "TensorDataset" and first is not None:
        return _samples(project, NodeRef(made.module, first), depth - 1)
    if name in _DRAWN and isinstance(call.func, ast.Attribute) and last_name(call.func.value) in _MODULES:
        drawn = passed_as(call, _DRAWN[name], 1)
        return _numbers(project, NodeRef(made.module, drawn)) if drawn is not None else ()
    if (taken := of_rows(call)) is not None:
        return _numbers(project, NodeRef(made.module, taken))
    if name in _COUNTED and first is not None and (rows := length_of(first)) is not None:
        return _samples(project, NodeRef(made.module, rows), depth - 1)
    if name in _COUNTED and first is not None and len(call.args) == 1:
        return _numbers(project, NodeRef(made.module, first))
    if name in _SIZED and isinstance(call.func, ast.Attribute) and last_name(call.func.value) in _MODULES:
        return _numbers(project, NodeRef(made.module, shape)) if (shape := _length(call)) is not None else ()
    place, classes = NodeRef(made.module, call), project.fact(Resolver).classes_of(made.module, call)
    lengths = [_length_of(project, *found, place, depth) for found in classes]
    return tuple(count for counts in lengths for count in counts) if lengths and all(lengths) else ()


def _length(call: ast.Call) -> ast.expr | None:
    """Return the first number of the shape of what a call makes (``torch.zeros((8, 3))``)."""
    shape = next((found for name in ("size", "shape") if (found := keyword_value(call, name)) is not None), None)
    if shape is None and last_name(call.func) in ("randint", "normal"):
        shape = call.args[2] if len(call.args) > 2 else None
    elif shape is None:
        shape = call.args[0] if call.args else None
    if isinstance(shape, ast.Tuple | ast.List):
        shape = shape.elts[0] if shape.elts else None
    return shape


def _length_of(
    project: Project, module: ModuleIndex, owner: ast.ClassDef, made: NodeRef, depth: int
) -> tuple[int, ...]:
    """Return what a class says with ``__len__``, or ``len`` as a data set of PyTorch Geometric."""
    methods = (project.fact(Resolver).method(module, owner, name) for name in ("__len__", "len"))
    found = next((method for method in methods if method is not None), None)
    if found is None or not isinstance(found.node, FUNCTIONS):
        return ()
    match found.node.body[-1]:
        case ast.Return(value=ast.Call(func=ast.Name(id="len"), args=[held])):
            if limit := _limit(found.module, owner, held):
                return _numbers(project, NodeRef(found.module, limit))
            grown = is_grown(found.module, held)
            if not grown and (listed := _listed(project, found.module, owner, held, made)):
                return (listed,)
            counts = () if grown else _samples(project, NodeRef(found.module, held), depth - 1)
            return counts or _filled(project, found.module, owner, held, made)
        case ast.Return(value=ast.expr() as value):
            return _numbers(project, NodeRef(found.module, value))
    return ()


def _filled(
    project: Project, module: ModuleIndex, owner: ast.ClassDef, held: ast.expr, made: NodeRef
) -> tuple[int, ...]:
    """Return how many samples a class puts into a list, one in each round of loops that are counted (``for _ in
    range(num_samples): self.rows.append(make())``), perhaps before it keeps the list."""
    kept = module.attributes.get((owner, held.attr), ()) if isinstance(held, ast.Attribute) else ()
    values = [one.value for one in kept if one.value is not None]
    if len(values) != 1 or not all(
        is_empty_list(one.node) for one in project.fact(Resolver).points_to(module, values[0])
    ):
        return ()
    text, total = ast.unparse(values[0] if isinstance(values[0], ast.Name) else held), 0
    for call in (part for part in walk(owner) if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)):
        assert isinstance(call.func, ast.Attribute)
        if ast.unparse(call.func.value) != text:
            continue
        around = [up for up in module.syntax.ancestors(call) if isinstance(up, LOOPS)]
        files = files_below(project, around, module, lambda ref: _given(ref, made)) or _lines(
            project, module, around, made
        )
        if files and call.func.attr == "append":
            total += files
            continue
        count = rounds(around[0], text) if len(around) == 1 and call.func.attr == "append" else None
        counts = _numbers(project, _given(NodeRef(module, count), made)) if count is not None else ()
        if not counts:
            return ()
        total += max(counts)
    return (total,) if total else ()


def _lines(project: Project, module: ModuleIndex, loops: Sequence[ast.stmt], made: NodeRef) -> int | None:
    """Return how many lines of a file one loop goes over."""
    match loops:
        case [ast.For(iter=source)]:
            return lines_of(project, NodeRef(module, source), lambda ref: _given(ref, made))
    return None


def _listed(project: Project, module: ModuleIndex, owner: ast.ClassDef, held: ast.expr, made: NodeRef) -> int:
    """Return how many files a class lists of the folder that it is given."""
    kept = module.attributes.get((owner, held.attr), ()) if isinstance(held, ast.Attribute) else ()
    values = [one.value for one in kept]
    if len(values) != 1 or values[0] is None:
        return 0
    listing = NodeRef(module, values[0])
    return (
        files_of(project, listing, lambda ref: _given(ref, made))
        or lines_of(project, listing, lambda ref: _given(ref, made))
        or 0
    )


def _given(ref: NodeRef, made: NodeRef) -> NodeRef:
    """Return what a call that makes an object passes for a parameter of ``__init__``, else the value itself."""
    module, value = ref.module, ref.node
    function, call = module.function(value), made.node
    if not isinstance(value, ast.Name) or not isinstance(call, ast.Call) or function is None:
        return ref
    bindings = module.scope(value).lookup(value.id)
    if function.name != "__init__" or [one.kind for one in bindings] != [BindingKind.PARAMETER]:
        return ref
    passed = argument_of(function, call, value.id)
    if passed is not None:
        return NodeRef(made.module, passed)
    return NodeRef(module, _default(function, value.id) or value)


def _default(function: FunctionNode, name: str) -> ast.expr | None:
    given = function.args
    pairs = [
        *zip(reversed([*given.posonlyargs, *given.args]), reversed(given.defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    return next((default for parameter, default in pairs if parameter.arg == name), None)


def _limit(module: ModuleIndex, owner: ast.ClassDef, held: ast.expr) -> ast.expr | None:
    """Return the most samples that a class is told to hold: ``self.rows = rows[:limit] if limit is not None else
    rows``."""
    kept = module.attributes.get((owner, held.attr), ()) if isinstance(held, ast.Attribute) else ()
    match [one.value for one in kept]:
        case [
            ast.IfExp(
                test=ast.Name() | ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]) as test,
                body=ast.Subscript(slice=ast.Slice(lower=None, upper=ast.Name() as limit, step=None)),
            )
        ] if last_name(test.left if isinstance(test, ast.Compare) else test) == limit.id:
            return limit
    return None


def _numbers(project: Project, ref: NodeRef) -> tuple[int, ...]:
    match ref.node:
        case ast.Call(func=ast.Name(id="min"), args=[_, _, *_] as limits):
            known = [found for one in limits if (found := _numbers(project, NodeRef(ref.module, one)))]
            return min(known, key=max, default=())
    constants = project.fact(Constants).of(ref.module, ref.node)
    whole = [value for value in constants.constants if type(value) is int and value >= 0]  # not all but the last 100
    return tuple(whole) if constants.complete and len(whole) == len(constants.constants) else ()
