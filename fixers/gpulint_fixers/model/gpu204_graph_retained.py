"""Detaches what is accumulated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.model.kept_parts import kept_parts
from gpulint_rules.model.lasting_totals import RetainedGraph

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.query import query
from gpulint_fixers.model.object_parts import object_parts
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
    again, left = _in_other_branches(found), object_parts(project, found)
    ends = dict.fromkeys(syntax.offsets(one)[1] for one in (*beside.tensors, *parts.tensors, *left.tensors, *again))
    edits += tuple(Edit(finding.path, syntax.span_at(at, at), ".detach()") for at in ends)
    if left.unsure:
        note = f"`{syntax.text(left.unsure[0])}`, which the same method may set, may keep the same graph"
        return Fix(f"accumulate the value without its graph; {note}", Safety.UNSAFE, edits)
    if parts.unsure:
        texts = " and ".join(dict.fromkeys(f"`{syntax.text(one)}`" for one in parts.unsure))
        note = f"{texts}, which the loop keeps as well, may hold the same graph"
        return Fix(f"accumulate the value without its graph; {note}", Safety.UNSAFE, edits)
    if beside.unknown:
        note = f"`{beside.unknown}`, which the same call returns, may keep the same graph"
        return Fix(f"accumulate the value without its graph; {note}", Safety.UNSAFE, edits)
    safety = Safety.UNSAFE if _has_own_values(project) else Safety.SAFE
    return Fix("accumulate the value without its graph", safety, edits)


def _in_other_branches(found: RetainedGraph) -> Iterator[ast.expr]:
    """Yield the same value in each other block that keeps it by the same statement, and takes its gradients as well:
    ``losses.append(loss)`` and ``loss.backward()`` in both branches."""
    module, value = found.module, found.value
    function, parents = module.function(value), module.syntax.parents
    call = parents.get(value)
    if not isinstance(value, ast.Name) or not isinstance(call, ast.Call) or call.args != [value]:
        return
    wanted = ast.unparse(call)
    for other in module.syntax.of(ast.Call):
        statement = parents.get(other)
        place = module.syntax.place(statement) if isinstance(statement, ast.Expr) else None
        if other is call or place is None or module.function(other) is not function or ast.unparse(other) != wanted:
            continue
        block = getattr(parents[statement], place[0])
        if any(ast.unparse(one) == f"{value.id}.backward()" for one in block if isinstance(one, ast.Expr)):
            yield other.args[0]


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
