"""Training and evaluation batches that get their size from one variable, though different functions make them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.argument_binding import RECEIVERS, argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.workload.batch_sources import HEAD, BatchSource, home
from gpulint.workload.data_split import Split
from gpulint.workspace.module_index import COMPREHENSIONS, LOOPS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_ITEM = regex.compile(r"[\w.]+((\[[^\[\]()]+\])+|\([^()]*\))")
"""``params["batch_size"]``, ``int(size)``"""


def with_same_variable(project: Project, evaluation: BatchSource, made: Iterable[BatchSource]) -> list[BatchSource]:
    """Training batches of other functions whose size is the variable of an evaluation's: ``args.batch_size`` around
    two closures, ``self.batch_size`` in two methods of a class, ``cfg["batch_size"]`` of what both functions get."""
    return [
        source
        for source in made
        if source.split is Split.TRAIN
        and home(source.call) is not home(evaluation.call)
        and (
            (source.text == evaluation.text and _variable(source) == _variable(evaluation) != ())
            or is_same_setting(project, source, evaluation)
        )
    ]


def is_same_setting(project: Project, one: BatchSource, other: BatchSource) -> bool:
    """Return whether two sizes are the same entry of the same settings."""
    return _setting(project, one) == _setting(project, other) != ()


def _setting(project: Project, source: BatchSource) -> tuple[object, ...]:
    """Return the text of a size that is read from settings (``cfg["batch_size"]``, also by a name), and what they are;
    nothing if that is unknown."""
    module, node = source.batch.module, source.batch.node
    if isinstance(node, ast.Name):
        bindings = module.scope(node).lookup(node.id)
        value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
        node = value if value is not None else node
    root = node
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if root is node or not isinstance(root, ast.Name) or module is not source.call.module:
        return ()
    origins = frozenset((ref.module, ref.node) for ref in project.fact(Resolver).points_to(module, root))
    known = origins and all(isinstance(origin, ast.Call | ast.Dict) for _, origin in origins)
    return (ast.unparse(node), origins) if known else ()


def _variable(source: BatchSource) -> tuple[object, ...]:
    """Return what a name or an attribute refers to: the class of ``self``, or the bindings of the name."""
    root = source.batch.node
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or source.batch.module is not source.call.module:
        return ()
    module = source.batch.module
    if root.id in RECEIVERS:
        owner = module.class_of(root)
        return (owner,) if owner is not None else ()
    return tuple(module.scope(root).lookup(root.id))


def lifted(
    project: Project, module: ModuleIndex, sources: list[BatchSource], where: ast.AST | None
) -> Iterator[BatchSource]:
    """Training batches that a function makes through a helper which takes their size: the helper's call."""
    for source in sources:
        helper = module.function(source.node)
        size = source.batch.node
        if source.split is not Split.TRAIN or helper is None or helper is where or not isinstance(size, ast.Name):
            continue
        for site in project.fact(Resolver).call_sites(module, helper):
            assert isinstance(site.node, ast.Call)
            passed = argument_of(helper, site.node, size.id)
            if passed is not None and site.module is module and home(site) is where:
                yield dataclasses.replace(source, call=site, batch=NodeRef(module, passed))


def stands_below(source: BatchSource) -> bool:
    """Return whether the batch size is so far below the head of a long call that the call's place says little."""
    size = source.batch.node
    assert isinstance(size, ast.expr)
    return (
        source.batch.module is source.module
        and size.lineno > source.node.lineno + HEAD
        and source.call.node in set(source.module.syntax.ancestors(size))
    )


def of_its_object(source: BatchSource, training: list[BatchSource]) -> list[BatchSource]:
    """Of ``Settings(train_batch=32, val_batch=1)`` the batches of the same call, not those of other settings."""
    if not source.keyword:
        return training
    own = [other for other in training if other.node is source.node]
    kind = last_name(source.node.func)
    return own or [other for other in training if not other.keyword or last_name(other.node.func) != kind]


def depends_on_split(source: BatchSource) -> bool:
    """Return whether the loop that makes the batches of all splits gives each a size of its own."""
    module = source.batch.module
    around = (up for up in module.syntax.ancestors(source.batch.node) if isinstance(up, (*LOOPS, *COMPREHENSIONS)))
    inside = {part for loop in around for part in walk(loop)}
    return isinstance(source.batch.node, ast.IfExp) or any(
        binding.node in inside
        for part in walk(source.batch.node)
        if isinstance(part, ast.Name)
        for binding in module.scope(part).lookup(part.id)
    )


def double(size: str) -> str:
    """An expression for twice ``size``."""
    if size.isdecimal():
        return str(2 * int(size))
    is_plain = size.replace(".", "").isidentifier() or _ITEM.fullmatch(size)
    return f"2 * {size}" if is_plain else f"2 * ({size})"
