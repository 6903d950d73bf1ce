"""Functions of a file that a system runs as jobs, and the commands that they start."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpulint.documents.calls import programs
from gpulint.documents.specs.lookup import Found
from gpulint.documents.yamltree import UNKNOWN, Node
from gpulint.source import Fragment

if TYPE_CHECKING:
    from gpulint.documents.calls.names import Names
    from gpulint.documents.calls.trees import Trees
    from gpulint.documents.shell import Script
    from gpulint.documents.tasks import Task
    from gpulint.libraries.jobs import Format

_RUNNERS = frozenset(
    "subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen os.system".split()
)
_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Match)
"""What is in one of these runs under a condition, or several times."""

Job = tuple["Format", Node, list["Task"]]


def with_commands(jobs: list[Job], names: Names, trees: Trees) -> Iterator[Task]:
    """The tasks of some jobs; those that run a function of the file with the commands that it starts.

    A function that starts programs is not taken for a program itself. Neither are functions with unlike GPUs: what one
    of them does is not what the others do.
    """
    own = [(name, tasks) for row, root, tasks in jobs if (name := _local(row, root))]
    counts = {task.resources.gpus and task.resources.gpus.value for _, tasks in own for task in tasks}
    for row, root, tasks in jobs:
        name = _local(row, root)
        if not name:
            yield from tasks
            continue
        scripts = _started(name, names, trees)
        kept = len(counts) == 1 and not scripts
        for task in tasks:
            yield replace(task, scripts=scripts or (task.scripts if kept else ())) if task.role == "main" else task


def _local(row: Format, root: Node) -> str:
    """The function of this file that a job runs; "" if it runs none."""
    is_function = row.program is not None and row.program.kind == "function"
    return programs.local_function(row.program, Found(root)) if is_function and row.program is not None else ""


def _started(function: str, names: Names, trees: Trees) -> tuple[Script, ...]:
    """The commands of a function or class that starts some; what it does besides is a command that is unknown."""
    scripts: list[Script] = []
    for definition in names.module.tree.body:
        if getattr(definition, "name", None) != function:
            continue
        for call in ast.walk(definition):
            if not isinstance(call, ast.Call) or names.qualified(call.func) not in _RUNNERS:
                continue
            is_sure = bool(call.args) and not any(isinstance(up, _BLOCKS) for up in names.module.ancestors(call))
            scripts += [*(_script(trees.node(call.args[0])) if is_sure else ()), _rest(call, trees)]
    return tuple(scripts)


def _rest(call: ast.Call, trees: Trees) -> Script:
    from gpulint.documents.shell import parse_script

    origin, start, _ = trees.origins.at(call)
    return parse_script(Fragment("${function}", origin.owner, ((0, origin.owner_offset(start)),), origin.cell))


def _script(node: Node) -> list[Script]:
    from gpulint.documents.specs.common import argv, shell

    if node.tag == UNKNOWN and node.value.startswith("${"):
        return []
    return list(argv(node) if node.kind == "list" else shell(node) if node.kind == "scalar" else ())
