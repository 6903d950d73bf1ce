"""Values that an environment of reinforcement learning takes: a simulator on the host cannot go on without them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_ENVIRONMENT = regex.compile(r"(^|_|[a-z])envs?($|_|\d)|^v?envs?|environment|simulator|emulator|^game$", re.IGNORECASE)
_STEPS = ("step", "step_async", "send_actions")
MAX_BLOCKS = 24
"""Functions from which on no more are followed."""
MAX_NAMES = 12
"""Most variables that a value is followed through within one function."""
MAX_USES = 50
"""Most uses of each that are looked at."""


def feeds_rl_environment(module: ModuleIndex, node: ast.AST, calls: Sequence[NodeRef]) -> bool:
    """Return whether the value of ``node`` reaches ``env.step(...)`` in its function or, returned, in one that calls
    it.

    ``calls`` lead to the node's function, outermost first.
    """
    if not any(module.calls_by_name.get(name) for name in _STEPS) and not calls:
        return False
    for site in (NodeRef(module, node), *reversed(calls)):
        taken, returned = _goes(site.module, site.node)
        if taken or not returned:
            return taken
    return False


@query
def rolls_out(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether each round of a loop goes through many steps of an environment, in a loop of its own or of a
    function that it calls: each of these waits for the action."""
    resolver = project.fact(Resolver)
    blocks: list[tuple[ModuleIndex, ast.AST]] = [(module, loop)]
    for where, block in blocks:
        calls = [part for part in walk(block) if isinstance(part, ast.Call)]
        if any(_steps_environment(call) and _is_in_inner_loop(where, call, block) for call in calls):
            return True
        if len(blocks) < MAX_BLOCKS:
            callees = (one for call in calls for one in resolver.callees(where, call))
            found = [(one.module, one.node) for one in callees if isinstance(one.node, FUNCTIONS)]
            blocks += dict.fromkeys(one for one in found if one not in blocks)
    return False


def _is_in_inner_loop(module: ModuleIndex, node: ast.AST, block: ast.AST) -> bool:
    for up in module.syntax.ancestors(node):
        if up is block:
            return False
        if isinstance(up, LOOPS):
            return True
    return False


def _goes(module: ModuleIndex, node: ast.AST) -> tuple[bool, bool]:
    """Return whether a value is passed to an environment within its function, and whether it is returned by that."""
    function = module.function(node)
    names = set[str]()
    queue: list[ast.AST] = [node]
    returned = False
    while queue and len(names) <= MAX_NAMES:
        for up in module.syntax.ancestors(queue.pop()):
            if isinstance(up, ast.Call) and _steps_environment(up):
                return True, False
            if isinstance(up, ast.Return):
                returned = True
            if isinstance(up, ast.Assign | ast.AnnAssign):
                targets = up.targets if isinstance(up, ast.Assign) else [up.target]
                new = {part.id for target in targets for part in walk(target) if isinstance(part, ast.Name)} - names
                names |= new
                queue += [part for name in sorted(new) for part in _reads(module, name).get(function, ())]
            if isinstance(up, ast.stmt):
                break
    return False, returned


@query
def _reads(module: ModuleIndex, name: str) -> dict[FunctionNode | None, list[ast.Name]]:
    """Function (None: the module itself) -> where it reads a variable first."""
    table: dict[FunctionNode | None, list[ast.Name]] = {}
    for use in module.uses.get(name, ()):
        found = table.setdefault(module.function(use), [])
        if len(found) < MAX_USES:
            found.append(use)
    return table


def _steps_environment(call: ast.Call) -> bool:
    """``envs.step(actions)``, ``self.env.step(action)``."""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _STEPS
        and bool(_ENVIRONMENT.search(last_name(call.func.value)))
    )
