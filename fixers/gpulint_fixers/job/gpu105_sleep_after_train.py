"""Take out the wait."""

from __future__ import annotations

import ast

from gpulint_rules.job.gpu105_sleep_after_train import Wait

from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.edits.statements import remove_lines, remove_statement


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Wait) or document is None or finding.span.cell is not None:
        return Declined("the wait is in a notebook")
    if found.language == "server":
        return Declined("only you know what to wait for")
    edit = None
    if found.language == "shell":
        edit = remove_lines(document.source, found.place)
    elif document.python is not None:
        module = document.python
        statements = (node for node in walk(module.tree) if isinstance(node, ast.stmt))
        statement = next((node for node in statements if module.span(node) == finding.span), None)
        edit = remove_statement(module, statement) if statement is not None else None
    if edit is None:
        return Declined("the wait shares its line with another command")
    return Fix(
        "end the job with its last computation; anything that relied on the wait needs another solution",
        Safety.UNSAFE,
        (edit,),
    )


FIXER = Fixer("GPU105", fix)
