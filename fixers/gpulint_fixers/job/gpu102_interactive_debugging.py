"""Take out a debugger's call."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from gpulint_rules.job.gpu102_interactive_debugging import Stop

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import PythonModule, walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training.unfinished_loops import stops_unfinished_loop
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name
from gpulint_fixers.edits.imports import drop_import
from gpulint_fixers.edits.statements import remove_statement, with_own_comment
from gpulint_fixers.job.debuggers_beside import beside, with_more
from gpulint_fixers.job.failure_tests import FINITE, error_for_failure, is_failure
from gpulint_fixers.job.unhandled_cases import error_for

_ALL = "the debugger is all that the block does: raise an error for the case that it waits for"
_SPEAKS = regex.compile(r"debug|pdb|breakpoint", re.IGNORECASE)
"""Words of comments that are about a debugger."""
_PURE = frozenset("isnan isinf isfinite any all item len isinstance abs max min sum mean numel size dim".split())
"""Calls of a test that do nothing else."""
_SIZES = frozenset({"len", "size", "numel", "dim"})
_AFTER = "after the error"
_DISAGREE = "with sizes that disagree, up to an operation that raises an error for them, if there is one"
_UNLESS = "unless somebody looks at the results there"


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Take out a debugger, with the others of its function that are as safely taken out: without them it would stop
    there."""
    made = _alone(finding, project)
    if not isinstance(made, Fix) or made.safety is not Safety.SAFE:
        return made
    return with_more(made, [_alone(other, project) for other in beside(finding, project)])


def _alone(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Stop) or document is None or document.python is None:
        return Declined("the finding does not say which statement it is")
    if found.statement is None:
        return Declined("the call is part of a statement that does more, or other calls belong to it")
    module = project.module(document)
    if module is not None and _ends_own_test(project, module, found.statement):
        return Declined("it ends the module's own test, to look at the results")
    if module is not None and stops_unfinished_loop(project, module, found.statement):
        return Declined("nothing uses what the loop makes: without the debugger, it would make that for nothing")
    if _empties_block(document.python, found.statement):
        return Declined(_ALL)
    if found.asks:
        return _without_question(document, document.python, found.statement)
    if found.is_prompt:
        return _without_prompt(module, found.statement)
    made = _without_debugger(document, document.python, module, found.statement)
    if found.is_last and isinstance(made, Fix):
        return replace(made, description=f"{made.description}, {_UNLESS}", safety=Safety.UNSAFE)
    return made


def _without_debugger(
    document: Document, syntax: PythonModule, module: ModuleIndex | None, statement: ast.stmt
) -> Fix | Declined:
    import_ = _own_import(syntax, statement)
    if error := error_for(syntax, import_, statement):
        return _as_error(module, syntax, import_, statement, error)
    edit = remove_statement(syntax, statement)
    if edit is None and import_ is not None:
        edit = _on_one_line(syntax, import_, statement)
    if edit is None:
        return Declined("the call shares its line with another statement")
    rest = [one for one in _block(syntax, statement) if one is not statement]
    if rest and import_ is None and all(isinstance(one, ast.Import | ast.ImportFrom | ast.Pass) for one in rest):
        return Declined(_ALL)  # it would go on to do nothing
    if (raised := error_for_failure(syntax, statement)) and _replaced(syntax, import_, statement, raised):
        return _as_error(module, syntax, import_, statement, raised)
    error = _waits_for_error(syntax, statement)
    if edit.text or (import_ is not None and len(_block(syntax, statement)) == 2):
        edit = _without_test(syntax, statement)
        if edit is None:
            return Declined(_ALL)
        unused = () if import_ is not None else _unused_import(module, statement)
        return _made("remove the debugger's call and its condition", edit, error, unused)
    edit = _with_comment(document, edit)
    if edit.span.cell is None and import_ is None:
        edit = with_own_comment(document.source, edit, _SPEAKS)
    both = _with_import(syntax, import_, edit) if import_ is not None else None
    if both is not None:
        return _made("remove the debugger's call and import", both, error)
    if import_ is not None and (apart := _apart(syntax, import_, edit)) is not None:
        return _made("remove the debugger's call and import", edit, error, (apart,))
    if unused := _unused_import(module, statement):
        return _made("remove the debugger's call and import", edit, error, unused)
    return _made("remove the debugger's call", edit, error)


def _unused_import(module: ModuleIndex | None, statement: ast.stmt) -> tuple[Edit, ...]:
    """The removal of the import at the top that only a call needs."""
    called = statement.value if isinstance(statement, ast.Expr) else None
    return drop_import(module, called.func) if module is not None and isinstance(called, ast.Call) else ()


def _without_prompt(module: ModuleIndex | None, statement: ast.stmt) -> Fix | Declined:
    """Remove a prompt at the end of a script, and its import if nothing else needs it."""
    edit = remove_statement(module.syntax, statement) if module is not None else None
    if module is None or edit is None or edit.text:
        return Declined("the call shares its line with another statement")
    unused = _unused_import(module, statement)
    what = "remove the prompt at the end of the program" + (" and its import" if unused else "")
    return Fix(f"{what}, {_UNLESS}", Safety.UNSAFE, (edit, *unused))


def _without_question(document: Document, module: PythonModule, statement: ast.stmt) -> Fix | Declined:
    """Remove an ``input()`` of which nothing uses the answer."""
    calls = [part for part in walk(statement) if isinstance(part, ast.Call)]
    if not all(last_name(call.func) in _PURE | {"input", "format", "str", "numpy", "cpu"} for call in calls):
        return Declined("what is shown is made by calls that may do something else")
    edit = remove_statement(module, statement)
    if edit is None or edit.text:
        return Declined("the call is all that its block does, or shares its line with another statement")
    return Fix(
        "remove the prompt, unless somebody is there to answer it", Safety.UNSAFE, (_with_comment(document, edit),)
    )


def _made(description: str, edit: Edit, error: str, unused: tuple[Edit, ...] = ()) -> Fix:
    if error:
        return Fix(f"{description}; the program then goes on {error}", Safety.UNSAFE, (edit, *unused))
    return Fix(description, Safety.SAFE, (edit, *unused))


def _waits_for_error(module: PythonModule, statement: ast.stmt) -> str:
    """Return how a program goes on without a debugger that stops it for an exception, for values that are not finite or
    for sizes that disagree, where a run without a terminal ends; empty if it stops for nothing of the kind."""
    inner: ast.AST = statement
    for up in module.ancestors(statement):
        if isinstance(up, FUNCTIONS):
            return ""
        if isinstance(up, ast.ExceptHandler):
            return _AFTER if not isinstance(up.body[-1], ast.Raise) else ""
        if isinstance(up, ast.If) and inner in up.body and not isinstance(up.body[-1], ast.Raise):
            named = {last_name(part.func) for part in walk(up.test) if isinstance(part, ast.Call)}
            if named & FINITE or is_failure(up.test):
                return _AFTER
            if _is_check(up.test):
                return _DISAGREE
        inner = up
    return ""


def _as_error(
    module: ModuleIndex | None, syntax: PythonModule, import_: ast.stmt | None, statement: ast.stmt, error: str
) -> Fix | Declined:
    """Put an error in place of a debugger that stands for one: without either, the program would go on."""
    raised = _replaced(syntax, import_, statement, error)
    if raised is None:
        return Declined(_ALL)
    unused = () if import_ is not None else _unused_import(module, statement)
    said = "raise an error in place of the debugger, at which a run without a terminal ends as well"
    return Fix(said, Safety.UNSAFE, (raised, *unused))


def _replaced(module: PythonModule, import_: ast.stmt | None, statement: ast.stmt, error: str) -> Edit | None:
    """Put an error in place of a debugger and of its own import; None where a comment or more is on their lines."""
    text = module.source.text
    (start, _), (_, end) = module.offsets(import_ or statement), module.offsets(statement)
    line, column = module.source.position(end)
    behind = module.source.line(line)[column - 1 :].rstrip("\r\n")
    if behind.strip("; \t\r") or "#" in text[start:end]:
        return None
    return Edit(module.path, module.span_at(start, end + len(behind.rstrip())), error)


def _is_check(test: ast.expr) -> bool:
    """Return whether a condition finds that sizes disagree: ``x.shape[0] != len(y)``, ``not len(x) == len(y)``."""
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    unequal = ast.Eq if negated else ast.NotEq
    return any(
        isinstance(part, ast.Compare) and isinstance(part.ops[0], unequal) and _is_sized(part) for part in walk(test)
    )


def _is_sized(compared: ast.Compare) -> bool:
    parts = walk(compared)
    shapes = any(isinstance(part, ast.Attribute) and part.attr == "shape" for part in parts)
    return shapes or any(isinstance(part, ast.Call) and last_name(part.func) in _SIZES for part in parts)


def _with_comment(document: Document, edit: Edit) -> Edit:
    """The removal of a call together with the comment behind it, which is about the debugger."""
    source, span = document.cell_source(edit.span.cell), edit.span
    if edit.text or not source.line(span.end_line)[span.end_column - 1 :].startswith("#") or span.end_column == 1:
        return edit
    if source.line(span.line)[: span.column - 1].strip():
        return edit
    return Edit(edit.path, Span(span.line, 1, span.end_line + 1, 1, span.cell), "")


def _ends_own_test(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a debugger is the last statement of what a module does only if it is itself run, where programs
    that are something else import it."""
    function = module.function(statement)
    if function is None or isinstance(function, ast.Lambda):
        sites: Sequence[NodeRef] = [NodeRef(module, statement)]
    elif function.body[-1] is not statement:
        return False
    else:
        sites = [*project.fact(Resolver).call_sites(module, function)]
    own = all(site.module is module and _is_run_only(module, site.node) for site in sites)
    users = [path for path in project.fact(GpuPrograms).users(module.path) if path != module.path]
    return bool(sites) and own and bool(users)


def _is_run_only(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is under ``if __name__ == "__main__"``, and the last of it."""
    up = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.If)), None)
    last = next((one for one in (node, *module.syntax.ancestors(node)) if isinstance(one, ast.stmt)), None)
    return up is not None and "__name__" in ast.unparse(up.test) and up.body[-1] is last


def _block(module: PythonModule, statement: ast.stmt) -> list[ast.stmt]:
    """The statements of the block that a statement is in."""
    parent = module.parents.get(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, [])
        if isinstance(block, list) and statement in block:
            return block
    return []


def _empties_block(module: PythonModule, statement: ast.stmt) -> bool:
    """Return whether a block has several such calls or tests that wait for a case, and nothing else: without all of
    them it would be empty, and without one it would look for a part of the cases."""
    call = ast.unparse(statement)
    parent = module.parents.get(statement)
    guard = parent if isinstance(parent, ast.If) and parent.body == [statement] and not parent.orelse else statement
    block = _block(module, guard)
    tests = (one.body if isinstance(one, ast.If) and not one.orelse else [one] for one in block)
    return len(block) > 1 and all([*map(ast.unparse, body)] == [call] for body in tests)


def _own_import(module: PythonModule, statement: ast.stmt) -> ast.stmt | None:
    """The ``import ipdb`` of the line before, of which nothing else is called."""
    block = _block(module, statement)
    before = block[block.index(statement) - 1] if statement in block and block.index(statement) else None
    if not isinstance(before, ast.Import | ast.ImportFrom):
        return None
    if len(before.names) != 1 or not isinstance(statement, ast.Expr) or "#" in module.text(before):
        return None
    name = (before.names[0].asname or before.names[0].name).partition(".")[0]
    region = next((up for up in module.ancestors(statement) if isinstance(up, FUNCTIONS)), module.tree)
    own = set(walk(statement))
    uses = [part for part in walk(region) if isinstance(part, ast.Name) and part.id == name]
    others = [use for use in uses if use not in own]
    return before if len(uses) > len(others) and all(_imports_itself(module, use) for use in others) else None


def _imports_itself(module: PythonModule, use: ast.Name) -> bool:
    """Return whether a name is imported anew in a block around its use, above it."""
    inner: ast.AST = use
    for up in module.ancestors(use):
        if isinstance(inner, ast.stmt):
            block = _block(module, inner)
            for one in block[: block.index(inner)] if inner in block else ():
                named = one.names if isinstance(one, ast.Import | ast.ImportFrom) else []
                if any((alias.asname or alias.name).partition(".")[0] == use.id for alias in named):
                    return True
        if isinstance(up, FUNCTIONS):
            return False
        inner = up
    return False


def _with_import(module: PythonModule, import_: ast.stmt, edit: Edit) -> Edit | None:
    """Remove an import together with the call below it; None where a comment stands between them."""
    if import_.lineno == edit.span.line:
        return edit  # it has the whole line
    found = remove_statement(module, import_)
    if found is None or found.text or edit.span.cell is not None:
        return None
    text = module.source.text
    between = text[module.offsets(import_)[1] : module.source.offset(edit.span.line, edit.span.column)]
    if between.strip(" \t\r\n;"):
        return None
    span = Span(found.span.line, found.span.column, edit.span.end_line, edit.span.end_column)
    return Edit(edit.path, span, "")


def _apart(module: PythonModule, import_: ast.stmt, edit: Edit) -> Edit | None:
    """Remove an import by itself, where a comment that stays is between it and the call."""
    found = remove_statement(module, import_)
    if found is None or found.text or edit.span.cell is not None:
        return None
    ends = found.span.end_line, found.span.end_column
    return found if ends <= (edit.span.line, edit.span.column) else None


def _on_one_line(module: PythonModule, import_: ast.stmt, statement: ast.stmt) -> Edit | None:
    """Remove the line of ``import pdb; pdb.set_trace()``; None where it has a comment or more statements."""
    text, (start, end) = module.source.text, (module.offsets(import_)[0], module.offsets(statement)[1])
    starts = [*module.source.line_starts, len(text)]
    first, last = module.source.position(start)[0], module.source.position(end)[0]
    begin, behind = starts[first - 1], starts[last]
    between = text[module.offsets(import_)[1] : module.offsets(statement)[0]]
    if first != last or between.strip() != ";" or text[begin:start].strip() or text[end:behind].strip(" \t\r\n;"):
        return None
    if first > 1 and last + 1 < len(starts):
        above, below = text[starts[first - 2] : begin], text[behind : starts[last + 1]]
        if not above.strip() and below and not below.strip():
            behind = starts[last + 1]  # one blank line is enough
    return Edit(module.path, module.span_at(begin, behind), "")


def _without_test(module: PythonModule, statement: ast.stmt) -> Edit | None:
    """Remove ``if stuck and late: breakpoint()`` as a whole, if the test does nothing else."""
    match parent := module.parents.get(statement):
        case ast.If(test=test, body=[*before, last], orelse=[]) if last is statement and before in (
            [],
            [_own_import(module, statement)],
        ):
            acts = any(
                isinstance(part, ast.NamedExpr | ast.Await)
                or (isinstance(part, ast.Call) and last_name(part.func) not in _PURE)
                for part in walk(test)
            )
            edit = None if acts or "#" in module.text(parent) else remove_statement(module, parent)
            elif_ = module.text(parent).startswith("elif")
            return edit if edit is not None and not edit.text and not elif_ else None
    return None


FIXER = Fixer("GPU102", fix)
