"""Take out the setting that hides the GPUs."""

from __future__ import annotations

import ast
import re

from gpulint_rules.library.gpu411_gpus_hidden import Hidden

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.python import PythonModule
from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.entries import remove_entry, remove_variable
from gpulint_fixers.statements import remove_assignment, remove_statement, with_own_comment

_ON_PURPOSE = regex.compile(r"#.*\b(ignore|hide|disable|without|no|not|force|only)\b.*\b(GPUs?|CPU)\b", re.IGNORECASE)


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Hidden) or document is None or finding.span.cell is not None:
        return Declined("the setting is in a notebook")
    above = [document.source.line(number).strip() for number in range(max(1, finding.span.line - 2), finding.span.line)]
    if any(_ON_PURPOSE.match(line) for line in above):
        return Declined("the comment above says that this is intentional")
    if found.setting.node is not None and not _is_literal(document, found.setting.node):
        return Declined("the value comes from a setting of the program; change it there")
    edit = _removal(finding, found, document)
    if edit is None:
        return Declined("the setting shares its line or list with others")
    edit = with_own_comment(document.source, edit)
    return Fix("remove the setting, so that the program sees the job's GPUs", Safety.UNSAFE, (edit,))


def _is_literal(document: Document, node: ast.AST) -> bool:
    """Return whether the statement that sets the variable holds its value itself."""
    module = document.python
    ups = (node, *module.ancestors(node)) if module is not None else ()
    statement = next((up for up in ups if isinstance(up, ast.stmt)), None)
    return not isinstance(statement, ast.Assign) or isinstance(statement.value, ast.Constant)


def _removal(finding: Finding, found: Hidden, document: Document) -> Edit | None:
    span = finding.span
    if found.language == "python" and document.python is not None and found.setting.node is not None:
        return _removed_statement(document.python, found.setting.node)
    if found.language == "spec":
        return remove_entry(finding.path, document.source, span)
    if found.language == "dockerfile":
        return remove_variable(finding.path, document.source, span)
    return remove_assignment(document.source, Place(finding.path, span)) if found.language == "shell" else None


def _removed_statement(module: PythonModule, node: ast.AST) -> Edit | None:
    """``os.environ[...] = ...``, ``setdefault``, and an ``update`` that sets nothing else."""
    if isinstance(node, ast.Call) and any(isinstance(given, ast.Dict) and len(given.keys) > 1 for given in node.args):
        return None
    statement = next((up for up in module.ancestors(node) if isinstance(up, ast.stmt)), None)
    if not isinstance(statement, ast.Assign | ast.Expr) or isinstance(statement.value, ast.Dict):
        return None
    if isinstance(statement, ast.Expr) and statement.value is not node:
        return None
    if isinstance(statement, ast.Assign) and len(statement.targets) > 1:
        return None
    return remove_statement(module, statement)


FIXER = Fixer("GPU411", fix)
