"""Removes the call."""

from __future__ import annotations

import ast

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import last_name
from gpulint_fixers.statements import remove_statement


def fix(finding: Finding, project: Project) -> Fix | Declined:
    module = project.module_at(finding.path)
    call = finding.payload
    assert module is not None and isinstance(call, ast.Call)
    statement = module.syntax.parents.get(call)
    if not isinstance(statement, ast.Expr):
        return Declined("the call is part of a larger expression")
    name = last_name(call.func)
    safety = Safety.SAFE if name == "empty_cache" else Safety.UNSAFE
    removal = remove_statement(module.syntax, statement) or Edit(finding.path, finding.span, "pass")
    return Fix(f"remove `{name}()`", safety, (removal,))


FIXER = Fixer("GPU207", fix)
