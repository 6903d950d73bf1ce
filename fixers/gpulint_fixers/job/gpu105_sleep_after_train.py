"""Take out the wait."""

from __future__ import annotations

import ast
import re

from gpulint_rules.job.gpu105_sleep_after_train import Wait

from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.edits.comments import comment_beside
from gpulint_fixers.edits.imports import drop_import
from gpulint_fixers.edits.statements import remove_lines, remove_statement, without_gaps
from gpulint_fixers.job.background_copies import background_copy

_ANY = re.compile(r"\w")


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Wait) or document is None or finding.span.cell is not None:
        return Declined("the wait is in a notebook")
    if found.language == "server":
        return Declined("only you know what to wait for")
    if found.kept:
        return Declined("it keeps something running for a person, as the text or the test beside it says")
    if comment_beside(document.cell_source(finding.span.cell), finding.span, _ANY):
        return Declined("the comment beside it may say what it waits for")
    if found.language == "python" and (place := background_copy(project, finding.path)):
        return Declined(
            f"the copy that {place} starts in the background may not have ended: wait for its process first"
        )
    edit: Edit | None = None
    unused = tuple[Edit, ...]()
    if found.language == "shell":
        edit = remove_lines(document.source, found.place)
    elif document.python is not None:
        module = document.python
        statements = (node for node in walk(module.tree) if isinstance(node, ast.stmt))
        statement = next((node for node in statements if module.span(node) == finding.span), None)
        edit = remove_statement(module, statement) if statement is not None else None
        index = project.module_at(finding.path)
        if index is not None and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            unused = drop_import(index, statement.value.func)
    if edit is None:
        return Declined("the wait shares its line with another command")
    return Fix(
        "end the job with its last computation; anything that relied on the wait needs another solution",
        Safety.UNSAFE,
        (*without_gaps(document.source, unused), edit),
    )


FIXER = Fixer("GPU105", fix)
