"""Which tests leave no GPU to the code that they guard: ``device == "cpu"``, ``not torch.cuda.is_available()``."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.query import query
from gpulint.semantic.path_conditions import rules_out
from gpulint.workspace.module_index import ModuleIndex, last_name

_CUDA_TEST = regex.compile(r"\bcuda\.is_available\(\)$|\b(use|has|have|is)_?(cuda|gpu)$", re.IGNORECASE)
_GPU_COUNT = regex.compile(
    r"\b(n|num|number_of)_?gpus?$|\bcuda\.device_count\(\)$|\blen\(([\w.]*[._])?gpus\)$", re.IGNORECASE
)
_CPU = regex.compile(r"_?(DEVICE_)?CPU(_DEVICE)?(_(INDEX|ID|NAME|TYPE))?")
"""Constants that stand for the host."""


@query
def excludes_cuda(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether a test that holds, or does not, leaves no GPU to the code below it."""
    return rules_out(test, holds, _excludes_cuda)


def _excludes_cuda(test: ast.expr, holds: bool) -> bool:
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and _GPU_COUNT.search(ast.unparse(test.left)):
        return _says_none(test, holds)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and (value := _device_named(test.comparators[0])):
        if isinstance(test.ops[0], ast.NotEq):
            holds = not holds
        elif not isinstance(test.ops[0], ast.Eq):
            return False
        return not holds if value == "cuda" else holds and value in ("cpu", "mps")
    text = ast.unparse(test)
    return not holds and bool(_CUDA_TEST.search(text) or _GPU_COUNT.search(text))


def _says_none(test: ast.Compare, holds: bool) -> bool:
    """Return whether a comparison of the number of GPUs leaves none (``num_gpus == 0``, ``not n_gpu > 0``)."""
    match test.ops[0], test.comparators[0]:
        case (ast.Eq() | ast.LtE(), ast.Constant(value=0)) | (ast.Lt(), ast.Constant(value=1)):
            return holds
        case (ast.NotEq() | ast.Gt(), ast.Constant(value=0)) | (ast.GtE(), ast.Constant(value=1)):
            return not holds
    return False


def _device_named(node: ast.expr) -> str:
    """``"cuda"``, ``torch.device("cpu")``, ``DeviceType.CUDA``: the kind of device; "" if it is none."""
    match node:
        case ast.Constant(value=str(name)):
            return name
        case ast.Call(func=func, args=[ast.Constant(value=str(name))]) if last_name(func) == "device":
            return name
        case ast.Name(id=name) | ast.Attribute(attr=name) if _CPU.fullmatch(name):
            return "cpu"
        case ast.Attribute(attr=name) if name.isupper():
            return name.lower()
    return ""
