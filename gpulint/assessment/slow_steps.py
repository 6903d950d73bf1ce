"""Steps that wait for something else than the GPU, in seconds: a server, a simulator, a figure, another process."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, dotted

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

MAX_BLOCKS = 24
"""Functions from which on no more are looked into."""
MAX_CALLS = 2
"""Most calls from the loop to the function that waits."""
LEAST_SECONDS = 0.05
"""Shorter pauses cost no more than a wait."""
_WAITS = regex.compile(
    r"^(subprocess\.(run|call|check_call|check_output)|os\.system|ray\.get|time\.sleep)$"
    r"|^(requests|httpx)\.(get|post|put|request)$|(^|\.)urlopen$|\.(completions|messages|responses)\.create$"
    r"|\.generate_content$|^plt\.savefig$|(^|\.)fig(ure)?\.savefig$"
    r"|(^|\.)(mj_step|stepSimulation)$|(^|[._])sim(ulator|ulation)?\.(run|simulate|step)$|^v(ina)?\.dock$",
    re.IGNORECASE,
)
"""Calls that take the host some tenths of a second and more."""


def waits_elsewhere(subject: Subject) -> bool:
    """Return whether each step around a finding also waits for something that is not the GPU, which idles then."""
    loops = [context.loop for context in subject.contexts if context.role is Role.STEP]
    return bool(loops) and all(_waits_always(subject.project, loop) for loop in loops)


@query
def _waits_always(project: Project, loop: NodeRef) -> bool:
    guards = project.fact(Guards)
    return always_reaches(
        project,
        loop,
        lambda module, part: isinstance(part, ast.Call) and _waits(part) and not guards.is_periodic(module, part),
    )


def always_reaches(project: Project, loop: NodeRef, is_meant: Callable[[ModuleIndex, ast.AST], bool]) -> bool:
    """Return whether each round of a loop reaches a part of some kind, in its body or in functions that it calls."""
    guards, resolver = project.fact(Guards), project.fact(Resolver)
    blocks: list[tuple[NodeRef, int]] = [(loop, 0)]
    seen = {loop.node}
    for block, depth in blocks:
        for part in walk(block.node):
            if part is loop.node or not isinstance(part, ast.Call | ast.For):
                continue
            if guards.is_conditional(block.module, part, block.node):
                continue
            if is_meant(block.module, part):
                return True
            if isinstance(part, ast.Call) and depth < MAX_CALLS and len(blocks) < MAX_BLOCKS:
                for one in resolver.callees(block.module, part):
                    if isinstance(one.node, FUNCTIONS) and one.node not in seen:
                        seen.add(one.node)
                        blocks.append((one, depth + 1))
    return False


def _waits(call: ast.Call) -> bool:
    name = dotted(call.func)
    if name == "time.sleep":
        match call.args:
            case [ast.Constant(value=int() | float() as seconds)]:
                return seconds >= LEAST_SECONDS
    return _WAITS.search(name) is not None
