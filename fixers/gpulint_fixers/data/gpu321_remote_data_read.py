"""Read through the cache that a library has itself."""

from __future__ import annotations

import ast

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint.transfers.data_caches import DataCaches
from gpulint_fixers.loading.data_caches import keep_copies

_ELSEWHERE = Declined("only the program that reads the bucket can cache it; stage the data before the job")


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Let what reads the bucket keep copies in a folder on the node's own disk."""
    document = project.document(finding.path)
    if document is None or document.kind is Kind.NOTEBOOK:
        return _ELSEWHERE
    if document.kind is not Kind.PYTHON or document.python is None:
        return _in_program(finding, project)
    syntax = document.python
    call = next((one for one in syntax.of(ast.Call) if syntax.span(one) == finding.span), None)
    module = project.module(document)
    return _ELSEWHERE if call is None or module is None else keep_copies(project, module, call)


def _in_program(finding: Finding, project: Project) -> Fix | Declined:
    """Change the calls of a job's program that get the address."""
    reads = project.fact(DataCaches).reading(finding.path, finding.span)
    fixes = [keep_copies(project, module, call) for module, call, _ in reads]
    declined = next((one for one in fixes if isinstance(one, Declined)), None)
    made = [one for one in fixes if isinstance(one, Fix)]
    if declined is not None or not made:
        return declined or _ELSEWHERE
    edits: dict[Edit, None] = dict.fromkeys(edit for one in made for edit in one.edits)
    return Fix(made[0].description, Safety.UNSAFE, tuple(edits))


FIXER = Fixer("GPU321", fix)
