"""Numbers that each step copies to the GPU, which waits for its queue as a read does, where no finding says so."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Fix
from gpulint.placement.devices import Devices
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.source import in_words
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import LOOPS, ModuleIndex
from gpulint_fixers.waits.step_tests import branches_around

_MAKERS = frozenset({"torch.tensor", "torch.as_tensor"})
_MOST = 3
"""Most lines that are named."""


def told_of_numbers(project: Project, found: HostWait, made: Fix, here: frozenset[ast.AST]) -> Fix:
    """Return a fix that says which lines of the same step still wait for the copy of a number."""
    loop = found.context.loop
    calls = _copied(project, loop.module, loop.node) if isinstance(loop.node, LOOPS) else ()
    lines = {call.lineno: call for call in calls if branches_around(loop.module, call, loop.node) <= here}
    if not lines:
        return made
    spans = [loop.module.syntax.span(lines[line]) for line in sorted(lines)]
    verb = "copies a number" if len(spans) == 1 else "copy numbers"
    still = f"each step still waits where {in_words(spans[:_MOST], len(spans[_MOST:]))} {verb} to the GPU"
    return replace(made, description=f"{made.description}; {still}: `torch.full((), value, device=...)` does not")


@query
def _copied(project: Project, module: ModuleIndex, loop: ast.AST) -> tuple[ast.Call, ...]:
    """Return the calls of a loop's body that make a tensor of a number, and put it on the GPU:
    ``torch.tensor(0.0, device=device)``."""
    guards, function = project.fact(Guards), module.function(loop)
    calls = (call for name in ("tensor", "as_tensor") for call in module.calls_by_name.get(name, ()))
    return tuple(
        call
        for call in calls
        if module.function(call) is function
        and loop in module.syntax.ancestors(call)
        and _is_copied(project, module, call)
        and not guards.is_periodic(module, call)
        and not guards.is_debugging(module, call)
        and not guards.is_error_path(module, call)
        and not guards.runs_once(module, call)
        and not guards.is_before_loop_exit(module, call)
    )


def _is_copied(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    device = next((keyword.value for keyword in call.keywords if keyword.arg == "device"), None)
    match call.args:
        case [ast.Constant(value=int() | float())] if device is not None:
            made = bool(project.fact(Resolver).call_names(module, call) & _MAKERS)
            return made and project.fact(Devices).may_be_gpu(module, device)
    return False
