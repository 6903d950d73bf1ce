"""Detaches what is accumulated."""

from __future__ import annotations

import ast

from gpulint_rules.model.gpu204_graph_retained import RetainedGraph

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.query import query
from gpulint_fixers.model.kept_parts import kept_parts
from gpulint_fixers.model.sibling_totals import sibling_totals


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    assert isinstance(found, RetainedGraph)
    syntax = found.module.syntax
    start, end = syntax.offsets(found.value)
    edits: tuple[Edit, ...]
    if not isinstance(found.value, ast.BinOp):
        edits = (Edit(finding.path, syntax.span_at(end, end), ".detach()"),)
    elif (close := _closing(found)) is not None:
        edits = (Edit(finding.path, syntax.span_at(close, close), ".detach()"),)
    else:
        edits = (
            Edit(finding.path, syntax.span_at(start, start), "("),
            Edit(finding.path, syntax.span_at(end, end), ").detach()"),
        )
    beside, parts = sibling_totals(project, found.module, found.value), kept_parts(project, found)
    ends = dict.fromkeys(syntax.offsets(one)[1] for one in (*beside.tensors, *parts.tensors))
    edits += tuple(Edit(finding.path, syntax.span_at(at, at), ".detach()") for at in ends)
    if parts.unknown:
        note = f"`{parts.unknown}`, of which it is computed, may keep the same graph"
        return Fix(f"accumulate the value without its graph; {note}", Safety.UNSAFE, edits)
    if beside.unknown:
        note = f"`{beside.unknown}`, which the same call returns, may keep the same graph"
        return Fix(f"accumulate the value without its graph; {note}", Safety.UNSAFE, edits)
    safety = Safety.UNSAFE if _has_own_values(project) else Safety.SAFE
    return Fix("accumulate the value without its graph", safety, edits)


@query
def _has_own_values(project: Project) -> bool:
    """Return whether the tree has a class of values that are added up and differentiated, and have no ``detach``."""
    for path in project.python_files_with(b"def backward(self"):
        module = project.module_at(path)
        for owner in module.classes if module is not None else ():
            methods = {getattr(part, "name", "") for part in owner.body}
            if {"backward", "__add__"} <= methods and "detach" not in methods:
                return True
    return False


def _closing(found: RetainedGraph) -> int | None:
    """The offset behind the parentheses that an operation has of its own; None if it has none."""
    syntax = found.module.syntax
    if isinstance(syntax.parents.get(found.value), ast.Call):
        return None
    text = syntax.source.text
    start, end = syntax.offsets(found.value)
    before, after = text[:start].rstrip(), text[end:]
    blank = len(after) - len(after.lstrip())
    return end + blank + 1 if before.endswith("(") and after[blank:].startswith(")") else None


FIXER = Fixer("GPU204", fix)
