"""Take a sample once where a method takes it for each of its parts."""

from __future__ import annotations

import ast

from gpulint_rules.data.repeated_draws import RepeatedDraw

from gpulint.documents import Document
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint_fixers.edits.statements import insert_above

_NAMES = ("sample", "item", "row", "entry")


def taken_once(found: RepeatedDraw, document: Document | None, project: Project) -> Fix | Declined:
    """``sample = self.rows[index]`` above the first use, and ``sample`` in the place of each."""
    module = project.module(document) if document is not None and document.kind is Kind.PYTHON else None
    if module is None:
        return Declined("change the cell of the notebook by hand")
    statements = [next(up for up in module.syntax.ancestors(use) if isinstance(up, ast.stmt)) for use in found.uses]
    if any(statement not in found.method.body for statement in statements[:1]):
        return Declined("the sample is first taken in a block, which may not always run")
    used = {part.id for part in walk(found.method) if isinstance(part, ast.Name)}
    name = next((one for one in _NAMES if one not in used), None)
    above = insert_above(module.syntax, statements[0], f"{name} = {found.text}")
    if name is None or above is None:
        return Declined("there is no line above the first use for a statement of its own")
    edits = [Edit(module.path, module.syntax.span(use), name) for use in found.uses]
    return Fix(
        "take the sample once; where transforms of the inner data set are random, its parts are then of one draw",
        Safety.UNSAFE,
        (above, *edits),
    )
