"""What the assessment of a finding asks about its place: the file, the node, the loops around it, the jobs."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.jobs import jobs_running
from gpulint.assessment.unreached_programs import unreached_programs
from gpulint.documents.notebook import NotebookDocument
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.finding import Finding
    from gpulint.impact import Cost
    from gpulint.launch.job import Job
    from gpulint.project import Project
    from gpulint.source import Span

LAUNCHERS = frozenset({Kind.SHELL, Kind.JOBSPEC, Kind.DOCKERFILE})


class Subject:
    """A finding with the answers about its place, each asked once."""

    def __init__(self, finding: Finding, project: Project, cost: Cost | None) -> None:
        self.finding, self.project, self.cost = finding, project, cost
        self.path: Path = finding.path

    @cached_property
    def document(self) -> Document | None:
        """The finding's document."""
        return self.project.document(self.path)

    @cached_property
    def module(self) -> ModuleIndex | None:
        """Its Python, if it has any."""
        return self.project.module(self.document) if self.document is not None else None

    @cached_property
    def node(self) -> ast.AST | None:
        """The expression or statement that the finding marks."""
        return node_at(self.module, self.finding.span) if self.module is not None else None

    @cached_property
    def is_launcher(self) -> bool:
        """Whether the finding is in a script, job spec or Dockerfile."""
        return self.document is not None and self.document.kind in LAUNCHERS

    @cached_property
    def is_notebook(self) -> bool:
        """Whether the finding is in a notebook."""
        return isinstance(self.document, NotebookDocument)

    @cached_property
    def contexts(self) -> tuple[LoopContext, ...]:
        """The training, epoch and evaluation loops that run the place."""
        if self.module is None or self.node is None:
            return ()
        return self.project.fact(LoopContexts).enclosing_loops(self.module, self.node)

    @cached_property
    def roles(self) -> frozenset[Role]:
        """What these loops do."""
        return frozenset(context.role for context in self.contexts)

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs of the tree that run the place."""
        if self.tries_itself:
            return ()
        unreached = frozenset(unreached_programs(self.project, self.finding))
        running = jobs_running(self.project, self.path)
        return tuple(job for job in running if not job.programs or not unreached.issuperset(job.programs))

    @cached_property
    def is_in_no_job(self) -> bool:
        """Whether jobs run the file, but none the place."""
        return not self.jobs and bool(jobs_running(self.project, self.path))

    @cached_property
    def tries_itself(self) -> bool:
        """Whether the place only runs when its module is started, which jobs only import."""
        if self.module is None or self.node is None or self.is_notebook:
            return False
        return self.project.fact(GpuPrograms).tries_itself_in_no_job(self.module, self.node)

    @cached_property
    def place(self) -> str:
        """The file's path from the root of the tree."""
        return self.project.place(self.path)

    @cached_property
    def trains(self) -> bool:
        """Whether the module takes training steps."""
        return self.module is not None and self.project.fact(LoopContexts).has_training_step(self.module)

    @cached_property
    def starts_training(self) -> bool:
        """Whether a job of the file starts a program that takes training steps, or one that is not of the tree."""
        programs = [program for job in self.jobs for program in job.programs]
        modules = [self.project.module_at(program) for program in programs]
        loops = self.project.fact(LoopContexts)
        return not modules or any(module is None or loops.has_training_step(module) for module in modules)

    @cached_property
    def text(self) -> str:
        """The Python text of the file, else the text of the document."""
        if self.module is not None:
            return self.module.syntax.source.text
        return self.document.source.text if self.document is not None else ""

    def mentions(self, pattern: re.Pattern[str]) -> bool:
        """Return whether there is a match in the file's Python, else in its document."""
        if self.module is not None:
            return mentions(self.module, pattern)
        return self.document is not None and self.document.matches(pattern)


@query
def mentions(module: ModuleIndex, pattern: re.Pattern[str]) -> bool:
    """Return whether there is a match in the text of a module."""
    return regex.occurs(pattern, module.syntax.source.text)


@query
def _offsets(module: ModuleIndex) -> dict[int | None, int]:
    """By how much line numbers of a notebook's cells differ from those of its module."""
    found: dict[int | None, int] = {}
    for statement in module.syntax.tree.body:
        own = module.syntax.span(statement)
        found.setdefault(own.cell, statement.lineno - own.line)
    return found


_PLACED = (ast.expr, ast.stmt, ast.keyword)


@query
def _by_line(module: ModuleIndex) -> dict[int, list[ast.expr | ast.stmt | ast.keyword]]:
    """Nodes by the line that they start in, parents first."""
    table: dict[int, list[ast.expr | ast.stmt | ast.keyword]] = {}
    for node in module.syntax.nodes:
        if isinstance(node, _PLACED):
            table.setdefault(node.lineno, []).append(node)
    return table


def node_at(module: ModuleIndex, span: Span) -> ast.AST | None:
    """The node that a span marks, else the first statement of its line."""
    line = span.line
    if span.cell is not None:
        offset = _offsets(module).get(span.cell)
        if offset is None:
            return None
        line += offset
    nodes = _by_line(module).get(line, [])
    exact = next((node for node in nodes if module.syntax.span(node) == span), None)
    if exact is not None:
        return exact
    return next((node for node in nodes if isinstance(node, ast.stmt)), nodes[0] if nodes else None)
