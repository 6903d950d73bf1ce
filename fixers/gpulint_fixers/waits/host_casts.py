"""Casts that copy a tensor to the host: ``(predicted == labels).type(torch.FloatTensor)``."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Edit, Fix, Safety
from gpulint.placement.host_results import casts_to_host
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import LoopNode, last_name
from gpulint_fixers.waits.device_reads import read_around
from gpulint_fixers.waits.sums.device_sums import variable_of

_CASTS = {
    "FloatTensor": "float",
    "DoubleTensor": "double",
    "HalfTensor": "half",
    "LongTensor": "long",
    "IntTensor": "int",
    "ShortTensor": "short",
    "ByteTensor": "byte",
    "BoolTensor": "bool",
}


def cast_on_gpu(project: Project, found: HostWait, target: ast.Name, loop: LoopNode) -> Fix | None:
    """Let a value have the other type on the GPU, if it is a number that is read further down and nothing else."""
    casts = [sync.node for sync in found.syncs]
    if not all(isinstance(cast, ast.Call) and casts_to_host(cast) for cast in casts):
        return None
    module = found.module
    nodes = variable_of(project, found, loop, target.id).occurrences() or []
    bindings = module.scope(target).lookup(target.id)
    own = {found.statement, target}
    uses = [
        node
        for node in nodes
        if isinstance(node.ctx, ast.Load) and any(one.node in own for one in reaching(module, bindings, node))
    ]
    if not uses or any(read_around(module, node) is None for node in uses):
        return None
    syntax, edits = found.module.syntax, list[Edit]()
    for cast in casts:
        assert isinstance(cast, ast.Call)
        name = last_name(cast.args[0]) if not isinstance(cast.args[0], ast.Constant) else ""
        if len(cast.args) != 1 or cast.keywords or name not in _CASTS:
            return None
        end = syntax.offsets(cast)[1]
        dot = syntax.source.text.rindex(".", 0, syntax.offsets(cast.func)[1])
        edits.append(Edit(syntax.path, syntax.span_at(dot, end), f".{_CASTS[name]}()"))
    return Fix("change the type on the GPU instead of copying to the host", Safety.UNSAFE, tuple(edits))
