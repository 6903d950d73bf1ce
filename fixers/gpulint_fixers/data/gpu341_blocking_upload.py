"""Hand an upload, with a copy of what it sends, to a background worker."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu341_blocking_upload import Uploaded

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import last_name
from gpulint_fixers.edits.background import MODULE, bring_module
from gpulint_fixers.edits.calls import opening

_NAME = "upload_in_background"
_SOURCE_FIRST = frozenset({"upload_file", "upload_from_filename", "copy", "copy2", "copyfile", "copytree"})
"""Functions whose first argument is the local path and that any thread may call (MLflow's run is its thread's own)."""
_DESCRIPTION = (
    f"copy it on the local disk and let {MODULE}.py upload the copy while training continues; it arrives later, an "
    "upload that fails is printed instead of raised, and TMPDIR needs room for two copies"
)


def fix(finding: Finding, project: Project) -> Fix | Declined:
    payload = finding.payload
    if not isinstance(payload, Uploaded):
        return Declined("the logger uploads on its own; what it keeps, and where, is your decision")
    call, module = payload.upload.node, payload.upload.call.module
    syntax = module.syntax
    name = last_name(call.func)
    if name not in _SOURCE_FIRST:
        return Declined(f"`{name}` cannot run in a thread on a copy of its file")
    if not isinstance(syntax.parents.get(call), ast.Expr):
        return Declined("the call's value is used")
    if not call.args or isinstance(call.args[0], ast.Starred):
        return Declined("the local path is not the call's first argument")
    brought = bring_module(project, module, _NAME)
    if isinstance(brought, Declined):
        return brought
    imports, files = brought
    # Not where the first argument starts: that may be inside of parentheses of its own.
    inside = opening(syntax.source.text, syntax.offsets(call.func)[1]) + 1
    rest = syntax.source.text[inside : syntax.offsets(call)[1]]
    gap = rest[: len(rest) - len(rest.lstrip())]
    first = inside + len(gap)
    edits = (
        Edit(module.path, syntax.span(call.func), _NAME),
        Edit(module.path, syntax.span_at(first, first), f"{syntax.text(call.func)},{gap or ' '}"),
    )
    return Fix(_DESCRIPTION, Safety.UNSAFE, (*imports, *edits), files)


FIXER = Fixer("GPU341", fix)
