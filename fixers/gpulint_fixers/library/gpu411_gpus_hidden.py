"""Take out the setting that hides the GPUs."""

from __future__ import annotations

import ast

from gpulint_rules.library.gpu411_gpus_hidden import Hidden

from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.statements import remove_lines, remove_statement


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Hidden) or document is None or finding.span.cell is not None:
        return Declined("the setting stands in a notebook")
    edit: Edit | None = None
    if found.language == "python" and document.python is not None and found.setting.node is not None:
        module = document.python
        statement = next((up for up in module.ancestors(found.setting.node) if isinstance(up, ast.stmt)), None)
        if isinstance(statement, ast.Assign | ast.Expr) and not isinstance(getattr(statement, "value", None), ast.Dict):
            edit = remove_statement(module, statement)
    elif found.language == "shell":
        span = finding.span
        line = document.source.line(span.line)
        if line[: span.column - 1].strip() in ("", "export"):
            start = len(line) - len(line.lstrip())
            whole = type(span)(span.line, start + 1, span.end_line, span.end_column)
            edit = remove_lines(document.source, Place(finding.path, whole))
    if edit is None:
        return Declined("the setting shares its line with others, or stands in a list of them")
    return Fix("remove the setting, so that the program sees the job's GPUs", Safety.UNSAFE, (edit,))


FIXER = Fixer("GPU411", fix)
