"""Take out the setting that hides the GPUs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from gpulint_rules.library.gpu411_gpus_hidden import Hidden

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.python import PythonModule, walk
from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint_fixers.edits.entries import remove_entry, remove_variable
from gpulint_fixers.edits.imports import drop_import
from gpulint_fixers.edits.statements import remove_assignment, remove_statement, with_own_comment, without_gaps

_ON_PURPOSE = regex.compile(r"#.*\b(ignore|hide|disable|without|no|not|force|only)\b.*\b(GPUs?|CPU)\b", re.IGNORECASE)

_CPU_IMAGE = regex.compile(r"(?m)^FROM\s+(?:--\S+\s+)?((?:\S+/)?tensorflow/tensorflow(?!\S*gpu)\S*)", re.IGNORECASE)
"""Images of TensorFlow without `gpu` in their tag hold no CUDA."""


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Hidden) or document is None or finding.span.cell is not None:
        return Declined("the setting is in a notebook")
    above = [document.source.line(number).strip() for number in range(max(1, finding.span.line - 2), finding.span.line)]
    if any(_ON_PURPOSE.match(line) for line in above):
        return Declined("the comment above says that this is intentional")
    if found.setting.node is not None and not _is_literal(document, found.setting.node):
        return Declined("the value comes from a setting of the program; change it there")
    if image := _cpu_image(project, finding.path):
        return Declined(f"the program's image is built from `{image}`, which has no CUDA; use one for GPUs first")
    edit = _removal(finding, found, document)
    if edit is None:
        return Declined("the setting shares its line or list with others")
    unused = _unused_import(project, finding, found.setting.node)
    edits = tuple(without_gaps(document.source, [with_own_comment(document.source, edit), *unused]))
    return Fix("remove the setting, so that the program sees the job's GPUs", Safety.UNSAFE, edits)


def _unused_import(project: Project, finding: Finding, node: ast.AST | None) -> tuple[Edit, ...]:
    """``import os`` where the setting was all that it was for."""
    module = project.module_at(finding.path)
    if module is None or node is None:
        return ()
    statement = next((up for up in (node, *module.syntax.ancestors(node)) if isinstance(up, ast.stmt)), None)
    used = [part for part in walk(statement) if isinstance(part, ast.Name)] if statement is not None else []
    return drop_import(module, used[0]) if len(used) == 1 else ()


def _cpu_image(project: Project, path: Path) -> str:
    """The image without CUDA from which all Dockerfiles of the nearest folder that has some are built."""
    files = [
        file for file in project.files if project.kind(file) is Kind.DOCKERFILE and path.is_relative_to(file.parent)
    ]
    nearest = max((len(file.parent.parts) for file in files), default=0)
    texts = [project.data(file).decode("utf-8", "replace") for file in files if len(file.parent.parts) == nearest]
    found = [_CPU_IMAGE.search(text) for text in texts]
    return found[0][1] if found and found[0] is not None and all(found) else ""


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
