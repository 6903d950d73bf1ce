"""Removes the call."""

from __future__ import annotations

import ast

from gpulint.facts.scopes import ModuleScopes, last_name
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.source import Span


def fix(finding: Finding, project: Project) -> Fix | Declined:
    scopes = project.scopes_at(finding.path)
    call = finding.payload
    assert scopes is not None and isinstance(call, ast.Call)
    statement = scopes.module.parents.get(call)
    if not isinstance(statement, ast.Expr):
        return Declined("the call is part of a larger expression")
    name = last_name(call.func)
    safety = Safety.SAFE if name == "empty_cache" else Safety.UNSAFE
    return Fix(f"remove `{name}()`", safety, (_removal(finding, scopes, statement),))


def _removal(finding: Finding, scopes: ModuleScopes, statement: ast.Expr) -> Edit:
    """Takes out the whole line when the statement is alone on it and in its block; else leaves ``pass``."""
    span = finding.span
    line = scopes.module.source.line(statement.lineno)
    parent = scopes.module.parents.get(statement)
    alone = line.strip() == ast.get_source_segment(scopes.module.source.text, statement)
    blocks = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
    block = next((block for block in blocks if isinstance(block, list) and statement in block), [])
    if alone and len(block) > 1 and span.line == span.end_line:
        return Edit(finding.path, Span(span.line, 1, span.line + 1, 1, span.cell), "")
    return Edit(finding.path, span, "pass")


FIXER = Fixer("GPU207", fix)
