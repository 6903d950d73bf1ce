"""Removes the call."""

from __future__ import annotations

import ast

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, last_name
from gpulint_fixers.statements import remove_statement, without_gaps


def fix(finding: Finding, project: Project) -> Fix | Declined:
    module = project.module_at(finding.path)
    call = finding.payload
    assert module is not None and isinstance(call, ast.Call)
    statement = module.syntax.parents.get(call)
    if not isinstance(statement, ast.Expr):
        return Declined("the call is part of a larger expression")
    name = last_name(call.func)
    safety = Safety.SAFE if name == "empty_cache" else Safety.UNSAFE
    if (hook := _empty_hook(project, module, statement)) is not None:
        gone = remove_statement(module.syntax, hook)
        edits = without_gaps(module.syntax.source, [gone]) if gone is not None and gone.span.cell is None else [gone]
        if gone is not None and gone.text != "pass":
            return Fix(f"remove `{hook.name}`, which does nothing else", safety, tuple(one for one in edits if one))
    removal = remove_statement(module.syntax, statement) or Edit(finding.path, finding.span, "pass")
    return Fix(f"remove `{name}()`", safety, (removal,))


def _empty_hook(project: Project, module: ModuleIndex, statement: ast.stmt) -> FunctionNode | None:
    """Return the framework's hook of which the statement is the whole body; None where the tree has another of that
    name, which it may override."""
    function = module.syntax.parents.get(statement)
    if not isinstance(function, ast.FunctionDef) or len(function.body) != 1 or function.decorator_list:
        return None
    owner = module.class_of(function)
    if owner is None or not any(project.fact(LoopContexts).hooks(module, function)):
        return None
    bases = project.fact(Resolver).mro(module, owner)
    others = (part for _, base in bases if base is not owner for part in base.body)
    return None if any(getattr(part, "name", "") == function.name for part in others) else function


FIXER = Fixer("GPU207", fix)
