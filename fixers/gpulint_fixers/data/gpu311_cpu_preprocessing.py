"""Map a data set in several processes."""

from __future__ import annotations

import ast

from gpulint.documents.python import PythonModule
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint_fixers.calls import set_keyword
from gpulint_fixers.workers import worker_count

_MODEST = 4
"""Processes where nothing says how many cores the job has."""


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Pass ``num_proc`` to ``Dataset.map``; all else of the rule is work of the program itself."""
    document = project.document(finding.path)
    module = document.python if document is not None and document.kind is Kind.PYTHON else None
    call = _call(module, finding) if module is not None else None
    if module is None or call is None:
        return Declined("which transforms can move to the GPU or to a step before the job depends on the program")
    if any(keyword.arg is None for keyword in call.keywords):
        return Declined("the arguments of `map` come from a dictionary; add `num_proc` there")
    if any(keyword.arg in ("with_rank", "cache_file_names") for keyword in call.keywords):
        return Declined("the call chooses what each process does already")
    count, why = worker_count(project, finding.path)
    if count == "1":
        return Declined("the job has one core for each process; prepare the data set in a job of its own")
    if not count.isdecimal():
        count, why = str(_MODEST), "the cores of the job are not known"
    return Fix(
        f"map in {count} processes, each with its own memory ({why}); in a job with several ranks let one map first",
        Safety.UNSAFE,
        (set_keyword(module, call, "num_proc", count),),
    )


def _call(module: PythonModule, finding: Finding) -> ast.Call | None:
    """The call of ``map`` that a finding is about."""
    return next(
        (
            call
            for call in module.of(ast.Call)
            if isinstance(call.func, ast.Attribute) and call.func.attr == "map" and module.span(call) == finding.span
        ),
        None,
    )


FIXER = Fixer("GPU311", fix)
