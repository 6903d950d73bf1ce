"""Set the visible devices before CUDA is initialised."""

from __future__ import annotations

import ast

from gpulint_rules.library.gpu412_visible_devices_set_late import Late

from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.edits.statements import insert_above, remove_statement


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Late) or document is None or document.python is None or finding.span.cell is not None:
        return Declined("the setting is in a notebook")
    late = found.statement
    if not isinstance(late, ast.Assign | ast.Expr | ast.If):
        return Declined(f"the setting is inside a `{type(late).__name__.lower()}` block")
    module = document.python
    names = {node.id for node in walk(late) if isinstance(node, ast.Name)} - {"os", "str"}
    imported = [
        node.lineno for node in walk(module.tree) if isinstance(node, ast.Import) and node.names[0].name == "os"
    ]
    if names or not any(line < found.before.lineno for line in imported):
        return Declined("the value or `os` is not defined yet where the setting would have to be")
    removal = remove_statement(module, late)
    if removal is None:
        return Declined("the setting shares its line with other statements")
    insertion = insert_above(module, found.before, module.text(late))
    if insertion is None:
        return Declined("the statement that it has to precede shares its line with another one")
    return Fix("set the visible devices before CUDA is initialised", Safety.UNSAFE, (insertion, removal))


FIXER = Fixer("GPU412", fix)
