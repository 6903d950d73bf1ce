"""Statements that wait behind the training of a program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.left_out_places import is_left_out
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LEAST = 30
"""Seconds; shorter waits let logs be flushed."""
_TRAINING = frozenset({Role.STEP, Role.EPOCH})
_FITS = frozenset({"fit", "train", "fit_generator", "train_model", "run_training", "finetune"})
_QUIET = frozenset(
    (
        "print info debug close finish destroy_process_group save flush log exit barrier push_to_hub save_model "
        "save_pretrained save_state create_model_card upload_file upload_folder log_artifact"
    ).split()
)


def last_statements(project: Project, module: ModuleIndex) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """(statement that waits, the training statement before it) where nothing but output comes after."""
    for body in _bodies(module):
        line = list(_line(body))
        if not any(_waits(project, module, statement) for statement in line):
            continue
        work: ast.stmt | None = None
        wait: ast.stmt | None = None
        for statement in line:
            if trains(project, module, statement):
                work, wait = statement, None
            elif work is not None and _waits(project, module, statement):
                wait = wait or statement
            elif wait is not None and not _quiet(statement):
                wait = None
        if work is None or wait is None or project.fact(Guards).is_off_by_default(module, wait):
            continue
        if not is_left_out(project, module, wait):
            yield wait, work


def _bodies(module: ModuleIndex) -> Iterator[list[ast.stmt]]:
    """Blocks in which a program's main line runs: the module and its functions."""
    yield module.syntax.tree.body
    for function in module.functions:
        if not any(isinstance(up, LOOPS) for up in module.syntax.ancestors(function)):
            yield function.body


def _line(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements one after another, with what an ``if`` runs in its place."""
    for statement in body:
        if isinstance(statement, ast.If) and not statement.orelse:
            yield from _line(statement.body)
        else:
            yield statement


def trains(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a statement holds a training loop or calls what trains."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return False
    for node in walk(statement):
        if isinstance(node, LOOPS) and project.fact(LoopContexts).role(module, node) in _TRAINING:
            return True
        if isinstance(node, ast.Call):
            if last_name(node.func) in _FITS and not isinstance(node.func, ast.Name) and _is_run(node):
                return True
            for callee in project.fact(Resolver).callees(module, node):
                if isinstance(callee.node, FUNCTIONS) and any(
                    isinstance(inner, LOOPS) and project.fact(LoopContexts).role(callee.module, inner) in _TRAINING
                    for inner in walk(callee.node)
                ):
                    return True
    return False


def _is_run(call: ast.Call) -> bool:
    """``trainer.train()``, ``model.fit(x)``; not ``model.train()``, which only sets a mode."""
    assert isinstance(call.func, ast.Attribute)
    return call.func.attr != "train" or "train" in last_name(call.func.value).lower()


def _waits(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.While):
        forever = isinstance(statement.test, ast.Constant) and bool(statement.test.value)
        return forever and all(_only_sleeps(inner) for inner in statement.body)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if project.fact(Resolver).call_names(module, call) & {"time.sleep"} and call.args:
            known = project.fact(Constants).of(module, call.args[0])
            return known.every(lambda value: isinstance(value, int | float) and value >= _LEAST)
        return isinstance(call.func, ast.Name) and call.func.id == "input"
    return False


def _only_sleeps(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and last_name(statement.value.func) in ("sleep", "print")
    )


def _quiet(statement: ast.stmt) -> bool:
    """Return whether a statement only reports, closes or waits."""
    calls = [node for node in walk(statement) if isinstance(node, ast.Call)]
    return not isinstance(statement, LOOPS) and all(
        last_name(call.func) in _QUIET | {"sleep", "input"} for call in calls
    )
