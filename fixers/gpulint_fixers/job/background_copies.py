"""Copies that a program leaves to a process in the background: a wait at its end lets them finish."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import ModuleIndex, dotted

_COPIES = regex.compile(
    r"\b(cp|mv|rsync|scp|sftp|rclone|tar|zip|pigz|gzip|s3cmd|s5cmd|azcopy|gsutil|ossutil(64)?|hdfs|hadoop|upload\w*|sync)\b"
    r"|\baws\s+s3\b|\bgcloud\s+storage\b|\bhuggingface-cli\b"
)
"""Programs that copy files or send them elsewhere."""
_SHELLS = frozenset({"os.system", "subprocess.call", "subprocess.run", "subprocess.Popen"})
_IN_BACKGROUND = regex.compile(r"(?<!&)&[ \t]*[\"']")
"""A command that the shell leaves running: ``os.system("cp a b &")``."""
_WAITS = frozenset({"wait", "communicate", "poll"})


def background_copy(project: Project, path: Path) -> str:
    """Return where a program, or a module that it imports, starts a copy in the background that nothing waits for
    afterwards; empty if nothing does."""
    for one in (path, *sorted(project.imported(path))):
        module = project.module_at(one)
        if module is not None and (line := _first_line(project, module)):
            return f"{one.relative_to(project.root).as_posix()}:{line}"
    return ""


@query
def _first_line(project: Project, module: ModuleIndex) -> int:
    return next((call.lineno for call in _started(project, module) if not _is_waited_for(module, call)), 0)


def _started(project: Project, module: ModuleIndex) -> Iterator[ast.Call]:
    """Yield the calls that start copies and go on."""
    for call in (one for name in ("Popen", "system", "call", "run") for one in module.calls_by_name.get(name, ())):
        if not call.args or project.fact(Resolver).call_names(module, call).isdisjoint(_SHELLS):
            continue
        command = _text(module, call.args[0])
        goes_on = dotted(call.func).rpartition(".")[2] == "Popen" or _IN_BACKGROUND.search(command) is not None
        if goes_on and _COPIES.search(command):
            yield call


def _text(module: ModuleIndex, command: ast.expr) -> str:
    """The text of a command, with what its variables are bound to."""
    names = [part for part in walk(command) if isinstance(part, ast.Name)]
    bound = (one.value for name in names for one in reaching(module, module.scope(name).lookup(name.id), name))
    return " ".join(module.syntax.text(node) for node in (command, *bound) if node is not None)


def _is_waited_for(module: ModuleIndex, started: ast.Call) -> bool:
    """Return whether a program waits for a process after it has started it, or in another function."""
    match module.syntax.parents.get(started):
        case ast.Attribute() | ast.withitem():
            return True
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) if name := dotted(target):
            calls = (call for method in _WAITS for call in module.calls_by_name.get(method, ()))
            return any(
                isinstance(call.func, ast.Attribute)
                and dotted(call.func.value) == name
                and (call.lineno > started.lineno or _outermost(module, call) is not _outermost(module, started))
                for call in calls
            )
    return False


def _outermost(module: ModuleIndex, node: ast.AST) -> ast.AST | None:
    """Return the function that a place is in and that is in no other."""
    functions = [up for up in module.syntax.ancestors(node) if isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef)]
    return functions[-1] if functions else None
