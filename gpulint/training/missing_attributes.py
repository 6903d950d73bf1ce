"""Attributes that a place gives to an object which has none yet: ``if not hasattr(x, "mask"): x.mask = ...``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.workspace.module_index import LOOPS, BindingKind, ModuleIndex

_OF_MODEL = regex.compile(r"parameters\(|modules\(|children\(|buffers\(|param_groups|params|layers|blocks")
"""What loops run over whose items are the same in each step."""
_KEPT = regex.compile(r"(^|_)(model|net|network|module|layer|optim|optimizer|criterion|param|weight|trainer|cache)$")
"""Names of parameters that are the same object in each step."""


def gives_missing(module: ModuleIndex, node: ast.AST, kept: bool = False) -> bool:
    """``if not hasattr(self, "_scale"): ...; self._scale = measure()``, also with ``getattr(self, "_scale", None) is
    None`` and after ``if hasattr(self, "_scale"): return``, of an attribute that nothing in the module takes away.
    The object must be ``kept`` from round to round where that is asked for: each batch is a new one."""
    if not (missing := _missing_at(module, node)):
        return False
    around = {*module.syntax.ancestors(node)}
    stores: Iterator[ast.Assign | ast.AnnAssign] = module.syntax.of(ast.Assign, ast.AnnAssign)
    given = {
        ast.unparse(target)
        for part in stores
        if part in around or module.syntax.parents.get(part) in around
        for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
        if isinstance(target, ast.Attribute) and ast.unparse(target) in missing
        if part in around or ast.unparse(target) in _missing_at(module, part)
        if not kept or _is_kept(module, target.value, node)
    }
    return any(not _is_taken_away(module, name.rpartition(".")[2]) for name in given)


def _missing_at(module: ModuleIndex, node: ast.AST) -> frozenset[str]:
    """Return the attributes that are not there yet where a place is reached."""
    return frozenset(
        name
        for test, holds in conditions(module, node)
        for part, wanted in parts_of(test, holds)
        for name in _absent(part, wanted)
    )


def _absent(test: ast.expr, wanted: bool) -> list[str]:
    """Return the attribute that is not there yet if a test holds, or fails if it is not ``wanted``; also one that may
    be there and not fit (``not hasattr(x, "mask") or x.mask.size(0) != n``)."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=[ast.UnaryOp(op=ast.Not(), operand=asked), *others]) if wanted:
            return [name for name in _absent(asked, False) if all(name in ast.unparse(other) for other in others)]
        case ast.Compare(left=asked, ops=[ast.Is()], comparators=[ast.Constant(value=None)]) if wanted:
            empty = None
        case ast.Compare(left=asked, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]) if not wanted:
            empty = None
        case _ if not wanted:
            asked, empty = test, False
        case _:
            return []
    match asked:
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]) if empty is False:
            return [f"{ast.unparse(owner)}.{name}"]
        case ast.Call(
            func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), ast.Constant(value=default)]
        ) if default is None or default is empty:
            return [f"{ast.unparse(owner)}.{name}"]
    return []


def _is_taken_away(module: ModuleIndex, attribute: str) -> bool:
    """Return whether a module deletes or empties an attribute of this name."""
    deletes: Iterator[ast.Delete] = module.syntax.of(ast.Delete)
    stores: Iterator[ast.Assign] = module.syntax.of(ast.Assign)
    targets = [target for part in deletes for target in part.targets]
    for part in stores:
        targets += part.targets if _is_constant(part.value, None) or _is_constant(part.value, False) else []
    return any(isinstance(target, ast.Attribute) and target.attr == attribute for target in targets) or any(
        len(call.args) == 2 and isinstance(call.args[1], ast.Constant) and call.args[1].value == attribute
        for call in module.calls_by_name.get("delattr", ())
    )


def _is_kept(module: ModuleIndex, owner: ast.expr, node: ast.AST) -> bool:
    """Return whether an object outlives the rounds of the loop around a place: ``self``, a weight or a layer of a
    model, what is made outside of the loop. Of a parameter only its name may say so."""
    while isinstance(owner, ast.Attribute | ast.Subscript):
        owner = owner.value
    if not isinstance(owner, ast.Name):
        return False
    loops = {up for up in module.syntax.ancestors(node) if isinstance(up, LOOPS)}
    bindings = module.scope(owner).lookup(owner.id)
    return owner.id == "self" or (
        bool(bindings)
        and all(
            (one.kind is BindingKind.LOOP and one.value is not None and _OF_MODEL.search(ast.unparse(one.value)))
            or (one.kind is BindingKind.PARAMETER and _KEPT.search(owner.id))
            or (one.kind is BindingKind.ASSIGN and bool(loops) and loops.isdisjoint(module.syntax.ancestors(one.node)))
            for one in bindings
        )
    )


def _is_constant(value: ast.AST | None, wanted: bool | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is wanted
