"""Variables that hold a number which the step reads, or something else."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workspace.module_index import Binding, ModuleIndex, last_name
from gpulint_fixers.waits.device_reads import device_read


def reads_number(module: ModuleIndex, binding: Binding) -> bool:
    """Return whether a variable is set to a number that is read there, or to a sum or multiple of it."""
    value = binding.value if isinstance(binding.node, ast.Assign) and not binding.path else None
    return value is not None and _holds_read(module, value)


def _holds_read(module: ModuleIndex, value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        sides = (value.left, value.right)
        plain = all(isinstance(side, ast.BinOp | ast.Name | ast.Attribute | ast.Constant | ast.Call) for side in sides)
        return plain and any(_holds_read(module, side) for side in sides)
    read = device_read(module, value) if isinstance(value, ast.Call) else None
    return read is not None and read.whole is value


def is_of_tensors(module: ModuleIndex, statement: ast.Assign) -> bool:
    """``if isinstance(value, torch.Tensor): value = value.item()``: what else the variable holds is no tensor."""
    match module.syntax.parents.get(statement), statement.targets:
        case ast.If(test=ast.Call(func=func, args=[ast.Name(id=asked), *rest]), body=[only], orelse=[]), [
            ast.Name(id=name)
        ] if asked == name and only is statement:
            own = any(isinstance(part, ast.Name) and part.id == name for part in walk(statement.value))
            kind = last_name(rest[0]) if rest else ""
            return own and (last_name(func) == "is_tensor" or (last_name(func) == "isinstance" and kind == "Tensor"))
    return False
