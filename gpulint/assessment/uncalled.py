"""Functions of modules that no call of the tree is seen to reach, though others may call them once it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.assessment.subject import node_at
from gpulint.placement.batch_flow import BatchFlow
from gpulint.project import Project
from gpulint.semantic.notebook_functions import is_in_unused_of_notebook
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.unused_symbols import is_in_broken_files, is_in_unnamed_method, is_in_unused, is_unused
from gpulint.source import Span
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, NodeRef

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject


def is_uncalled(project: Project, path: Path, span: Span) -> bool:
    """Return whether a place is in a function of a module that no other code of the tree calls."""
    module = project.module_at(path) if span.cell is None else None
    if module is None:
        return False
    outer = [
        one
        for one in module.syntax.tree.body
        if isinstance(one, FunctionNode) and one.lineno <= span.line <= (one.end_lineno or one.lineno)
    ]
    return any(not project.fact(Resolver).call_sites(module, one) for one in outer)


def is_not_called(subject: Subject) -> bool:
    """Return whether nothing in the tree names the class or function around a place."""
    return _is_unused(subject) and not _is_in_broken_files(subject)


def only_broken_files_use(subject: Subject) -> bool:
    """Return whether what names the class or function around a place has a syntax error, and cannot run."""
    return _is_unused(subject) and _is_in_broken_files(subject)


def is_in_uncalled_loop(subject: Subject) -> bool:
    """Return whether the loop that leads to the place is in a function of another file that nothing calls, or all loops
    that do are in such methods."""
    cause = subject.finding.cause
    if cause is None or subject.is_notebook:
        return False
    module = subject.project.module_at(cause.path)
    loop = node_at(module, cause.span) if module is not None else None
    if module is None or loop is None:
        return False
    if cause.path != subject.path and is_in_unused(subject.project, module, loop):
        return True
    ways = [context for context in subject.contexts if context.calls]
    return len(ways) == len(subject.contexts) > 0 and all(_is_in_uncalled_method(subject, one.loop) for one in ways)


def _is_in_uncalled_method(subject: Subject, loop: NodeRef) -> bool:
    """Return whether a loop is in a method that nothing in the tree names. Those who install a package may call it, but
    not the jobs of the tree."""
    return not isinstance(loop.node, FUNCTIONS) and is_in_unnamed_method(
        subject.project, loop.module, loop.node, offered=not subject.jobs
    )


def only_unused_read(subject: Subject) -> bool:
    """Return whether all loops over a loader that the top level of a file makes are in functions that nothing uses:
    their call is commented out."""
    loader, project = subject.cost.loader if subject.cost is not None else None, subject.project
    if loader is None or loader.module.function(loader.node) is not None:
        return False
    loops = [read.where for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)]
    loops = [where for where in loops if isinstance(where.node, LOOPS)]
    unused = is_in_unused_of_notebook if subject.is_notebook else is_in_unused
    return bool(loops) and all(unused(project, where.module, where.node) for where in loops)


def _is_in_broken_files(subject: Subject) -> bool:
    module, node = subject.module, subject.node
    return module is not None and node is not None and is_in_broken_files(subject.project, module, node)


def _is_unused(subject: Subject) -> bool:
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    if subject.is_notebook:
        return is_in_unused_of_notebook(subject.project, module, node)
    if any(isinstance(context.loop.node, FUNCTIONS) for context in subject.contexts):
        return is_in_unused(subject.project, module, node)  # a framework calls the method of what somebody makes
    return is_unused(subject.project, module, node)
