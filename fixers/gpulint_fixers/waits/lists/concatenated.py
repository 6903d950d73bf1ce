"""Lists of copied tensors that are only put together after the loop: the tensors are, and copied as one."""

from __future__ import annotations

import ast

from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint_fixers.edits.statements import insert_after, is_after_handler_of
from gpulint_fixers.waits.deferred_reads import Variable
from gpulint_fixers.waits.device_reads import torch_of

_ARRAYS = frozenset({"numpy.concatenate"})
_TENSORS = frozenset({"torch.cat", "torch.concat", "torch.concatenate"})


def concatenated(
    project: Project, variable: Variable, statement: ast.stmt, steps: tuple[str, ...]
) -> tuple[Edit, ...] | None:
    """``torch.cat(scores).cpu().numpy()`` for ``np.concatenate(scores)``, where ``scores.append(score.cpu().numpy())``
    has filled the list; None for other uses."""
    module, torch = variable.module, torch_of(variable.module)
    names, calls = (_ARRAYS if "numpy" in steps else _TENSORS), list[ast.Call]()
    nodes = [node for node in variable.occurrences() or [] if isinstance(node.ctx, ast.Load)]
    later = [node for node in nodes if variable.statement(node) is not statement]
    if torch is None or "tolist" in steps or not later or any(map(variable.is_inside, later)):
        return None
    for node in later:
        call = module.syntax.parents.get(node)
        if node.lineno <= (variable.loop.end_lineno or 0) or variable.is_set_anew(node):
            return None
        if not isinstance(call, ast.Call) or not project.fact(Resolver).call_names(module, call) & names:
            return None
        if call.args[:1] != [node] or call.keywords or (len(call.args) > 1 and names is _ARRAYS):
            return None
        if any(isinstance(up, ast.JoinedStr) for up in module.syntax.ancestors(node)):
            return None
        calls.append(call)
    copy = ".cpu().numpy()" if names is _ARRAYS else ".cpu()"
    if (below := _below_loop(variable, calls, f"{torch}.cat({{}}){copy}")) is not None:
        return below
    edits = list[Edit]()
    for call in calls:
        (start, stop), (_, named) = module.syntax.offsets(call), module.syntax.offsets(call.func)
        if names is _ARRAYS:
            edits.append(Edit(module.path, module.syntax.span_at(start, named), f"{torch}.cat"))
        edits.append(Edit(module.path, module.syntax.span_at(stop, stop), copy))
    return tuple(edits)


def _below_loop(variable: Variable, calls: list[ast.Call], convert: str) -> tuple[Edit, ...] | None:
    """A line below the loop that puts the tensors together, where the line of the only use has other calls: it would
    get long."""
    module, loop = variable.module, variable.loop
    if len(calls) > 1 or len(calls[0].args) > 1 or loop.orelse or is_after_handler_of(module, calls[0], loop):
        return None
    line = module.syntax.source.line(calls[0].lineno)
    if line.count("(") <= 1 or calls[0].lineno != calls[0].end_lineno:
        return None
    edit = insert_after(module, loop, f"{variable.name} = {convert.format(variable.name)}")
    return None if edit is None else (edit, Edit(module.path, module.syntax.span(calls[0]), variable.name))
