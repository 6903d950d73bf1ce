"""Tensors whose numbers the host reads again at once, so that nothing is gained by where they are made."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import ModuleIndex

_READS = frozenset({"Tensor", "FloatTensor", "LongTensor", "tensor", "as_tensor", "array", "asarray"})
"""Calls that make a tensor or an array of a list, and read each of its elements for it."""


def is_read_back(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a tensor is an element of a list of which a call makes a tensor or an array, on the host:
    ``torch.tensor(ids + [torch.tensor(0).cuda()])``, ``torch.Tensor([[x, -x]])``."""
    within = False
    for up in module.syntax.ancestors(node):
        match up:
            case ast.List() | ast.Tuple():
                within = True
            case ast.UnaryOp() | ast.BinOp():
                pass
            case ast.Call(func=ast.Attribute(attr=name)):
                return within and name in _READS
            case _:
                return False
    return False


def is_only_read_back(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a tensor is set to a variable of which all uses are read back."""
    match module.syntax.parents.get(node):
        case ast.Assign(targets=[ast.Name(id=name)]):
            function = module.function(node)
            uses = [use for use in module.uses.get(name, ()) if module.function(use) is function]
            read = [use for use in uses if isinstance(use.ctx, ast.Load)]
            return bool(read) and all(is_read_back(module, use) for use in read)
    return False
