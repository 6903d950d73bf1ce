"""Data sets: whether there is work per sample that other processes could do."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.placement.dataset_parts import MAX_STEPS, SPLITS, made_from
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.inner_sets import sets_within, takes_from_base
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import Guards
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.workload.conversions import CHEAP
from gpulint.workload.library_sets import of_bases, of_library
from gpulint.workload.list_draws import draws, loops_around
from gpulint.workload.plain_samples import looks_up_as_made, only_looks_up
from gpulint.workload.taken_samples import inner_sets
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_TOY = regex.compile(
    r"mock|dummy|synthetic|fake|random(data|token|image)|toy|TensorDataset|TUDataset|Planetoid|KarateClub|^PPI(Dataset)?$",
    re.IGNORECASE,
)
"""Data sets that hold little, or make their samples from nothing."""
_LOADED = frozenset({"torch.load", "numpy.load", "pickle.load", "joblib.load"})
"""Functions that read a whole data set into memory."""
_MAKES_TENSOR = frozenset(
    f"torch.{name}"
    for name in "tensor as_tensor from_numpy stack cat zeros ones rand randn Tensor FloatTensor LongTensor".split()
)
"""What makes a tensor: as a data set, one whose samples are its rows."""
_LIST_OF_TENSORS = regex.compile(r"^(typing\.)?(List|list|Sequence)\[.*Tensor\b")
_RECEIVES = frozenset({"get", "get_nowait", "recv"})
_QUEUES = ("*multiprocessing.*Queue", "queue.*Queue", "*multiprocessing.Pipe")
_BUILDS = frozenset({"build", "create", "get", "load"})
"""Methods of builders, which are named after what they build."""
_LISTS = frozenset({"list", "sorted", "tuple"})
"""Built-ins whose result holds its items: as a data set, it has read all samples (``list(dataset)``)."""
_STACKS = frozenset(
    (
        "zip list tuple dict map range enumerate max min sum sorted append extend stack cat concat concatenate pad "
        "pad_sequence default_collate unsqueeze squeeze view reshape transpose permute size array asarray full "
        "zeros_like ones_like full_like arange bool BoolTensor copy_ contiguous cumsum type isinstance fill_ zero_ "
        "masked_fill_ new_zeros new_ones new_full new_tensor new_empty empty expand repeat format count index any all "
        "str bool get copy sort argsort"
    ).split()
)
"""What collate functions call that only put samples together."""
ARRANGES = CHEAP | _STACKS
"""Functions that take little time for each of the values that they put together."""
_MAX_HELPERS = 2
"""How many calls deep a collate function is looked at."""


def works_per_sample(project: Project, loader: Loader) -> bool:
    """Return whether there is anything to do per sample. Unknown data sets count as work."""
    if any(_is_refilled(project, source) for source in project.fact(HostToDevice).sources(loader)):
        return False
    if not (
        loader_argument(project, loader, "collate_fn").is_absent
        or project.fact(HostToDevice).only_regroups(loader)
        or _only_stacks(project, loader)
    ):
        return True
    if _collates(project, loader):
        return True
    return not any(_is_trivial(project, source) for source in project.fact(HostToDevice).sources(loader))


def _only_stacks(project: Project, loader: Loader) -> bool:
    """Return whether the functions that put samples together only arrange, pad and stack them."""
    functions = [
        function
        for ref in loader_argument(project, loader, "collate_fn").refs
        for made in project.fact(Resolver).points_to(ref.module, ref.node)
        for function in _called(project, made)
    ]
    return bool(functions) and all(_arranges(project, function, _MAX_HELPERS) for function in functions)


def _called(project: Project, made: NodeRef) -> list[NodeRef]:
    """Return what runs when a value is called: of an object its ``__call__``, of a ``partial`` its function."""
    resolver, call = project.fact(Resolver), made.node
    if not isinstance(call, ast.Call):
        return [made]
    if "functools.partial" in resolver.call_names(made.module, call) and call.args:
        return list(resolver.points_to(made.module, call.args[0]))
    methods = [resolver.method(*owner, "__call__") for owner in resolver.classes_of(made.module, call)]
    return [method for method in methods if method is not None] if all(methods) and methods else [made]


@query
def _arranges(project: Project, function: NodeRef, helpers: int, loops: int = 0) -> bool:
    """Return whether a function, called in some ``loops``, and the functions of the tree that it calls only arrange,
    pad and stack, or pick from a list once for each sample."""
    if not isinstance(function.node, (*FUNCTIONS, ast.Lambda)):
        return False
    for part in walk(function.node):
        if isinstance(part, ast.Call) and last_name(part.func) not in ARRANGES:
            around = loops + loops_around(function, part)
            if around <= 1 and draws(project, function.module, part):
                continue
            called = project.fact(Resolver).callees(function.module, part) if helpers else []
            if not called or not all(_arranges(project, one, helpers - 1, around) for one in called):
                return False
    return True


def divides_stream(project: Project, data_set: NodeRef) -> bool:
    """Return whether the class of a stream, or a base of it in the tree, gives each worker a part
    (``get_worker_info``)."""
    assert isinstance(data_set.node, ast.ClassDef)
    return any(
        isinstance(part, ast.Attribute | ast.Name) and last_name(part) == "get_worker_info"
        for _, owner in project.fact(Resolver).mro(data_set.module, data_set.node)
        for part in walk(owner)
    )


def _collates(project: Project, loader: Loader) -> bool:
    """Return whether a loader class of the tree sets its ``collate_fn`` itself."""
    return any(
        isinstance(part, ast.Attribute) and part.attr == "collate_fn" and isinstance(part.ctx, ast.Store)
        for made in project.fact(Resolver).points_to(loader.module, loader.node.func)
        if isinstance(made.node, ast.ClassDef)
        for part in walk(made.node)
    )


def _is_trivial(project: Project, source: NodeRef, inner: bool = False) -> bool:
    """Return whether the data set, or the one that it is a part of, is a toy or a plain look-up in memory; of an
    ``inner`` one, whatever it takes its samples from."""
    todo, seen = [source], set[ast.AST]()
    resolver = project.fact(Resolver)
    while todo and len(seen) < MAX_STEPS:
        where = todo.pop()
        node = where.node
        if node in seen or not isinstance(node, ast.expr):
            continue
        seen.add(node)
        if isinstance(node, ast.ListComp | ast.List) or (isinstance(node, ast.Call) and _is_toy(node)):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LISTS:
            return True
        if isinstance(node, ast.Call) and resolver.call_names(where.module, node) & (_LOADED | _MAKES_TENSOR):
            return True
        if _is_received(project, where):
            return True
        owners = _classes_of(project, where)  # several where an option chooses one
        if owners and all(looks_up_as_made(project, owner, where) for owner in owners):
            return inner or not _takes_from_working(project, where)
        if isinstance(node, ast.Call) and _inherits_toy(project, where):
            return True
        todo += _by_default(project, [ref for ref in resolver.points_to(where.module, node) if not ref.path])
        if isinstance(node, ast.Name):
            if _is_list_of_tensors(where, node):
                return True
            bindings = reaching(where.module, where.module.scope(node).lookup(node.id), node)
            values = (binding.value for binding in bindings if not binding.path)
            todo += _by_default(project, [NodeRef(where.module, value) for value in values if value is not None])
        if isinstance(node, ast.Subscript):
            todo.append(NodeRef(where.module, node.value))
        elif isinstance(node, ast.Call) and last_name(node.func) in SPLITS:
            todo += [NodeRef(where.module, argument) for argument in node.args[:1]]
            todo += [NodeRef(where.module, node.func.value)] if isinstance(node.func, ast.Attribute) else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _BUILDS:
            todo.append(NodeRef(where.module, node.func.value))
    return False


def _takes_from_working(project: Project, source: NodeRef) -> bool:
    """Return whether a data set takes its samples from one that is known to work for them, directly or through
    others."""
    return any(
        bool(of_library(project, inner))
        or (_has_getter(project, inner) and not _is_trivial(project, inner, inner=True))
        for made in made_from(project, [source])
        for inner in inner_sets(project, made)
    ) or any(
        takes_from_base(project, owner) and bool(of_bases(project, owner)) for owner in _classes_of(project, source)
    )


def _has_getter(project: Project, source: NodeRef) -> bool:
    method = project.fact(Resolver).method
    return any(
        isinstance(owner.node, ast.ClassDef) and method(owner.module, owner.node, "__getitem__") is not None
        for owner in _classes_of(project, source)
    )


def _is_received(project: Project, source: NodeRef) -> bool:
    """Return whether another process or thread makes the data set and sends it (``dataset = queue.get()``): its work is
    done by then."""
    match source.node:
        case ast.Call(func=ast.Attribute(value=queue, attr=takes)) if takes in _RECEIVES:
            resolver = project.fact(Resolver)
            return any(
                isinstance(made.node, ast.Call) and matches(_QUEUES, resolver.call_names(made.module, made.node))
                for made in resolver.points_to(source.module, queue)
            )
    return False


def parts_of(project: Project, loader: Loader) -> list[NodeRef]:
    """The expressions that make the data sets of a loader, without what takes a part of them or puts several
    together."""
    return made_from(project, project.fact(HostToDevice).sources(loader))


def sets_of(project: Project, loader: Loader) -> list[NodeRef]:
    """The expressions that make the data sets of a loader, as ``parts_of``, and those that their samples are taken
    from."""
    return sets_within(project, parts_of(project, loader))


def _by_default(project: Project, values: list[NodeRef]) -> list[NodeRef]:
    """Of several values those that need no option which is off by default (``if args.one_sample:``)."""
    if len(values) < 2:
        return values
    guards = project.fact(Guards)
    return [ref for ref in values if not guards.is_off_by_default(ref.module, ref.node)] or values


def _is_list_of_tensors(where: NodeRef, name: ast.Name) -> bool:
    """Return whether an annotation says that the samples are tensors in a list (``crops: list[dict[str,
    torch.Tensor]]``)."""
    for binding in where.module.scope(name).lookup(name.id):
        for node in (binding.node, where.module.syntax.parents.get(binding.node)):
            annotation = getattr(node, "annotation", None)
            if annotation is not None and _LIST_OF_TENSORS.match(ast.unparse(annotation)):
                return True
    return False


def _is_refilled(project: Project, source: NodeRef) -> bool:
    """Return whether the data set is a store of what the program makes itself, which one method adds to and another
    empties."""
    return any(_empties_and_fills(project, owner) for owner in _classes_of(project, source))


@query
def _empties_and_fills(project: Project, dataset: NodeRef) -> bool:
    if not only_looks_up(project, dataset):
        return False
    assert isinstance(dataset.node, ast.ClassDef)
    getter = project.fact(Resolver).method(dataset.module, dataset.node, "__getitem__")
    assert getter is not None
    methods = [part for part in dataset.node.body if isinstance(part, FUNCTIONS) and part.name != "__init__"]
    for read in {ast.unparse(node.value) for node in walk(getter.node) if isinstance(node, ast.Subscript)}:
        changes = [(_adds_to(method, read), _empties(method, read)) for method in methods]
        if (True, False) in changes and (False, True) in changes:
            return True
    return False


def _adds_to(method: FunctionNode, name: str) -> bool:
    for node in walk(method):
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == name:
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (f"{name}.append", f"{name}.extend"):
            return True
    return False


def _empties(method: FunctionNode, name: str) -> bool:
    for node in walk(method):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List) and not node.value.elts:
            if name in map(ast.unparse, node.targets):
                return True
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == f"{name}.clear":
            return True
    return False


def _is_toy(call: ast.Call) -> bool:
    return any(_TOY.search(last_name(named)) for named in (call.func, *call.args[:1]))


def _inherits_toy(project: Project, source: NodeRef) -> bool:
    """Return whether it is a ``TensorDataset`` by another name, which gives out its samples as they are."""
    assert isinstance(source.node, ast.expr)
    return any(
        project.fact(Resolver).method(where, owner, "__getitem__") is None
        and any(_TOY.search(base.rpartition(".")[2]) for base in project.fact(Resolver).base_names(where, owner))
        for where, owner in project.fact(Resolver).classes_of(source.module, source.node)
    )


def _classes_of(project: Project, source: NodeRef) -> list[NodeRef]:
    assert isinstance(source.node, ast.expr)
    return [NodeRef(*found) for found in project.fact(Resolver).classes_of(source.module, source.node)]
