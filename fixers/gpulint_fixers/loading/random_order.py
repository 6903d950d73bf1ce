"""Whether a loader draws its samples in another order in each epoch, which workers change by the numbers they take."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.placement.inner_sets import classes_of, methods_of_samples
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.values.constants import Constants
from gpulint.workload.changed_parts import makers_of
from gpulint.workload.conversions import CHAINS, draws_nothing
from gpulint.workload.dataset_work import parts_of, sets_of
from gpulint.workload.library_sets import MEMORY, kinds_of
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name
from gpulint_fixers.loading.loader_lifetimes import serves_one_pass

_ORDERS = ("sampler", "batch_sampler")
OTHER_ORDER = "later epochs are shuffled differently"
_OF_EPOCH = regex.compile(r"Distributed|^SequentialSampler$")
"""Samplers that shuffle by the number of the epoch, or not at all."""
_DRAWS = regex.compile(
    r"rand|perm(?!ute\b)|shuffle|choice|(?<!re)(?<!up)(?<!down)sample(?!s$)|normal(?!i[sz])|uniform|multinomial|bernoulli"
    r"|poisson|noise|aug|transform|tfm|crop|flip|jitter|drop_?out|blur|rotate|mask|mix_?up|corrupt|perturb",
    re.IGNORECASE,
)
"""Names of what may draw random numbers."""
_INNER = regex.compile(r"data_?sets?$|(^|_)(ds|base|source|inner|wrapped)$", re.IGNORECASE)
"""Names of a data set from which another one takes its samples."""
_STORED = regex.compile(r"torchvision\.datasets\.(?!(\w+\.)*FakeData$)")
"""Data sets whose samples are files, but for their transforms."""
_PLACES = frozenset({"root", "train", "split", "download"})
"""Arguments of these that say which files."""
_MAX_WRAPPED = 3
_HELPERS = 2


def shuffles_again(project: Project, loader: Loader) -> bool:
    """Return whether a loader may shuffle its samples for more than one pass with the random state of the program: not
    with ``shuffle=False``, or without that, unless it has a sampler, and not with one that has a state of its own or
    goes by the number of the epoch."""
    return _shuffles(project, loader) and not serves_one_pass(project, loader)


def _shuffles(project: Project, loader: Loader) -> bool:
    samplers = [ref for name in _ORDERS for ref in loader_argument(project, loader, name).refs]
    made = [origin for ref in samplers for origin in _origins(project, ref)]
    own = [origin for origin in made if not _is_none(origin)]
    is_unknown = any(not loader_argument(project, loader, name).is_absent for name in _ORDERS) or any(
        keyword.arg is None for keyword in loader.node.keywords
    )
    if not samplers and is_unknown:
        return True
    if not all(_keeps_order(project, origin, _MAX_WRAPPED) for origin in own):
        return True
    if own and len(own) == len(made):
        return False
    shuffle = loader_argument(project, loader, "shuffle")  # without a sampler
    known = [project.fact(Constants).of(ref.module, ref.node) for ref in shuffle.refs]
    in_order = shuffle.is_absent or (bool(known) and all(one.every(lambda value: not value) for one in known))
    return not in_order


def _origins(project: Project, ref: NodeRef) -> list[NodeRef]:
    """Return what an argument may be; itself where nothing says that."""
    return [*project.fact(Resolver).points_to(ref.module, ref.node)] or [ref]


def _is_none(ref: NodeRef) -> bool:
    return isinstance(ref.node, ast.Constant) and ref.node.value is None


def _keeps_order(project: Project, sampler: NodeRef, depth: int) -> bool:
    """Return whether the order of a sampler is the same whatever else draws from the random state of the program."""
    call, resolver = sampler.node, project.fact(Resolver)
    if not isinstance(call, ast.Call) or not depth:
        return False
    if isinstance(generator := keyword_value(call, "generator"), ast.expr) and not _is_none(
        NodeRef(sampler.module, generator)
    ):
        return True
    if last_name(call.func) == "BatchSampler" and call.args:
        inner = _origins(project, NodeRef(sampler.module, call.args[0]))
        return all(_keeps_order(project, one, depth - 1) for one in inner)
    classes = resolver.classes_of(sampler.module, call)
    if not classes:
        return _OF_EPOCH.search(last_name(call.func)) is not None
    return all(
        resolver.method(*owner, "set_epoch") is not None
        or any(_OF_EPOCH.search(name.rpartition(".")[2]) for name in resolver.base_names(*owner))
        for owner in classes
    )


@query
def may_draw(project: Project, loader: Loader) -> bool:
    """Return whether the samples or batches of a loader may be made with random numbers: unless all that makes them is
    in the tree, and calls nothing of a name that tells of it, nor an object that the data set holds."""
    if not _is_of_tree(project, loader):
        return not _is_read_as_stored(project, loader)
    lambdas = [one for one in _collates(project, loader) if isinstance(one.node, ast.Lambda)]
    inner = _inner_makers(project, loader)
    if inner is None:
        return True
    todo, seen = [(one, _HELPERS) for one in (*makers_of(project, loader), *inner, *lambdas)], set[ast.AST]()
    while todo:
        maker, depth = todo.pop()
        if maker.node in seen:
            continue
        seen.add(maker.node)
        for part in walk(maker.node):
            if isinstance(part, ast.Subscript) and _is_inner(part):
                return True
            if not isinstance(part, ast.Call) or draws_nothing(project, NodeRef(maker.module, part.func)):
                continue
            called = project.fact(Resolver).callees(maker.module, part)
            is_unknown = not depth if called else _is_held(part.func) or _is_transform(project, maker.module, part.func)
            if is_unknown or (not _is_named(part, called) and any(map(_DRAWS.search, _spelled(part.func)))):
                return True
            todo += [(one, depth - 1) for one in called]
    return False


def _inner_makers(project: Project, loader: Loader) -> list[NodeRef] | None:
    """Return the methods of the tree that make the samples which the data sets of a loader take from others; None if a
    library may draw random numbers for them."""
    own, found = {one.node for one in parts_of(project, loader)}, list[NodeRef]()
    for part in sets_of(project, loader):
        if part.node in own or not isinstance(part.node, ast.Call):
            continue
        owners = [NodeRef(*owner) for owner in classes_of(project, [part])]
        methods = [method for owner in owners for method in methods_of_samples(project, owner)]
        if not methods and not (_reads(project, part.module, part.node) or _holds_rows(project, part)):
            return None
        found += methods
    return found


def _holds_rows(project: Project, made: NodeRef) -> bool:
    """``TensorDataset(images, labels)``, ``load_dataset(name)``, and no data set that may have transforms"""
    assert isinstance(made.node, ast.Call)
    names = project.fact(Resolver).call_names(made.module, made.node)
    return kinds_of(project, names) == {MEMORY} and not any(map(_STORED.match, names))


def _is_named(call: ast.Call, called: Sequence[NodeRef]) -> bool:
    """Return whether a call names the functions or methods that it runs, so that their code tells what they draw."""
    names = {one.node.name for one in called if isinstance(one.node, FUNCTIONS)}
    return bool(called) and names == {last_name(call.func)}


def _is_read_as_stored(project: Project, loader: Loader) -> bool:
    """Return whether data sets of torchvision read all samples, with transforms that take no random numbers, and
    PyTorch puts them together."""
    sources = parts_of(project, loader)
    return (
        bool(sources)
        and loader_argument(project, loader, "collate_fn").is_absent
        and all(isinstance(one.node, ast.Call) and _reads(project, one.module, one.node) for one in sources)
    )


def _reads(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    if not any(map(_STORED.match, project.fact(Resolver).call_names(module, made))):
        return False
    given = [*made.args[1:], *(word.value for word in made.keywords if word.arg not in _PLACES)]
    return all(isinstance(one, ast.Constant) or draws_nothing(project, NodeRef(module, one)) for one in given)


def _is_inner(item: ast.Subscript) -> bool:
    """``self.dataset[index]``, and not a column of a table (``self.dataset["path"][index]``)."""
    is_column = isinstance(item.slice, ast.Constant) and isinstance(item.slice.value, str)
    named = isinstance(item.value, ast.Name | ast.Attribute)
    return named and not is_column and _INNER.search(last_name(item.value)) is not None


def _is_transform(project: Project, module: ModuleIndex, called: ast.expr) -> bool:
    """Return whether what is called is a transform that is made elsewhere (``augment = Compose([...])``)."""
    resolver = project.fact(Resolver)
    refs = resolver.points_to(module, called) if isinstance(called, ast.Name) else ()
    made = [
        name for ref in refs if isinstance(ref.node, ast.Call) for name in resolver.call_names(ref.module, ref.node)
    ]
    return any(_DRAWS.search(last) or last in CHAINS for last in (name.rpartition(".")[2] for name in made))


def _spelled(called: ast.expr) -> Iterator[str]:
    """Yield the names of what is called, and of what that is a method of; not those of its arguments."""
    while not isinstance(called, ast.Name):
        match called:
            case ast.Attribute(value=inner, attr=name):
                yield name
                called = inner
            case ast.Call(func=inner) | ast.Subscript(value=inner):
                called = inner
            case _:
                return
    yield called.id


def _collates(project: Project, loader: Loader) -> list[NodeRef]:
    """Return what puts the samples of a loader together, as far as it is given."""
    points_to = project.fact(Resolver).points_to
    refs = loader_argument(project, loader, "collate_fn").refs
    return [made for ref in refs for made in points_to(ref.module, ref.node)]


def _is_of_tree(project: Project, loader: Loader) -> bool:
    """Return whether classes of the tree make all samples, and functions of the tree put them together if not PyTorch
    does."""
    resolver = project.fact(Resolver)
    sources = parts_of(project, loader)
    collate = loader_argument(project, loader, "collate_fn")
    known = (
        bool(owners := resolver.classes_of(source.module, source.node))
        and all(resolver.method(*owner, "__getitem__") is not None for owner in owners)
        for source in sources
        if isinstance(source.node, ast.expr)
    )
    collates = _collates(project, loader)
    return (
        bool(sources)
        and all(known)
        and (
            collate.is_absent
            or (bool(collates) and all(isinstance(one.node, (*FUNCTIONS, ast.Lambda)) for one in collates))
        )
    )


def _is_held(called: ast.expr) -> bool:
    """``self.prepare(image)``, ``super().__getitem__(index)``, a transform of a list"""
    match called:
        case ast.Attribute(value=ast.Name(id="self")) | ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            return True
    return not isinstance(called, ast.Name | ast.Attribute)
