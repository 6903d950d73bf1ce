"""Numbers that a step reads once and uses several times: to add them up, to list them, to log them."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Declined, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import LoopNode, ModuleIndex
from gpulint_fixers.waits.deferred_reads import Variable, defer
from gpulint_fixers.waits.device_reads import reads_of
from gpulint_fixers.waits.double_precision import has_doubles, in_single
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.lists.device_lists import is_fresh, kept_value
from gpulint_fixers.waits.logs.log_intervals import logged_seldom
from gpulint_fixers.waits.mixed_values import is_of_tensors
from gpulint_fixers.waits.sums.added_kinds import is_whole
from gpulint_fixers.waits.sums.device_sums import exactness, variable_of

_DOUBLES = (b"float64", b"double")
"""Words of models in double precision."""
_MOST = 12
"""Assignments of one variable, all of which are looked at for each use."""


def held(project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode) -> Fix | Declined:
    """``value = loss.item()``: keep the value on the GPU, and read it where it is logged or used after the loop."""
    module = found.module
    reads = reads_of(project, found)
    match statement.targets:
        case [ast.Name(id=name)] if not isinstance(reads, Declined):
            pass
        case _:
            return reads if isinstance(reads, Declined) else Declined("several variables are set at once")
    if len(module.scope(loop).bindings.get(name, [])) > _MOST:
        return Declined(f"`{name}` is set more than {_MOST} times")
    exact = exactness(project, module, statement.value, reads)
    if isinstance(exact, Declined):
        return _why_not(project, found, variable_of(project, found, loop, name))
    plain = any(statement.value is read.whole for read in reads)
    variable = replace(variable_of(project, found, loop, name), definition=statement)
    counts = plain and is_integer(module, reads[0].tensor) and _is_always_whole(variable)
    variable = replace(variable, integers=counts)
    made = defer(project, variable, "int({})" if counts else "float({})", own={statement})
    if isinstance(made, Declined):
        return made
    if is_of_tensors(module, statement) and any(edit.text in (f"float({name})", f"int({name})") for edit in made.edits):
        return Declined(f"`{name}` may be something else than a number as well")
    computed = not plain or bool(made.reasons)  # a value that is only read is the same number in any precision
    doubles = computed and has_doubles(project, module)
    reasons = [f"keep `{name}` on the GPU and read it where it is used", *exact.reasons]
    if computed and not doubles:
        reasons.append(in_single(project, module))
    if made.logs is not None:
        reasons.append(f"it is logged every {made.logs.every} steps")
    edits = list(made.edits)
    for read in reads:
        copied = "" if is_integer(module, read.tensor) else kept_value(read.tensor)
        if doubles and not plain and _is_sum_of_doubles(module, read.tensor):
            copied = ""
        elif doubles:  # which is a copy unless the model is in double precision itself
            base = read.tensor.value if isinstance(read.tensor, ast.Subscript) else read.tensor
            needless = is_fresh(module, loop, base) or not any(map(project.word_index.mentioning, _DOUBLES))
            copied = f"{copied.replace('.clone()', '') if needless else copied}.double()"
        edits.append(read.replaced(module, copied))
    return Fix("; ".join(dict.fromkeys([*reasons, *made.reasons])), Safety.UNSAFE, tuple(dict.fromkeys(edits)))


def _is_always_whole(variable: Variable) -> bool:
    """Return whether the uses of a value see integers alone, in whichever branch it is set."""
    bindings = variable.module.scope(variable.loop).bindings.get(variable.name, [])
    uses = [node for node in variable.occurrences() or [] if isinstance(node.ctx, ast.Load)]
    seen = {id(one): one for node in uses for one in reaching(variable.module, bindings, node)}.values()
    return all(one.value is not None and not one.path and is_whole(variable.module, one.value) for one in seen)


def _why_not(project: Project, found: HostWait, variable: Variable) -> Declined:
    """Return why a value is not kept that is more than a number, or computed of several."""
    nodes = [node for node in variable.occurrences() or [] if isinstance(node.ctx, ast.Load)]
    if nodes and all(variable.is_inside(node) and logged_seldom(project, found.module, node) for node in nodes):
        lines = {variable.statement(node).lineno for node in nodes}
        where = f" in line {min(lines)}" if len(lines) == 1 else ""
        return Declined(f"`{variable.name}` is used{where} every few steps only: compute it there")
    return Declined("the value is used in the same step, and not only to log it or to add it up")


def _is_sum_of_doubles(module: ModuleIndex, tensor: ast.expr) -> bool:
    """``total``, which starts as a number and only gets ``total += norm.detach().double() ** 2``."""
    if not isinstance(tensor, ast.Name):
        return False
    bindings = module.scope(tensor).lookup(tensor.id)
    added = [ast.unparse(one.node.value) for one in bindings if isinstance(one.node, ast.AugAssign)]
    return bool(added) and all(".detach().double()" in text for text in added)
