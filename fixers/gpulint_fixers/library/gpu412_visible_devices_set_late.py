"""Set the visible devices before CUDA is initialised."""

from __future__ import annotations

import ast
import re

from gpulint_rules.library.first_cuda_calls import Late

from gpulint import regex
from gpulint.documents.python import PythonModule, walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.edits.statements import move_above, without_gaps

_DEVICES = regex.compile(r"_VISIBLE_DEVICES$|^CUDA_DEVICE_ORDER$")
_SPEAKS = regex.compile(r"\b(?:gpus?|gpu\W?ids?|cuda|devices?|visible|cards?)\b", re.IGNORECASE)


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
    if _is_set_beside(module, late, found.before):
        return Declined("other settings of the devices stand between: move them all")
    edits = move_above(module, late, found.before, _SPEAKS)
    if edits is None:
        return Declined("the setting or the statement that it has to precede shares its line with another one")
    removals = without_gaps(document.source, edits[1:])
    return Fix("set the visible devices before CUDA is initialised", Safety.UNSAFE, (edits[0], *removals))


def _is_set_beside(module: PythonModule, late: ast.stmt, before: ast.stmt) -> bool:
    """Return whether variables of the devices are also set elsewhere between two statements, or right behind them."""
    return any(
        isinstance(part, ast.Constant)
        and isinstance(part.value, str)
        and _DEVICES.search(part.value) is not None
        and before.lineno <= part.lineno <= (late.end_lineno or late.lineno) + 1
        and late not in module.ancestors(part)
        for part in module.of(ast.Constant)
    )


FIXER = Fixer("GPU412", fix)
