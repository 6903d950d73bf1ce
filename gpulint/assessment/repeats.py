"""Places that repeat what another place of the function says or does: a load, a branch, a file of a checkpoint."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, is_unreachable
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import are_exclusive
from gpulint.training.loader_flow import LoaderFlow
from gpulint.transfers.checkpoints import Checkpoints
from gpulint.transfers.downloads import Downloads
from gpulint.workspace.module_index import ModuleIndex, dotted, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.training.loader_calls import Loader


def completes_checkpoint(subject: Subject) -> bool:
    """Return whether the same block writes another file of the checkpoint before."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    block = _block(module, node)
    return block is not None and any(
        getattr(save.node, "lineno", 0) < getattr(node, "lineno", 0) and _block(module, save.node) == block
        for save in subject.project.fact(Checkpoints).in_module(module)
    )


def _block(module: ModuleIndex, node: ast.AST) -> tuple[ast.AST, str] | None:
    """The block of statements that a node is in."""
    for up in (node, *module.syntax.ancestors(node)):
        if isinstance(up, ast.stmt) and (place := module.syntax.place(up)) is not None:
            return module.syntax.parents[up], place[0]
    return None


def repeats_branch(subject: Subject) -> bool:
    """Return whether another branch of a test, above the place, makes a loader of the same name with as many workers,
    also where the place is reached only if none was made (``if loader is None:``)."""
    loader = subject.cost.loader if subject.cost is not None else None
    if loader is None or not loader.variable or loader.node is not subject.node:
        return False
    return any(
        other.variable == loader.variable
        and other.node.lineno < loader.node.lineno
        and (are_exclusive(loader.module, other.node, loader.node) or _only_if_unset(loader))
        and _workers(other.node) == _workers(loader.node)
        and not is_unreachable(loader.module, other.node)
        for other in subject.project.fact(LoaderFlow).in_module(loader.module)
        if loader.module.scope(other.node) is loader.module.scope(loader.node)
    )


def _only_if_unset(loader: Loader) -> bool:
    """Return whether a loader is made only where its variable is None."""
    parts = (
        part
        for test, holds in conditions(loader.module, loader.node)
        if holds
        for part in (test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else (test,))
    )
    return any(ast.unparse(part) == f"{loader.variable} is None" for part in parts)


def repeats_copy(subject: Subject) -> bool:
    """Return whether the function copies parts of the same batches above the place, or batches of another form in
    another branch: who changes those copies changes this one as well."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    function = module.function(node)
    copies = [one for one in subject.project.fact(DeviceTransfers).batch_transfers(module) if not one.non_blocking]
    drawn = {one.batch_read.where for one in copies if one.batch_read is not None and one.node is node}
    return any(
        getattr(other.node, "lineno", 0) < getattr(node, "lineno", 0)
        and module.function(other.node) is function
        and (
            are_exclusive(module, other.node, node)
            or (other.batch_read is not None and other.batch_read.where in drawn)
        )
        for other in copies
    )


def repeats_wrapper(subject: Subject) -> bool:
    """Return whether the function wraps another model above the place, under the same conditions: who changes one
    changes all."""
    module, node = subject.module, subject.node
    if module is None or not isinstance(node, ast.Call):
        return False
    under, function = _tests(module, node), module.function(node)
    return any(
        call.lineno < node.lineno and module.function(call) is function and _tests(module, call) == under
        for call in module.calls_by_name.get(last_name(node.func), ())
    )


def is_frozen_beside(subject: Subject) -> bool:
    """Return whether the wrapped model only evaluates and no optimizer gets its weights, beside another one that is
    wrapped: with DDP, each process has a copy of it that needs no wrapper."""
    module, node = subject.module, subject.node
    if module is None or not isinstance(node, ast.Call):
        return False
    names = {call: _assigned(module, call) for call in module.calls_by_name.get(last_name(node.func), ())}
    name = names.get(node, "")
    return bool(name) and any(other not in (name, "") for other in names.values()) and _is_frozen(module, name)


def _assigned(module: ModuleIndex, call: ast.Call) -> str:
    statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), None)
    return dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else ""


def _is_frozen(module: ModuleIndex, name: str) -> bool:
    """Return whether a module sets a model to evaluate and reads its weights for nothing but to freeze them."""

    def called(method: str) -> list[ast.Call]:
        calls = module.calls_by_name.get(method, ())
        return [call for call in calls if isinstance(call.func, ast.Attribute) and dotted(call.func.value) == name]

    read = (module.syntax.parents.get(call) for call in (*called("parameters"), *called("named_parameters")))
    return bool(called("eval")) and not called("train") and all(isinstance(up, ast.For) for up in read)


def _tests(module: ModuleIndex, node: ast.AST) -> list[tuple[str, bool]]:
    return [(ast.unparse(test), holds) for test, holds in conditions(module, node)]


def _workers(loader: ast.Call) -> str:
    given = keyword_value(loader, "num_workers")
    return ast.unparse(given) if given is not None else ""


def repeats_call(subject: Subject) -> bool:
    """Return whether what is loaded here is loaded above already, by the same name."""
    return subject.module is not None and subject.node in _repetitions(subject.module)


def is_fallback(subject: Subject) -> bool:
    """Return whether a download only runs after the same one in a ``try``, whose cache it then finds."""
    module = subject.module
    items = subject.project.fact(Downloads).in_module(module) if module is not None else ()
    own = next((item for item in items if item.node is subject.node), None)
    if module is None or own is None or not own.what:
        return False
    same = (item for item in items if (item.name, item.what) == (own.name, own.what))
    tried = {(module, item.node) for item in same if item.node is not own.node}
    if _is_in_handler(module, own.node, tried):
        return True
    function = module.function(own.node)
    sites = subject.project.fact(Resolver).call_sites(module, function) if function is not None else ()
    return bool(sites) and all(_is_in_handler(site.module, site.node, tried) for site in sites)


def repeats_try(subject: Subject) -> bool:
    """Return whether a call only runs where the same one in a ``try`` raised an error, as for another version of a
    library."""
    module, node = subject.module, subject.node
    if module is None or not isinstance(node, ast.Call):
        return False
    return _is_in_handler(
        module,
        node,
        {(module, call) for call in module.calls_by_name.get(last_name(node.func), ()) if call is not node},
    )


def _is_in_handler(module: ModuleIndex, node: ast.AST, tried: set[tuple[ModuleIndex, ast.Call]]) -> bool:
    """Return whether a place is in an ``except`` of a ``try`` around one of some calls."""
    ups = [up for up in module.syntax.ancestors(node) if isinstance(up, ast.ExceptHandler)]
    blocks = (part for up in ups if isinstance(whole := module.syntax.parents[up], ast.Try) for part in whole.body)
    return any((module, part) in tried for block in blocks for part in walk(block))


@query
def _repetitions(module: ModuleIndex) -> frozenset[ast.AST]:
    """Calls in a function (or outside of all) whose first argument a call of the same function above them has had. The
    tokenizer of a name is not its model."""
    seen = set[tuple[object, ...]]()
    found = set[ast.AST]()
    for calls in module.calls_by_name.values():
        for call in () if len(calls) == 1 else sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            first = _first(call)
            key = (dotted(call.func), first, module.function(call))
            if first is not None and key in seen:
                found.add(call)
            seen.add(key)
    return frozenset(found)


def _first(call: ast.Call) -> str | None:
    given = call.args[0] if call.args else next((keyword.value for keyword in call.keywords if keyword.arg), None)
    kinds = ast.Name | ast.Attribute | ast.Constant | ast.IfExp
    made = given is None or any(isinstance(part, ast.Call) for part in walk(given))
    return ast.unparse(given) if given is not None and not made and isinstance(given, kinds) else None
