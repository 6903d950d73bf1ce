"""How long data loaders live: workers that start for a single short pass gain nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.host_to_device import HostToDevice
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.semantic.callers import callers
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.loader_calls import Loader
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.training.one_item_loops import has_one_round
from gpulint.workload.sample_counts import has_few_batches
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, Binding, LoopNode, ModuleIndex, NodeRef, last_name

ONE_BATCH = "one or two batches hold all samples, so that hardly anything else of the epoch could go on meanwhile"
_ARRAY = regex.compile(r"(^|\.)(ndarray|NDArray|Tensor|DataFrame)\b")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ROUNDS = 2
"""Calls between a loop over rounds and what an object does in each."""
_OF_TRAINING = ("backward", "fit", "train_step", "step")
_LOOK = regex.compile(r"visuali[sz]|plot|preview|(^|_)(show|demo|display|xai|explain|gradcam|tsne)(_|$)", re.IGNORECASE)
"""Functions that make pictures of a few samples."""


def is_for_a_look(loader: Loader) -> bool:
    """Return whether the loader is made in a function that makes pictures (``def create_visualizations``)."""
    function = loader.module.function(loader.node)
    return function is not None and _LOOK.search(getattr(function, "name", "")) is not None


def is_one_of_many(project: Project, loader: Loader) -> bool:
    """``loaders[name] = DataLoader(...)`` in a loop of a program that trains nothing, and reads each of them once."""
    module = loader.module
    match module.syntax.parents.get(loader.node):
        case ast.Assign(targets=[ast.Subscript(value=ast.Name())]):
            looped = any(isinstance(up, LOOPS) for up in _within_function(loader))
            return looped and not _trains(project, module)
    return False


def _trains(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module, or a program that it is a part of, trains."""
    users = map(project.module_at, project.fact(GpuPrograms).users(module.path))
    return any(name in part.calls_by_name for part in (module, *users) if part is not None for name in _OF_TRAINING)


def is_kept_by_each_round(loader: Loader) -> bool:
    """``tasks.append(forever(DataLoader(...)))`` in a loop over other things than a few that are written out: the
    workers of all of them would be alive together."""
    loop = next((up for up in _within_function(loader) if isinstance(up, LOOPS)), None)
    if not isinstance(loop, ast.For) or isinstance(loop.iter, ast.List | ast.Tuple):
        return False
    made: set[ast.AST] = {loader.node}
    if loader.variable:
        made |= {part for part in walk(loop) if isinstance(part, ast.Name) and part.id == loader.variable}
    return any(
        isinstance(part, ast.Call)
        and last_name(part.func) == "append"
        and any(inner in made for argument in part.args for inner in _handed(argument))
        for part in walk(loop)
    )


def _handed(argument: ast.expr) -> Iterator[ast.expr]:
    """Yield an argument, and what it hands on: ``forever(loader)``."""
    yield argument
    if isinstance(argument, ast.Call):
        yield from argument.args


def is_short_lived(project: Project, loader: Loader) -> bool:
    """Return whether a loop makes the loader and draws from it once, and is no loop of epochs."""
    around = list(_loops_around(project, loader))
    if not around:
        return (
            _reads_argument(project, loader)
            or _is_called_for_each(project, loader)
            or _is_of_one_client(project, loader)
        )
    if len(around) != 1:
        return True
    is_epoch = project.fact(LoopContexts).role(loader.module, around[0]) is Role.EPOCH
    return not is_epoch and serves_one_pass(project, loader)


def _loops_around(project: Project, loader: Loader) -> Iterator[LoopNode]:
    """Yield the loops of more than one round around a loader in its function."""
    for up in _within_function(loader):
        if isinstance(up, LOOPS) and not has_one_round(project, loader.module, up):
            yield up


def _is_called_for_each(project: Project, loader: Loader) -> bool:
    """Return whether loops other than those of epochs call the function that makes the loader for one pass:
    ``for target in targets: predict(target)``."""
    module, function = loader.module, loader.module.function(loader.node)
    if function is None or not (serves_one_pass(project, loader) or _only_predicts(loader)):
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    return bool(sites) and all(any(True for _ in _short_loops(project, site)) for site in sites)


def _is_of_one_client(project: Project, loader: Loader) -> bool:
    """Return whether each object of a list makes the loader anew in each round of a program: ``for client in clients:
    client.train(weights)`` in a loop over rounds."""
    module, function = loader.module, loader.module.function(loader.node)
    if not isinstance(function, ast.FunctionDef) or module.class_of(function) is None or function.args.defaults:
        return False
    given = len(function.args.args) - 1
    named = module.calls_by_name.get(function.name, ())
    sites = project.fact(Resolver).call_sites(module, function) or [NodeRef(module, call) for call in named]
    return any(
        isinstance(site.node, ast.Call)
        and len(site.node.args) + len(site.node.keywords) == given > 0
        and isinstance(site.node.func, ast.Attribute)
        and isinstance(site.node.func.value, ast.Name)
        and _is_one_of_each(site.module, site.node.func.value)
        and any(
            isinstance(up, LOOPS) and not _binds(up, site.node.func.value.id)
            for at in callers(project, NodeRef(site.module, site.node), _ROUNDS)
            for up in at.ref.module.syntax.ancestors(at.ref.node)
        )
        for site in sites
    )


def _is_one_of_each(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether a variable is that of a loop or comprehension around it."""
    return any(
        _binds(one, name.id)
        for up in module.syntax.ancestors(name)
        for one in (up.generators if isinstance(up, _COMPREHENSIONS) else [up])
    )


def _binds(loop: ast.AST, name: str) -> bool:
    return isinstance(loop, ast.For | ast.comprehension) and any(
        isinstance(part, ast.Name) and part.id == name for part in walk(loop.target)
    )


def _short_loops(project: Project, site: NodeRef) -> Iterator[ast.AST]:
    """The loops around a call in its function, other than those of epochs."""
    for inner, up in pairwise([site.node, *site.module.syntax.ancestors(site.node)]):
        if isinstance(up, FUNCTIONS):
            return
        if isinstance(up, ast.For) and inner is up.iter:
            continue
        short = isinstance(up, LOOPS) and project.fact(LoopContexts).role(site.module, up) is not Role.EPOCH
        if short and not has_one_round(project, site.module, up):
            yield up


def _only_predicts(loader: Loader) -> bool:
    """Return whether all that is done with a loader is that a trainer predicts with it."""
    module, name = loader.module, loader.variable
    uses = [use for use in module.uses.get(name, ()) if module.function(use) is module.function(loader.node)]
    users = [module.syntax.parents.get(use) for use in uses if isinstance(use.ctx, ast.Load)]
    return bool(users) and all(isinstance(user, ast.Call) and last_name(user.func) == "predict" for user in users)


def _reads_argument(project: Project, loader: Loader) -> bool:
    """Return whether a function makes the loader anew for an array that it is given (``def predict(volume:
    np.ndarray)``), and draws from it once."""
    module, function = loader.module, loader.module.function(loader.node)
    if function is None or isinstance(function, ast.Lambda):
        return False
    arrays = {
        arg.arg
        for arg in (*function.args.args, *function.args.kwonlyargs)
        if arg.annotation is not None and _ARRAY.search(ast.unparse(arg.annotation))
    }
    draws = [draw.where for draw in project.fact(BatchFlow).of_loader(module, loader.node)]
    here = bool(draws) and all(
        at.module is module
        and module.function(at.node) is function
        and not any(isinstance(up, LOOPS) for up in module.syntax.ancestors(at.node) if up in set(walk(function)))
        for at in draws
    )
    return here and any(
        _mentions(module, source.node, arrays, 2) for source in project.fact(HostToDevice).sources(loader)
    )


def _mentions(module: ModuleIndex, node: ast.AST, names: set[str], depth: int) -> bool:
    """Return whether an expression, or a variable of it, is computed from one of some parameters."""
    for part in walk(node):
        if not isinstance(part, ast.Name):
            continue
        if part.id in names:
            return True
        bound = module.scope(part).lookup(part.id) if depth else []
        if any(one.value is not None and _mentions(module, one.value, names, depth - 1) for one in bound):
            return True
    return False


def has_one_step(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop goes through loaders that give out all their samples in one batch."""
    if not isinstance(loop, ast.For):
        return False
    loaders = project.fact(LoaderFlow).loaders_of(module, unwrap_iterable(loop.iter))
    return bool(loaders) and all(has_few_batches(project, loader) for loader in loaders)


def serves_one_pass(project: Project, loader: Loader) -> bool:
    """Return whether each loader that the place makes is drawn from once."""
    module = loader.module
    around = set[ast.AST](up for up in _within_function(loader) if isinstance(up, LOOPS))
    draws = [draw.where for draw in project.fact(BatchFlow).of_loader(module, loader.node)]
    here = [at.node for at in draws if at.module is module and module.function(at.node) is module.function(loader.node)]
    maker = next((up for up in module.syntax.ancestors(loader.node) if isinstance(up, (*FUNCTIONS, ast.Lambda))), None)
    if draws and maker is not None and all(_is_made_by(project, draw, maker) for draw in draws):
        return True
    if len(draws) == 1 and not here:
        return _is_handed_on_once(project, loader, draws[0], around)
    once = len(here) == len(draws) and (len(here) == 1 or _exclude_each_other(module, here))
    return (
        bool(here) and (bool(around) or once) and not any(_is_repeated(project, module, draw, around) for draw in here)
    )


def _is_made_by(project: Project, draw: NodeRef, maker: ast.AST) -> bool:
    """Return whether a loop over batches calls the function that makes the loader: ``for batch in make_loader():``."""
    loop = draw.node
    made = unwrap_iterable(loop.iter) if isinstance(loop, ast.For) else None
    called = project.fact(Resolver).callees(draw.module, made) if isinstance(made, ast.Call) else []
    return any(one.node is maker for one in called)


def _is_repeated(project: Project, module: ModuleIndex, node: ast.AST, around: set[ast.AST]) -> bool:
    """Return whether a place is in a loop of more than one round other than those ``around`` a loader."""
    return any(
        isinstance(up, LOOPS) and up not in around and not has_one_round(project, module, up)
        for up in module.syntax.ancestors(node)
    )


def _exclude_each_other(module: ModuleIndex, draws: list[ast.AST]) -> bool:
    """Return whether two draws are in the two branches of a condition."""
    if len(draws) != 2:
        return False
    first, second = ([draw, *module.syntax.ancestors(draw)] for draw in draws)
    return any(
        isinstance(up, ast.If)
        and up in second
        and any(one in up.body for one in first) != any(one in up.body for one in second)
        and any(one in up.orelse for one in (*first, *second))
        for up in first
    )


def _is_handed_on_once(project: Project, loader: Loader, draw: NodeRef, around: set[ast.AST]) -> bool:
    """Return whether the function that makes a loader, perhaps in loops ``around`` it, hands it once to the one that
    draws from it; of a table of loaders (``{name: DataLoader(...) for name in names}``) each of its entries."""
    module, function = loader.module, draw.module.function(draw.node)
    handed = [use for use in _handed_on(loader) if not _only_describes(module, use)]
    entries = [ast.unparse(use) for use in handed]
    calls = [_given_to(module, use) for use in handed]
    return (
        function is not None
        and bool(calls)
        and len(entries) == len({*entries})
        and all(
            isinstance(call, ast.Call)
            and any(callee.node is function for callee in project.fact(Resolver).callees(module, call))
            and not _is_repeated(project, module, call, around)
            for call in calls
        )
        and not _is_repeated(project, draw.module, draw.node, around)
    )


def _given_to(module: ModuleIndex, argument: ast.AST) -> ast.AST | None:
    """Return the call that something is an argument of."""
    up = module.syntax.parents.get(argument)
    return module.syntax.parents.get(up) if isinstance(up, ast.keyword) else up


def _handed_on(loader: Loader) -> list[ast.AST]:
    """Return where the variable of a loader is read, or the entries of a table of such loaders; the loader itself where
    a call is given it."""
    module, inner = loader.module, loader.node
    if isinstance(_given_to(module, inner), ast.Call):
        return [inner]
    made = next((up for up in module.syntax.ancestors(inner) if not isinstance(up, ast.Dict)), None)
    match made:
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case ast.DictComp(value=value) if value is inner:
            match module.syntax.parents.get(made):
                case ast.Assign(targets=[ast.Name(id=name)]):
                    pass
                case _:
                    return []
        case _:
            return []
    uses = [
        use
        for use in module.uses.get(name, ())
        if isinstance(use.ctx, ast.Load)
        and module.function(use) is module.function(inner)
        and any(one.value is not None and inner in walk(one.value) for one in _bound(module, use))
    ]
    if not isinstance(made, ast.DictComp):
        return [*uses]
    parents = [module.syntax.parents.get(use) for use in uses]
    is_entry = (isinstance(up, ast.Subscript) and isinstance(up.slice, ast.Constant) for up in parents)
    return [up for up in parents if up is not None] if all(is_entry) else []


def _bound(module: ModuleIndex, use: ast.Name) -> Sequence[Binding]:
    """Return the bindings of a variable that may be in force where it is read."""
    return reaching(module, module.scope(use).lookup(use.id), use)


def _only_describes(module: ModuleIndex, use: ast.AST) -> bool:
    """``len(loader)``, ``loader.dataset``"""
    up = module.syntax.parents.get(use)
    return isinstance(up, ast.Attribute) or (isinstance(up, ast.Call) and last_name(up.func) == "len")


def _within_function(loader: Loader) -> Iterator[ast.AST]:
    """Yield what is around a loader in its function, but not the loop that draws from it where it is made."""
    inner: ast.AST = loader.node
    for up in loader.module.syntax.ancestors(loader.node):
        if isinstance(up, FUNCTIONS):
            return
        if not (isinstance(up, ast.For) and up.iter is inner):
            yield up
        inner = up
