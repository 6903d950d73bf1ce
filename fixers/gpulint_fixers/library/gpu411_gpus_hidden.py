"""Take out a list of GPUs that is written wrong. A setting that hides all of them says that the CPU is meant."""

from __future__ import annotations

import ast

from gpulint_rules.library.gpu411_gpus_hidden import Hidden, problem

from gpulint.documents import Document
from gpulint.documents.python import PythonModule, walk
from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.edits.announced_variables import with_announcements
from gpulint_fixers.edits.entries import remove_entry, remove_variable
from gpulint_fixers.edits.imports import drop_import, drop_local_import
from gpulint_fixers.edits.statements import remove_assignment, remove_statement, with_own_comment, without_gaps


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Hidden) or document is None or finding.span.cell is not None:
        return Declined("the setting is in a notebook")
    if (problem(found.setting.value or "") or "").startswith("hides"):
        return Declined("a value that leaves no GPU may be meant: remove the setting, or request no GPUs")
    if found.setting.node is not None and not _is_literal(document, found.setting.node):
        return Declined("the value comes from a setting of the program; change it there")
    edit = _removal(finding, found, document)
    if edit is None:
        return Declined("the setting shares its line or list with others")
    unused = _unused_import(project, finding, found.setting.node)
    said, _ = with_announcements(document, found.setting.name, edit)
    edits = tuple(without_gaps(document.source, [with_own_comment(document.source, edit), *unused, *said]))
    return Fix("remove the setting, so that the program sees the job's GPUs", Safety.UNSAFE, edits)


def _unused_import(project: Project, finding: Finding, node: ast.AST | None) -> tuple[Edit, ...]:
    """``import os`` where the setting was all that it was for."""
    module = project.module_at(finding.path)
    if module is None or node is None:
        return ()
    statement = next((up for up in (node, *module.syntax.ancestors(node)) if isinstance(up, ast.stmt)), None)
    used = [part for part in walk(statement) if isinstance(part, ast.Name)] if statement is not None else []
    return drop_local_import(module, used[0]) or drop_import(module, used[0]) if len(used) == 1 else ()


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
