"""Let the launcher name the GPU, or take out what keeps the program off it."""

from __future__ import annotations

import ast

from gpulint_rules.library.gpu415_cpu_device_by_default import OnCpu

from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.launch.job import JobLaunch
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint_fixers.edits.entries import remove_entry
from gpulint_fixers.edits.statements import remove_assignment, remove_statement


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, OnCpu) or document is None:
        return Declined("the right build or device depends on the driver and the program")
    if found.start is not None:
        edit = _pass(found.start, found.option)
        if edit is None:
            return Declined("the arguments are not on a plain shell line")
        return Fix(f"pass `{found.option}`; the program then computes on the GPU", Safety.UNSAFE, (edit,))
    if found.variable:
        removal = (
            remove_assignment(document.source, Place(finding.path, finding.span))
            if document.kind is Kind.SHELL
            else remove_entry(finding.path, document.source, finding.span)
            if document.kind is Kind.JOBSPEC
            else None
        )
        if removal is None:
            return Declined("the setting shares its line or list with others")
        return Fix(f"do not set {found.variable}, so that the program uses the GPUs", Safety.UNSAFE, (removal,))
    module = document.python
    if module is None or found.node is None:
        return Declined("the code that selects the CPU is not visible here")
    if found.unmoved is not None:
        return Declined(f"the model is not ready for a GPU: {found.unmoved.message}")
    if isinstance(found.node, ast.Constant):
        quote = module.text(found.node)[-1]
        edit = Edit(finding.path, module.span(found.node), f"{quote}gpu{quote}")
        return Fix("train on the GPUs", Safety.UNSAFE, (edit,))
    statement = module.parents.get(found.node)
    edit = remove_statement(module, statement) if isinstance(statement, ast.Expr) else None
    if edit is None:
        return Declined("the call is part of a larger statement")
    return Fix("remove the call, so that the program sees the GPUs", Safety.UNSAFE, (edit,))


def _pass(start: JobLaunch, option: str) -> Edit | None:
    """``option`` behind the last argument of the program."""
    last = start.launch.args[-1] if start.launch.args else start.launch.program_word
    if start.document.kind is not Kind.SHELL or last is None:
        return None
    span, source = last.word.span, start.document.source
    line = source.line(span.end_line)
    indent = line[: len(line) - len(line.lstrip())]
    if source.line(span.end_line - 1).rstrip().endswith("\\") and not line[span.end_column - 1 :].strip():
        option = f"\\\n{indent}{option}"  # one option on each line
    return Edit(start.document.path, Span(span.end_line, span.end_column, span.end_line, span.end_column), f" {option}")


FIXER = Fixer("GPU415", fix)
