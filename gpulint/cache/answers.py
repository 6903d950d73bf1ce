"""The units of a run with what they rest on, as the cache keeps them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.cache.entries import findings_of, report_in
from gpulint.traces import Snapshot, Writer

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.rule import Rule


def recall(project: Project, held: Mapping[str, Any], rules: Iterable[Rule]) -> None:
    """Let a run use what :func:`answers_of` an earlier one told, as far as it still holds."""
    by_code = {rule.code: rule for rule in rules}
    # Another version of gpulint may have written something of another shape.
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        project.db.earlier = Snapshot(project, held, lambda value: report_in(value, by_code))
        for question, paths in held["asked"].items():
            project.disk_asked[question] |= set(map(Path, paths))


def is_worth_keeping(project: Project) -> bool:
    """Return whether what a run found anew took longer than to keep it; if not, the next one finds it anew as well."""
    earlier = project.db.earlier
    return not isinstance(earlier, Snapshot) or project.db.spent > earlier.writing_s


def answers_of(project: Project) -> dict[str, Any]:
    """Return what a run found and what that rests on, fit for JSON, and what earlier ones found that still holds."""
    earlier = project.db.earlier
    writer = Writer(project, findings_of, earlier.known if isinstance(earlier, Snapshot) else {})
    for entry in (*project.db.done, *(earlier.others() if isinstance(earlier, Snapshot) else ())):
        writer.add(entry)
    writer.take(project.db.told)
    asked = {question: sorted(map(str, paths)) for question, paths in project.disk_asked.items()}
    return {"asked": asked, **writer.snapshot()}


def told(project: Project) -> dict[str, Any]:
    """Return what a process tells of its part of a run."""
    writer = Writer(project, findings_of, {})
    for entry in (*project.db.done, *(project.db.peers.told if project.db.peers is not None else ())):
        writer.add(entry)
    return writer.part()
