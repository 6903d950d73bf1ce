"""Let a program use cuDNN again."""

from __future__ import annotations

import ast
import re

from gpulint_rules.library.cudnn_switch import copy_that_keeps_it, has_seeds, is_reproducible

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import PythonModule
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.programs.documented_constructs import is_documented
from gpulint.project import Project
from gpulint_fixers.edits.statements import remove_statement, with_own_comment, without_gaps
from gpulint_fixers.library.needed_modes import exceeds_cudnn

_REASON = regex.compile(
    r"error|bug|crash|fail|fault|support|nan\b|wrong|slow|memory|differ|need|because|work|issue", re.IGNORECASE
)
"""Words of comments that say why cuDNN is off."""
_USES = "let convolutions and recurrent layers use cuDNN, whose kernels round differently"
_SEEDED = (
    f"{_USES}, so that results differ in the last digits, and set `cudnn.deterministic = True` instead, "
    "as the program sets seeds to repeat its runs"
)
_AS_BEFORE = f"{_USES}, so that results differ in the last digits, but still not between runs"


def enable_cudnn(document: Document, node: ast.AST | None, project: Project) -> Fix | Declined:
    """Remove ``cudnn.enabled = False``, unless a comment beside it may say why it is there."""
    module = document.python
    if module is None or not isinstance(node, ast.Assign) or len(node.targets) > 1:
        return Declined("removing it may change output that you need")
    if exceeds_cudnn(project, document.path):
        return Declined("cuDNN takes no gradients through recurrent layers in evaluation mode, nor of their gradients")
    if is_documented(project, "without-cudnn"):
        return Declined("the documentation says why cuDNN is off")
    index = project.module(document)
    if index is not None and (copy := copy_that_keeps_it(project, index, node)) is not None:
        return Declined(f"a copy of the function, in {copy}, keeps cuDNN off, and results would differ from its")
    edit = remove_statement(module, node)
    if edit is None or edit.text:
        return Declined("the switch is not a separate statement")
    source = document.cell_source(edit.span.cell)
    above, behind = source.line(edit.span.line - 1).strip(), comment_behind(module, node)
    if (above.startswith("#") or behind) and _REASON.search(f"{above if above.startswith('#') else ''} {behind}"):
        return Declined("a comment beside it may say why cuDNN is off")
    target = node.targets[0]
    if index is not None and isinstance(target, ast.Attribute) and has_seeds(project, index, node):
        if not is_reproducible(project, index, node):
            return Fix(_SEEDED, Safety.UNSAFE, (_made_deterministic(module, node, target),))
        return Fix(_AS_BEFORE, Safety.UNSAFE, tuple(without_gaps(source, [with_own_comment(source, edit)])))
    edits = tuple(without_gaps(source, [with_own_comment(source, edit)]))
    return Fix(
        f"{_USES}, so that results differ in the last digits (`cudnn.deterministic` keeps them the same in each run)",
        Safety.UNSAFE,
        edits,
    )


def _made_deterministic(module: PythonModule, node: ast.Assign, target: ast.Attribute) -> Edit:
    """Set ``cudnn.deterministic = True`` in place of a statement and of the comment behind it."""
    start, end = module.offsets(node)
    if comment_behind(module, node):
        line, column = module.source.position(end)
        end += len(module.source.line(line)[column - 1 :].rstrip())
    return Edit(module.path, module.span_at(start, end), f"{module.text(target.value)}.deterministic = True")


def comment_behind(module: PythonModule, node: ast.stmt) -> str:
    """Return the comment behind a statement, unless it is for a tool."""
    line, column = module.source.position(module.offsets(node)[1])
    behind = module.source.line(line)[column - 1 :].strip().lstrip("# ")
    return "" if behind.startswith(("type:", "noqa", "pylint:", "pyright:")) else behind
