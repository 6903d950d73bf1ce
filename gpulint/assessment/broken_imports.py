"""Programs that cannot start, as they import a module of the tree that has a syntax error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.kept_folders import own_jobs
from gpulint.assessment.module_files import always_imported, by_stem
from gpulint.assessment.moved_imports import holds_for_programs
from gpulint.assessment.subject import mentions
from gpulint.query import cyclic
from gpulint.semantic.unused_symbols import cannot_run

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.launch.job import Job
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_PYTHON2 = regex.compile(
    r"^(?: {0,40}\t|[ \t]{0,40}(?:(?:print|exec)[ \t]{1,4}[\"'%]|raise[ \t]{1,4}\w{1,80},[ \t]{0,4}[\"']"
    r"|except[ \t][^:\n]{1,80},[ \t]{0,4}\w{1,80}:)|from __future__ import .{0,80}(?:print|division|absolute|unicode))"
    r"|\b(?:xrange|raw_input|unichr|basestring)\b|\.(?:iteritems|itervalues|has_key)\(|\bur[\"']|\b0[0-7]{2,}\b",
    re.MULTILINE,
)
"""Signs of Python 2, in which a file may be correct."""


def imports_broken_file(subject: Subject) -> bool:
    """Return whether the module of a place, each that calls the function around it, or each program that the jobs of
    a launcher start imports a module with a syntax error in any case."""
    if not subject.is_launcher:
        return holds_for_programs(subject, _imports_broken)
    jobs = own_jobs(subject)
    return bool(jobs) and all(_fails(subject.project, job) for job in jobs)


def _fails(project: Project, job: Job) -> bool:
    starts = [start for start in job.launches if start.script is None and not start.launch.uncalled]
    modules = [project.module_at(start.program) if start.program is not None else None for start in starts]
    return job.complete and bool(starts) and all(one is not None and _imports_broken(project, one) for one in modules)


@cyclic(False)
def _imports_broken(project: Project, module: ModuleIndex) -> bool:
    if mentions(module, _PYTHON2):
        return False
    for path in _imported(project, module):
        other = project.module_at(path)
        if _imports_broken(project, other) if other is not None else _is_broken(project, path):
            return True
    return False


def _is_broken(project: Project, path: Path) -> bool:
    return cannot_run(project, path) and not project.matches(path, _PYTHON2)


def _imported(project: Project, module: ModuleIndex) -> Iterator[Path]:
    """Yield the modules of the tree that a module imports in any case, by names that stand for no others."""
    for name, path in always_imported(project, module):
        if "." in name or path.parent == module.path.parent or len(by_stem(project).get(path.stem, ())) == 1:
            yield path
