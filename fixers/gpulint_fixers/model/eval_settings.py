"""What else the batch size of an evaluation loader applies to, so that a larger one would change more than it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.query import query
from gpulint.values.constants import Constants
from gpulint.workload.batch_sources import BatchSource, BatchSources
from gpulint.workload.data_split import Split
from gpulint.workspace.module_index import ModuleIndex, last_name


def may_be_one(project: Project, source: BatchSource) -> bool:
    """Return whether the program sets the batch size to 1 in one case and to more in another (``batch_size = 1 if
    args.timed else 16``): what runs in the first case may expect single samples."""
    module = source.batch.module
    if not project.fact(Constants).of(module, source.batch.node).any(lambda value: value == 1):
        return False
    return any(
        any(isinstance(part, ast.Constant) and part.value == 1 for part in _outcomes(value))
        and (isinstance(value, ast.IfExp) or isinstance(module.syntax.parents.get(statement), ast.If))
        for statement, value in _assigned(module, source.text)
    )


def _assigned(module: ModuleIndex, text: str) -> Iterator[tuple[ast.Assign, ast.expr]]:
    for statement in module.syntax.of(ast.Assign):
        if any(
            isinstance(target, ast.Name | ast.Attribute) and ast.unparse(target) == text for target in statement.targets
        ):
            yield statement, statement.value


def _outcomes(value: ast.expr) -> Iterator[ast.expr]:
    """Yield what a value may be: both sides of a choice."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            yield from _outcomes(body)
            yield from _outcomes(orelse)
        case _:
            yield value


def applies_elsewhere(project: Project, source: BatchSource, setting: Path) -> str | None:
    """Return why the setting ``source.text``, which the file ``setting`` sets, is not that of one loader alone: another
    one that takes it drops the last batch, or trains; another program sets the same one. None if nothing shows that."""
    name = last_name(source.batch.node) if isinstance(source.batch.node, ast.expr) else ""
    if not name:
        return None
    module = source.call.module
    paths = sorted({module.path, *project.python_files_with(name.encode())})
    for other in filter(None, map(project.module_at, paths)):
        if made := _dropping(other, name):
            return f"`{name}` is also the size of {made} in {other.path.name}, which drops the last batch"
        for size in project.fact(BatchSources).in_module(other):
            if size.split is Split.TRAIN and _reads(size.batch.node, name):
                return f"`{name}` is also the size of training batches in {other.path.name}"
    users = {*project.fact(GpuPrograms).users(module.path)} if setting != module.path else set()
    for path in sorted(users - {setting}):
        if (user := project.module_at(path)) is not None and any(_is_option(call, name) for call in user.calls):
            return f"{path.name} has an option `{name}` of its own for the same loader; raise both"
    return None


@query
def _dropping(module: ModuleIndex, name: str) -> str:
    """Return a call that gets a setting and ``drop_last``, other than False; empty if there is none."""
    for call in module.calls:
        drops = keyword_value(call, "drop_last")
        if drops is None or (isinstance(drops, ast.Constant) and not drops.value):
            continue
        if any(_reads(part, name) for part in (*call.args, *(keyword.value for keyword in call.keywords))):
            return f"a `{last_name(call.func)}`"
    return ""


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and last_name(node) == name


def _is_option(call: ast.Call, name: str) -> bool:
    """``parser.add_argument("--eval_batch_size", ...)``"""
    return last_name(call.func) in ("add_argument", "add_option") and any(
        isinstance(part, ast.Constant)
        and isinstance(part.value, str)
        and part.value.lstrip("-").replace("-", "_") == name
        for part in call.args
    )


def made_again(project: Project, source: BatchSource) -> list[BatchSource]:
    """Return the other constructions of the loader that the same function makes in the same way and keeps under the
    same name: the branches of one choice, of which a program takes either."""
    module = source.call.module
    name = _kept_as(module, source.node)
    if not name:
        return []
    return [
        other
        for other in project.fact(BatchSources).in_module(module)
        if other.node is not source.node
        and other.call.module is module
        and other.split is Split.EVAL
        and ast.unparse(other.node.func) == ast.unparse(source.node.func)
        and module.function(other.node) is module.function(source.node)
        and _kept_as(module, other.node) == name
    ]


def _kept_as(module: ModuleIndex, call: ast.Call) -> str:
    match module.syntax.parents.get(call):
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return ast.unparse(target)
    return ""


def drops_last(source: BatchSource) -> bool:
    """Return whether a construction may drop the last batch, as far as its call shows."""
    drops = keyword_value(source.node, "drop_last")
    return drops is not None and not (isinstance(drops, ast.Constant) and not drops.value)


def fallback(size: ast.AST) -> ast.expr | None:
    """Return ``args.batch_size`` of ``args.eval_batch_size or args.batch_size``; None for another expression."""
    match size:
        case ast.BoolOp(op=ast.Or(), values=[*_, last]):
            return last
    return None


def inside(node: ast.AST, around: ast.AST) -> bool:
    """Return whether a node is a part of another."""
    return any(part is node for part in walk(around))
