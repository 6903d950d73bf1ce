"""Tensors that are made of a number which was read from the GPU: ``torch.tensor(total**0.5, device=device)``."""

from __future__ import annotations

import ast

from gpulint.fix import Edit
from gpulint.placement.devices import Devices
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.double_precision import has_doubles

_MAKES = {"torch.tensor", "torch.as_tensor"}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


def kept_as_tensor(project: Project, module: ModuleIndex, uses: list[ast.Name]) -> list[Edit] | None:
    """The edits after which a tensor on the GPU is computed from one there, and nothing is read; None for any other use
    of a number."""
    if len(uses) != 1 or not isinstance(uses[0].ctx, ast.Load):
        return None
    inner: ast.expr = uses[0]
    while isinstance(up := module.syntax.parents.get(inner), ast.BinOp) and isinstance(up.op, _ARITHMETIC):
        inner = up
    if not isinstance(up, ast.Call) or up.args != [inner] or not isinstance(up.func, ast.Attribute):
        return None
    given = {keyword.arg: keyword.value for keyword in up.keywords}
    if not given.keys() <= {"device", "dtype"} or not project.fact(Resolver).call_names(module, up) & _MAKES:
        return None
    if (device := given.get("device")) is None or not project.fact(Devices).may_be_gpu(module, device):
        return None
    _, end = module.syntax.offsets(up.func)
    edits = list[Edit]()
    if up.func.attr == "tensor":
        edits.append(Edit(module.path, module.syntax.span_at(end - len("tensor"), end), "as_tensor"))
    if "dtype" not in given and has_doubles(project, module):
        _, last = module.syntax.offsets(inner)
        torch = module.syntax.text(up.func.value)
        edits.append(Edit(module.path, module.syntax.span_at(last, last), f", dtype={torch}.float32"))
    return edits
