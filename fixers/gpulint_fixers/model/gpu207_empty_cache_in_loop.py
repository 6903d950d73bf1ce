"""Removes the call, with the import that only it needs."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from gpulint_rules.model.freed_memory import CALLS, in_each_branch, library_that_needs, override_for

from gpulint import reasons, regex
from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training.generation import generates
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.trials import MEASURES
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, ModuleIndex, last_name
from gpulint_fixers.edits.imports import drop_import
from gpulint_fixers.edits.statements import remove_run, remove_statement, with_own_comment, without_gaps
from gpulint_fixers.model.memory_helpers import freeing_run, without_calls

_MEMORY = "; what the program holds has to fit into memory without it"
"""What is supposed of a program that frees memory."""
_PURPOSE = regex.compile(
    r"report|measur|profil|track|accura|correct|leak|frag|memory fix|\boom\b|out[- ]of[- ]memory", re.IGNORECASE
)
"""Words of what the call is for, beside those of any reason."""
_SPEAKS = regex.compile(
    r"cache|garbage|collect|memory|fragment|\boom\b|\bgc\b|\bv?ram\b|clean|clear|free|hygiene|tidy", re.IGNORECASE
)


def fix(finding: Finding, project: Project) -> Fix | Declined:
    module, document = project.module_at(finding.path), project.document(finding.path)
    call = finding.payload
    assert module is not None and document is not None and isinstance(call, ast.Call)
    statement = module.syntax.parents.get(call)
    if not isinstance(statement, ast.Expr):
        return Declined("the call is part of a larger expression")
    if _is_for_report(module, call):
        return Declined("the function reports how much memory is in use, which the call changes")
    if _generates_beside(project, module, call):
        return Declined("each step generates text with a model, beside which the call takes no time")
    looping = project.module_at(finding.related[0].path) or module
    if library := library_that_needs(project, module, call, looping):
        return Declined(f"{library} needs the cache emptied at regular intervals")
    if reasons.is_explained(document, finding.span, _PURPOSE, _SPEAKS):
        return Declined("the comment beside it says what it is for; check whether that still holds")
    if (method := override_for(project, module, call)) is not None:
        return Declined(f"`{method}` overrides another one only to free memory; check whether that is still needed")
    if (made := without_calls(project, module, call, _SPEAKS)) is not None:
        return made
    if (told := _told_in(module, call)) is not None:
        return Declined(f"the docstring of `{told}` says what it is for; check whether that still holds")
    if (hook := _empty_hook(project, module, statement)) is not None:
        gone = remove_statement(module.syntax, hook)
        edits = without_gaps(module.syntax.source, [gone]) if gone is not None and gone.span.cell is None else [gone]
        if gone is not None and gone.text != "pass":
            return Fix(
                f"remove `{hook.name}`, which does nothing else", Safety.UNSAFE, tuple(one for one in edits if one)
            )
    run = freeing_run(module, statement)
    if (clause := _empty_clause(project, module, run)) is not None:
        return clause
    made = _without(project, module, run)
    if made is None:
        return Declined("it shares its line with other code")
    if any(edit.text == "pass" for edit in made.edits) and not _overrides(project, module, statement):
        return Declined(_advice(module, statement))
    if beside := in_each_branch(project, module, call):
        return _with_others(project, module, made, beside)
    return made


def _with_others(project: Project, module: ModuleIndex, made: Fix, beside: list[ast.Call]) -> Fix:
    """Remove the calls of both branches of the step as well, because it waits until one of them has gone; those stay
    that a comment explains, or that are all of a block."""
    document = project.document(module.path)
    edits, kept = list(made.edits), list[ast.Call]()
    for one in beside:
        statement = module.syntax.parents.get(one)
        told = document is None or reasons.is_explained(document, module.syntax.span(one), _PURPOSE, _SPEAKS)
        other = (
            None
            if told or not isinstance(statement, ast.Expr)
            else _without(project, module, freeing_run(module, statement))
        )
        if other is None or any(edit.text == "pass" for edit in other.edits):
            kept.append(one)
        else:
            edits += other.edits
    made = replace(made, edits=tuple(dict.fromkeys(edits)))
    if kept:
        lines = " and ".join(dict.fromkeys(module.syntax.span(one).words for one in kept))
        return replace(made, description=f"{made.description}; those of the same step in {lines} stay")
    lines = " and ".join(dict.fromkeys(module.syntax.span(one).words for one in beside))
    what = f"{made.description.removesuffix(_MEMORY)}, and those of the same step in {lines}"
    return replace(made, description=f"{what}{_MEMORY}")


def _advice(module: ModuleIndex, statement: ast.stmt) -> str:
    """Return what to take out by hand, as nothing else is in the block of a call."""
    function = module.syntax.parents.get(statement)
    owner = module.class_of(function) if isinstance(function, ast.FunctionDef) else None
    if owner is not None and len(owner.body) == 1:
        return f"`{owner.name}` does nothing else: take it out, and what registers it"
    return "its block contains nothing else"


def _empty_clause(project: Project, module: ModuleIndex, run: list[ast.stmt]) -> Fix | None:
    """Remove the ``finally`` or ``else`` of which statements that free memory are all."""
    syntax, place = module.syntax, module.syntax.place(run[0])
    parent = syntax.parents.get(run[0])
    if place is None or place[0] not in ("finalbody", "orelse") or not isinstance(parent, ast.Try | ast.If):
        return None
    if len(getattr(parent, place[0])) != len(run) or (isinstance(parent, ast.Try) and not parent.handlers):
        return None
    source, body = syntax.source, getattr(parent, place[0])
    last = syntax.span(body[-1]).end_line
    above = syntax.span(body[0]).line - 1
    while source.line(above).lstrip().startswith("#") or not source.line(above).strip():
        above -= 1
    if source.line(above).strip() not in ("finally:", "else:") or syntax.span(body[0]).cell is not None:
        return None
    if source.line(last)[syntax.span(body[-1]).end_column - 1 :].strip():
        return None
    edit = Edit(syntax.path, Span(above, 1, last + 1, 1), "")
    return Fix(f"remove {_names(project, module, run)}{_MEMORY}", Safety.UNSAFE, (*_unused(module, run), edit))


def _freeing(run: list[ast.stmt]) -> list[ast.Call]:
    """The calls of statements that free memory."""
    calls = [part for one in run for part in walk(one) if isinstance(part, ast.Call)]
    return [call for call in calls if last_name(call.func) not in ("is_available", "device")]


def _without(project: Project, module: ModuleIndex, run: list[ast.stmt]) -> Fix | None:
    """Remove statements that free memory, with the imports that only they need, and the comment about them."""
    syntax, source = module.syntax, module.syntax.source
    if (whole := remove_run(syntax, run)) is not None:
        removals = (
            [whole] if whole.span.cell is not None else without_gaps(source, [with_own_comment(source, whole, _SPEAKS)])
        )
        return Fix(f"remove {_names(project, module, run)}{_MEMORY}", Safety.UNSAFE, (*_unused(module, run), *removals))
    found = [remove_statement(syntax, one) for one in run]
    removals = [edit for edit in found if edit is not None]
    if len(removals) < len(run):
        return None
    if len(run) > 1 and any(edit.text for edit in removals):
        return None
    if len(run) > 1 and (place := syntax.place(run[0])) is not None:
        parent, spans = syntax.parents[run[0]], [edit.span for edit in removals]
        if len(getattr(parent, place[0])) == len(run) and not isinstance(parent, ast.Module):
            start, end = syntax.offsets(run[0])[0], syntax.offsets(run[-1])[1]
            removals = [Edit(syntax.path, syntax.span_at(start, end), "pass")]
        elif all(span.cell is None and span.column == span.end_column == 1 for span in spans):
            removals = [Edit(syntax.path, Span(spans[0].line, 1, spans[-1].end_line, 1), "")]
    if removals[0].span.cell is None:
        removals[0] = with_own_comment(source, removals[0], _SPEAKS)
        removals = without_gaps(source, removals)
    return Fix(f"remove {_names(project, module, run)}{_MEMORY}", Safety.UNSAFE, (*_unused(module, run), *removals))


def _names(project: Project, module: ModuleIndex, run: list[ast.stmt]) -> str:
    """The calls of statements, by the names that messages have: ``gc.collect()``."""
    names = project.fact(Resolver).call_names
    said = (min(names(module, one) & CALLS, default=ast.unparse(one.func)) for one in _freeing(run))
    return ", ".join(dict.fromkeys(f"`{name}()`" for name in said))


def _unused(module: ModuleIndex, run: list[ast.stmt]) -> tuple[Edit, ...]:
    """The removal of the import that nothing but statements needs."""
    funcs = [call.func for call in _freeing(run) if last_name(call.func) == "collect"]
    return drop_import(module, funcs[0], funcs[1:]) if funcs else ()


def _generates_beside(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a loop around a call also generates text with a model, whose memory differs from that of steps."""
    loops = project.fact(LoopContexts).around(module, call)
    return any(isinstance(part, ast.Call) and generates(part) for loop in loops for part in walk(loop))


def _told_in(module: ModuleIndex, call: ast.Call) -> str | None:
    """The function or class around a call whose docstring speaks of it."""
    name = "gc.collect" if last_name(call.func) == "collect" else last_name(call.func)
    for up in module.syntax.ancestors(call):
        if isinstance(up, (*FUNCTIONS, ast.ClassDef)) and name in (ast.get_docstring(up, clean=False) or ""):
            return up.name
    return None


def _is_for_report(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the function around a call looks at how much memory is in use, and has no loop: there the memory
    that is in use is what the call is for."""
    function = module.function(call)
    if function is None or any(isinstance(part, LOOPS) for part in walk(function)):
        return False
    return any(isinstance(part, ast.Attribute | ast.Name) and last_name(part) in MEASURES for part in walk(function))


def _empty_hook(project: Project, module: ModuleIndex, statement: ast.stmt) -> FunctionNode | None:
    """Return the framework's hook of which the statement is the whole body; None where the tree has another of that
    name, which it may override."""
    function = module.syntax.parents.get(statement)
    if not isinstance(function, ast.FunctionDef) or len(function.body) != 1 or function.decorator_list:
        return None
    owner = module.class_of(function)
    if owner is None or not any(project.fact(LoopContexts).hooks(module, function)):
        return None
    return None if _overrides(project, module, statement) else function


def _overrides(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether the method that a statement is the body of overrides one of the tree, which has to stay off."""
    function = module.syntax.parents.get(statement)
    owner = module.class_of(function) if isinstance(function, ast.FunctionDef) else None
    if not isinstance(function, ast.FunctionDef) or owner is None:
        return False
    bases = project.fact(Resolver).mro(module, owner)
    others = (part for _, base in bases if base is not owner for part in base.body)
    return any(getattr(part, "name", "") == function.name for part in others)


FIXER = Fixer("GPU207", fix)
