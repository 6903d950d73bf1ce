"""Programs that are not written yet."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name


@query
def is_stub(module: ModuleIndex) -> bool:
    """Return whether a program does nothing yet: it ends in ``raise NotImplementedError`` in any case, or has no
    statement that does anything."""
    functions = {part.name: part for part in module.syntax.tree.body if isinstance(part, FUNCTIONS)}
    run = [*_run(module.syntax.tree.body)]
    called = [functions[name] for statement in run if (name := _called(statement)) in functions]
    if any(map(_raises, run)) or any(_raises(part) for function in called for part in function.body):
        return True
    return not any(_acts(statement) for statement in run if _called(statement) not in functions) and not any(
        _acts(part) for function in called for part in function.body
    )


def _run(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Yield what a module runs when it is started, with its main block."""
    for statement in body:
        if isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test):
            yield from statement.body
        else:
            yield statement


def _called(statement: ast.stmt) -> str:
    """The function that a statement calls and nothing else (``main()``, ``sys.exit(main())``)."""
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Raise):
        value = statement.exc
    if isinstance(value, ast.Call) and last_name(value.func) in ("exit", "SystemExit", "run") and value.args:
        value = value.args[0]
    return value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""


def _raises(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Raise) or statement.exc is None:
        return False
    raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
    return last_name(raised) == "NotImplementedError"


def _acts(statement: ast.stmt) -> bool:
    """Return whether a statement does anything: no import, definition, constant or ``pass``."""
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass, ast.ClassDef, *FUNCTIONS)):
        return False
    if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign):
        return not isinstance(statement.value, ast.Constant)
    return True
