"""One run: every selected rule over every document and job, whatever any of them does.

Work is split into units (a document, or a job) that know nothing of each other, so that several processes
give the same results in the same order as one. A rule that raises loses that one unit and is reported by name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpulint.documents import kind_of, undecodable
from gpulint.failures import Failure, PluginError
from gpulint.finding import Finding, Problem
from gpulint.fix import Declined, Fix, Fixer
from gpulint.gate import Candidates, Gate, gates_of
from gpulint.inline_findings import holds_no_gpus, is_inline
from gpulint.misspelt import may_hold_suppressions, misspelt
from gpulint.offers import offered
from gpulint.reads import Raised, StoredQuery, followed
from gpulint.records import dataclass, field
from gpulint.report import InternalError, JobSummary, Report, Result
from gpulint.rule import Kind, Rule, Scope
from gpulint.suppress import Suppressions

if TYPE_CHECKING:
    from gpulint.project import Project

T = TypeVar("T")
MANY_UNITS = 150
"""Units from which several processes may pay."""
Progress = Callable[[int, int], None]
"""Called with (units done, units in all)."""


@dataclass(frozen=True)
class Run:
    """A project, the rules to run over it and what else a unit of work needs."""

    project: Project
    rules: Sequence[Rule]
    fixers: Mapping[str, Fixer] = field(default_factory=dict)
    """Fixers to try on each finding; empty where no fix will be shown."""
    spent: defaultdict[str, float] | None = None
    """CPU seconds by stage (the code of a rule, or ``reading``), if anybody wants to know."""
    besides: Report = field(default_factory=Report)
    """What other processes report besides their units."""
    by_kinds: dict[frozenset[Kind], Candidates] = field(default_factory=dict)
    """Rules that look at single documents, by the kind of document."""

    def unit(self, unit: Unit) -> Report:
        """Run the rules of one document, or those of the jobs in one; or take what an earlier run found there."""
        db, query, key = self.project.db, UNITS[unit[0]], (unit[1],)
        started = time.process_time()
        entry = db.earlier.get(query, key) if db.earlier is not None else db.revised(query, key)
        if entry is None:
            with self.timed("reading"):
                entry = db.record(query, key, lambda: query.compute(self, *key))
                db.put(query.compute, key, entry)
            for read in followed(entry) if self.project.has_failures else ():
                if isinstance(read, Raised):
                    entry.value.record(read.failure)
        db.spent += time.process_time() - started
        db.done.append(entry)
        return entry.value  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count the time of a block for ``stage``, without that of the stages inside of it."""
        if self.spent is None:
            yield
            return
        before, inner = time.process_time(), sum(self.spent.values())
        try:
            yield
        finally:
            self.spent[stage] += time.process_time() - before - (sum(self.spent.values()) - inner)

    def document(self, path: Path) -> Report:
        """Findings and problems of one document."""
        report = Report()
        try:
            data = self.project.data(path)
            if reason := self.project.unreadable(path):
                report.problems.append(Problem(path, f"cannot be read: {reason}"))
                return report
            kind = kind_of(path, data[:4096])
            if kind is None:
                return report
            report.problems += self.misspelt(path, data)
            gates = gates_of(self.project, path, kind, data)
            rules = self.rules_for(path, gates, report)
            if not rules and kind is Kind.PYTHON and not self.project.is_named(path) and self.project.use_byte_gate:
                report.problems += undecodable(path, data)
                return report
            document = self.project.document(path)
            if document is None:
                return report
            document.may_hold_jobs = kind is not Kind.PYTHON or len(gates) > 1
            if not document.problems:
                # Read here, not when some rule happens to ask, so that problems do not depend on who asks first.
                _ = document.python, document.scripts, self.project.module(document), document.tasks
        except Exception as error:
            report.record(Failure(path, "reader", error))
            return report
        for rule in rules:
            if kind in rule.kinds or document.python is not None:
                self.check(rule, document, path, report)
        report.problems += document.problems
        for failure in document.failures:
            report.record(failure)
        return report

    def misspelt(self, path: Path, data: bytes) -> list[Problem]:
        """Warnings about comments that were meant to suppress findings and do not."""
        if not self.project.rule_names or not may_hold_suppressions(data):
            return []
        document = self.project.document(path)
        return [] if document is None else list(misspelt(document, self.project.rule_names))

    def rules_for(self, path: Path, gates: list[Gate], report: Report) -> Sequence[Rule]:
        """The rules that may fire in a file, without those whose plugin cannot say."""
        if self.skips(path):
            return []
        kinds = frozenset(gate.kind for gate in gates)
        known = self.by_kinds.get(kinds)
        if known is None:
            rules = [rule for rule in self.rules if rule.scope is Scope.DOCUMENT and not kinds.isdisjoint(rule.kinds)]
            known = self.by_kinds[kinds] = Candidates(rules)
        if not self.project.use_byte_gate:
            return known.rules
        passed = []
        for rule in known.of(gates[0]) if len(gates) == 1 else known.rules:
            try:
                if any(gate.admits(rule) for gate in gates):
                    passed.append(rule)
            except PluginError as error:
                report.record(Failure(path, rule.code, error))
        return passed

    def jobs(self, path: Path) -> Report:
        """Findings of the rules that look at whole jobs, of the jobs in one document."""
        from gpulint.launch.job_index import JobIndex

        report = Report()
        for job in () if (skipped := self.skips(path)) else self.project.fact(JobIndex).jobs_in(path):
            for rule in self.rules:
                if rule.scope is Scope.JOB:
                    self.check(rule, job, path, report)
        # The findings of programs that a launcher named after a test starts belong to its job.
        held = self.summaries(path, report)
        report.jobs += (job for job in held if not skipped or not all(map(self.skips, job.programs)))
        return report

    def summaries(self, path: Path, report: Report) -> list[JobSummary]:
        """The jobs of a document that hold GPUs."""
        from gpulint.assessment.jobs import summaries

        try:
            return list(summaries(self.project, path))
        except Exception as error:
            report.record(Failure(path, "jobs", error))
            return []

    def skips(self, path: Path) -> bool:
        """Return whether the rules are silent about a file. They are about tests, unless the settings include them or a
        launcher submits the file."""
        if not self.project.is_test(path) or self.project.config.include_tests:
            return False
        from gpulint.launch.job_index import JobIndex

        return not self.project.fact(JobIndex).is_submitted(path)

    def check(self, rule: Rule, subject: Any, path: Path, report: Report) -> None:
        """Run one rule on one document or job."""
        from gpulint.assessment.certainty import is_of_undrawn_loader, is_optional, never_runs

        try:
            with self.timed(rule.code):
                for finding in rule.check(subject, self.project):
                    if is_optional(finding, self.project) or never_runs(finding, self.project):
                        continue
                    if holds_no_gpus(finding, self.project) or is_of_undrawn_loader(finding, self.project):
                        continue
                    finding = self.sure(finding, report)
                    fix = self.fix(finding, report)
                    report.results.append(Result(self.assessed(finding, report), fix))
        except Exception as error:
            report.record(Failure(path, rule.code, error))

    def sure(self, finding: Finding, report: Report) -> Finding:
        """The finding, as an error only if all that it rests on is code that runs."""
        from gpulint.assessment.certainty import as_sure_as_its_places

        try:
            return as_sure_as_its_places(finding, self.project)
        except Exception as error:
            report.record(Failure(finding.path, "certainty", error))
            return finding

    def assessed(self, finding: Finding, report: Report) -> Finding:
        """The finding with its impact; with the usual one if that is unknown."""
        from gpulint.assessment import impact_of, programs_without

        try:
            with self.timed("impact"):
                impact, unreached = impact_of(finding, self.project), programs_without(finding, self.project)
                return dataclasses.replace(finding, impact=impact, unreached=unreached, cost=None)
        except Exception as error:
            report.record(Failure(finding.path, "impact", error))
            return dataclasses.replace(finding, cost=None)

    def fix(self, finding: Finding, report: Report) -> Fix | Declined | None:
        """The fix of a finding, if there is a fixer for it."""
        if (fixer := self.fixers.get(finding.rule.code)) is None or is_inline(finding, self.project):
            return None
        try:
            return offered(self.project, fixer.fix(finding, self.project))
        except Exception as error:
            report.record(Failure(finding.path, f"{fixer.code} fixer", error))
            return None


Unit = tuple[str, Path]
"""Which rules run (``document`` or ``jobs``), and on which document."""
UNITS = {"document": StoredQuery("document", Run.document), "jobs": StoredQuery("jobs", Run.jobs)}


def run(
    project: Project,
    files: Sequence[Path],
    rules: Sequence[Rule],
    *,
    fixers: Mapping[str, Fixer] | None = None,
    jobs: int | None = 1,
    report_unused_ignores: bool = False,
    progress: Progress | None = None,
    spent: defaultdict[str, float] | None = None,
) -> Report:
    """Scan ``files`` of ``project`` and return what is left after suppressions, per-file ignores and the severity.

    Findings outside ``files`` are dropped: rules may read the whole tree, but only what was asked for is reported.
    Python files in which no rule can fire, going by their bytes, are not parsed unless the project has
    them as ``named``; syntax errors in them go unseen. ``jobs`` is the number of processes; None: as many as pay.
    """
    work = Run(project, rules, fixers or {}, spent)
    units: list[Unit] = [("document", path) for path in files]
    report = Report()
    if rules:
        from gpulint.launch.job_index import job_documents

        with work.timed("linking jobs"):
            units += [("jobs", path) for path in job_documents(project)]
    # What is known already need not be told to other processes.
    for done, part in enumerate(_map(work, units, jobs if project.db.earlier is None else 1), 1):
        report.extend(part)
        if progress is not None:
            progress(done, len(units))
    report.extend(work.besides)
    _finish(report, project, files, rules, report_unused_ignores)
    return report


def _map(work: Run, units: Sequence[Unit], jobs: int | None) -> Iterator[Report]:
    """The reports of all units, in order."""
    if jobs != 1 and len(units) > (1 if jobs else MANY_UNITS):
        from gpulint import parallel

        count = parallel.worker_count(jobs, units)
        if count > 1:
            return parallel.reports(work, units, count)
    return map(work.unit, units)


def _finish(
    report: Report, project: Project, files: Sequence[Path], rules: Sequence[Rule], report_unused: bool
) -> None:
    """Drop what was not asked for or is suppressed, drop repetitions, and sort."""
    asked = set(files)
    by_path: dict[Path, list[Result]] = {path: [] for path in files} if report_unused else {}
    for result in report.results:
        if result.finding.path in asked:
            by_path.setdefault(result.finding.path, []).append(result)
    kept: list[Result] = []
    for path, results in by_path.items():
        results = _without_ignored(path, results, project, rules)
        suppressions = _suppressions(path, project, report)
        if suppressions:
            results = [result for result in results if not suppressions.covers(result.finding)]
            if report_unused:
                results += [Result(finding) for finding in suppressions.unused(rules)]
        kept += [result for result in results if result.finding.severity >= project.config.severity]
    for failure in project.take_failures():
        report.record(failure)
    report.jobs = [job for job in report.jobs if not asked.isdisjoint(job.files)]
    asked.add(project.root)  # what failed for all files
    report.problems = [problem for problem in report.problems if problem.path in asked]
    report.results = _sorted_once(kept, lambda result: (result.finding.sort_key, result.finding.message))
    report.problems = _sorted_once(report.problems, lambda problem: (problem.order, problem.message))
    report.errors = _once_per_file(report.errors)


def _once_per_file(errors: Iterable[InternalError]) -> list[InternalError]:
    """The same error of several rules in one file as one, which names them all."""
    same: dict[tuple[str, str, str], dict[str, InternalError]] = {}
    for error in errors:
        same.setdefault((str(error.path), error.error, str(error.plugin)), {}).setdefault(error.where, error)
    return [
        dataclasses.replace(next(iter(found.values())), where=", ".join(sorted(found)))
        for _, found in sorted(same.items())
    ]


def _sorted_once(items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """``items`` sorted by ``key``, of equal keys only the first (a program that two jobs start is reported once)."""
    unique: dict[Any, T] = {}
    for item in items:
        unique.setdefault(key(item), item)
    return [unique[found] for found in sorted(unique)]


def _without_ignored(path: Path, results: list[Result], project: Project, rules: Sequence[Rule]) -> list[Result]:
    """Results of one file without what ``per-file-ignores`` takes out."""
    config = project.config
    if not results or not config.per_file_ignores or not path.is_relative_to(config.base):
        return results
    from gpulint.patterns import compiled
    from gpulint.selection import select

    relative, ignored = path.relative_to(config.base).as_posix(), set()
    for pattern, selectors in config.per_file_ignores.items():
        if compiled((pattern,)).match_file(relative):
            ignored |= {rule.code for rule in select(rules, selectors, (), ())}
    return [result for result in results if result.finding.rule.code not in ignored]


def _suppressions(path: Path, project: Project, report: Report) -> Suppressions | None:
    try:
        if b"gpulint" not in project.utf8(path):
            return None
        document = project.document(path)
        return None if document is None else Suppressions(document)
    except Exception as error:
        report.record(Failure(path, "suppressions", error))
        return None
