"""Functions that test tensor by tensor whether all are numbers: one flag over all tensors, which is read once."""

from __future__ import annotations

import ast
import re

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.records import dataclass
from gpulint.workspace.module_index import ModuleIndex

_NAME = "flags"


@dataclass(frozen=True, slots=True)
class _Search:
    """A loop that returns at the first tensor that fails a test, and the answer if none does."""

    loop: ast.For
    test: ast.expr
    otherwise: ast.Return
    answer: bool
    """What the function returns if no tensor fails."""


def one_flag(found: HostWait) -> Fix | None:
    """Let a function that returns at the first tensor which is no number look at all of them at once; None if it is of
    another form."""
    module = found.module
    if any(sync.kind is not SyncKind.TEST for sync in found.syncs):
        return None
    search = _search(module, found.syncs[0].node)
    if search is None or _NAME in module.named or module.syntax.span(search.loop).cell is not None:
        return None
    guards, test = list[ast.expr](), search.test
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        *guards, test = test.values
    waiting = {sync.node for sync in found.syncs}
    if any(waiting & {*walk(guard)} for guard in guards) or not waiting <= {*walk(test)}:
        return None
    text = _flag(module, test, "all" if search.answer else "any")
    return None if text is None else _rewritten(module, search, text, guards)


def _search(module: ModuleIndex, node: ast.expr) -> _Search | None:
    """The loop around a test, if it holds nothing else and is followed by the other answer."""
    parents = module.syntax.parents
    branch = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.If)), None)
    loop = parents.get(branch) if branch is not None else None
    if branch is None or not isinstance(loop, ast.For) or loop.body != [branch] or loop.orelse or branch.orelse:
        return None
    place = module.syntax.place(loop)
    after = getattr(parents[loop], place[0])[place[1] + 1 :][:1] if place is not None else []
    match branch.body, after:
        case [ast.Return(value=ast.Constant(value=bool() as first))], [
            ast.Return(value=ast.Constant(value=bool() as last)) as otherwise
        ] if first is not last:
            return _Search(loop, branch.test, otherwise, last)
    return None


def _flag(module: ModuleIndex, test: ast.expr, method: str) -> str | None:
    """``not torch.isfinite(x).all()`` is ``torch.isfinite(x).all()`` of one tensor, and ``torch.isnan(x).any()`` or
    ``torch.isinf(x).any()`` both with a bar between them."""
    if method == "all":
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Attribute(attr="all"), args=[], keywords=[])):
                return module.syntax.text(test.operand)
        return None
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
    for part in parts:
        match part:
            case ast.Call(func=ast.Attribute(attr="any"), args=[], keywords=[]):
                continue
        return None
    return " | ".join(map(module.syntax.text, parts))


def _rewritten(module: ModuleIndex, search: _Search, flag: str, guards: list[ast.expr]) -> Fix | None:
    syntax = module.syntax
    start, end = syntax.offsets(search.loop)[0], syntax.offsets(search.otherwise)[1]
    code = syntax.source.text[start:end]
    if "#" in code:
        return None
    indent = " " * search.loop.col_offset
    condition = " and ".join(_operand(module, guard) for guard in guards)
    going = f"for {syntax.text(search.loop.target)} in {_operand(module, search.loop.iter)}"
    made = f"{_NAME} = [{flag} {going}{f' if {condition}' if condition else ''}]"
    if len(indent) + len(made) > max(88, syntax.source.width):
        lines = [flag, going, *([f"if {condition}"] if condition else [])]
        made = f"{_NAME} = [\n" + "".join(f"{indent}    {line}\n" for line in lines) + f"{indent}]"
    result = (
        f"return not {_NAME} or bool(torch.stack({_NAME}).all())"
        if search.answer
        else f"return bool({_NAME}) and bool(torch.stack({_NAME}).any())"
    )
    if not re.search(r"^\s*import torch$", syntax.source.text, re.MULTILINE):
        return None
    edit = Edit(syntax.path, syntax.span_at(start, end), f"{made}\n{indent}{result}")
    return Fix("test all tensors at once and wait once; they have to be on one GPU", Safety.UNSAFE, (edit,))


def _operand(module: ModuleIndex, node: ast.expr) -> str:
    text = module.syntax.text(node)
    return f"({text})" if isinstance(node, ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr) else text
