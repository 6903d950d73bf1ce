"""Functions of a file that a system runs as jobs, and the commands that they start."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.calls import programs
from gpulint.documents.calls.trees import joined
from gpulint.documents.specs.lookup import Found
from gpulint.documents.yamltree import Node
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
    runners = _runners(names) if own else {}
    for row, root, tasks in jobs:
        name = _local(row, root)
        if not name:
            yield from tasks
            continue
        scripts = _started(runners.get(name, []), names, trees)
        kept = len(counts) == 1 and not scripts
        for task in tasks:
            yield replace(task, scripts=scripts or (task.scripts if kept else ())) if task.role == "main" else task


def _local(row: Format, root: Node) -> str:
    """The function of this file that a job runs; "" if it runs none."""
    is_function = row.program is not None and row.program.kind == "function"
    return programs.local_function(row.program, Found(root)) if is_function and row.program is not None else ""


def _runners(names: Names) -> dict[str, list[ast.Call]]:
    """Calls that start programs, by the function or class at the file's top that they are in."""
    found: dict[str, list[ast.Call]] = {}
    for call in names.module.of(ast.Call):
        if isinstance(call.func, ast.Attribute | ast.Name) and names.qualified(call.func) in _RUNNERS:
            around = [*names.module.ancestors(call)][-2:-1]
            found.setdefault(getattr(around[0], "name", "") if around else "", []).append(call)
    return found


def _started(calls: list[ast.Call], names: Names, trees: Trees) -> tuple[Script, ...]:
    """The commands of a function or class that starts some; what it does besides is a command that is unknown."""
    scripts: list[Script] = []
    for call in calls:
        is_sure = bool(call.args) and not any(isinstance(up, _BLOCKS) for up in names.module.ancestors(call))
        scripts += [*(_commands(call, trees) if is_sure else ()), _rest(call, trees)]
    return tuple(scripts)


def _rest(call: ast.Call, trees: Trees) -> Script:
    from gpulint.documents.shell import parse_script

    origin, start, _ = trees.origins.at(call)
    return parse_script(Fragment("${function}", origin.owner, ((0, origin.owner_offset(start)),), origin.cell))


def _commands(call: ast.Call, trees: Trees) -> tuple[Script, ...]:
    """The command of ``subprocess.run([...], cwd=...)``."""
    from gpulint.documents.shell import parse_script
    from gpulint.documents.specs.common import argv, shell

    node = trees.node(call.args[0])
    folder = keyword_value(call, "cwd")
    if node.kind == "map" or node.is_unknown:
        return ()
    if folder is None:
        return argv(node) if node.kind == "list" else shell(node)
    there = trees.node(folder)
    words = [programs.word(item) for item in node.elements] or [node.fragment]
    start = [programs.put("cd", words[0]), programs.word(there), programs.put("&&", words[0])]
    return (parse_script(joined([*start, *words], " ")),)
