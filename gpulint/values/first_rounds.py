"""Tests that hold in the first few rounds of a loop only."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.values.constants import Constants
from gpulint.values.counter_names import is_counter
from gpulint.workspace.module_index import BindingKind, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

FEW = 20
"""Most first iterations that count as seldom."""


def is_among_first(module: ModuleIndex, test: ast.Compare) -> bool:
    """``step < 3``, or of a number that is made of the loop's counter (``seen = i + batches * epoch``)."""
    match test:
        case (
            ast.Compare(left=ast.Name() as name, ops=[ast.Lt() | ast.LtE()], comparators=[ast.Constant(value=int(few))])
            | ast.Compare(ops=[_, ast.Lt() | ast.LtE()], comparators=[ast.Name() as name, ast.Constant(value=int(few))])
        ):
            if "epoch" in name.id or not 0 < few <= FEW:
                return False
            bindings = module.scope(name).lookup(name.id)
            made = bindings[0].value if len(bindings) == 1 else None
            return is_counter(name) or (
                isinstance(made, ast.BinOp)
                and any(isinstance(part, ast.Name) and is_counter(part) for part in walk(made))
            )
    return False


def counts_to_few(project: Project, module: ModuleIndex, test: ast.Compare, holds: bool) -> bool:
    """``if self.shown < self.most: self.shown += 1`` of a counter that starts in ``__init__`` and a limit of few."""
    reached = ast.Lt | ast.LtE if holds else ast.Gt | ast.GtE
    match test:
        case ast.Compare(left=ast.Attribute(value=ast.Name(id="self"), attr=name), ops=[op], comparators=[limit]) if (
            isinstance(op, reached)
        ):
            pass
        case _:
            return False
    owner = module.class_of(test)
    stores = module.attributes.get((owner, name), []) if owner is not None else []
    homes = [module.function(one.node) for one in stores if one.kind is not BindingKind.AUGMENT]
    most = project.fact(Constants).of(module, limit)
    return (
        0 < len(homes) < len(stores)
        and all(home is not None and home.name == "__init__" for home in homes)
        and most.every(lambda value: isinstance(value, int) and value <= FEW)
    )
