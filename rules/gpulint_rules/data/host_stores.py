"""Copies that a program collects in host memory for a data set of its own, which a loader draws from later."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.read_uses import is_whole_copy

_SETS = regex.compile(r"(Dataset|DataLoader|Subset)$")
_ADDS = frozenset({"append", "extend", "add"})


def feeds_loader(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a whole tensor is copied to the host into a list of which the program makes a data set or a
    loader: ``self.data.append(x.cpu())`` and ``DataLoader(Samples(torch.cat(self.data)))``. The GPU would have to hold
    all of it."""
    if not is_whole_copy(module, node):
        return False
    stores = {ast.unparse(store) for name in (node, *_named(module, node)) for store in _lists_of(module, name)}
    return bool(stores) and any(
        stores & {ast.unparse(part) for part in _given(module, call)}
        for name in module.calls_by_name
        if _SETS.search(name)
        for call in module.calls_by_name[name]
        if _shares_scope(module, call, node)
    )


def _shares_scope(module: ModuleIndex, call: ast.Call, node: ast.expr) -> bool:
    """Return whether two places are in one function, or in methods of one class."""
    owner = module.class_of(node)
    if owner is not None and module.class_of(call) is owner:
        return True
    return module.function(call) is module.function(node)


def _named(module: ModuleIndex, node: ast.expr) -> Iterator[ast.expr]:
    """The uses of the variable that a copy is given: ``x, y = x.cpu(), y.cpu()``."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    if not isinstance(statement, ast.Assign):
        return
    pairs = [(target, statement.value) for target in statement.targets]
    for target, value in pairs:
        parts = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            parts = [*zip(target.elts, value.elts, strict=True)]
        for name, given in parts:
            if isinstance(name, ast.Name) and any(part is node for part in walk(given)):
                uses = module.uses.get(name.id, ())
                yield from (use for use in uses if module.function(use) is module.function(node))


def _lists_of(module: ModuleIndex, node: ast.expr) -> Iterator[ast.expr]:
    """The lists that a value is added to."""
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Call(func=ast.Attribute(value=store, attr=name), args=[given, *_]) if name in _ADDS:
                if given is below:
                    yield store
                return
            case ast.Call() | ast.Attribute() | ast.Tuple():
                below = up
            case _:
                return


def _given(module: ModuleIndex, call: ast.Call) -> Iterator[ast.expr]:
    """Yield what a call is made of, also by names: ``x = torch.cat(kept)`` and ``TensorDataset(x)``."""
    for part in walk(call):
        if isinstance(part, ast.Name | ast.Attribute):
            yield part
        if isinstance(part, ast.Name):
            bindings = reaching(module, module.scope(part).lookup(part.id), part)
            if len(bindings) == 1 and bindings[0].value is not None:
                yield from (one for one in walk(bindings[0].value) if isinstance(one, ast.Name | ast.Attribute))
