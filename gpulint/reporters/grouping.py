"""Findings as people want to read them: by job, each cause once, and copies of a file as one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.counting import counted
from gpulint.edits import disjoint
from gpulint.finding import Finding
from gpulint.fix import TOGETHER, Declined, Fix, Safety, changes
from gpulint.impact_causes import SET_TOO
from gpulint.records import dataclass, field
from gpulint.report import Result
from gpulint.reporters.repeats import PROGRAMS, Repeats, find_repeats

if TYPE_CHECKING:
    from gpulint.impact import Range
    from gpulint.report import JobSummary, Report
    from gpulint.reporters import Context

_NAMES = regex.compile(r"'[^']*'")
_MARK = regex.compile(r"['`]")
_DETAILS = regex.compile(r"'[^']*'|`[^`]*`|\d+")
_COUNT_OF_GPUS = regex.compile(r"\d+ GPUs?")
_CALLERS = ("called from the ", "in this ")
"""What findings say of the loops that they are reached from."""
_EVALUATES = regex.compile(
    r"(^|[\W_])(test(ing|er)?|eval(uat\w+)?|val(id\w*)?|infer(ence)?|predict(ion|or)?|demo)($|[\W_\d])", re.IGNORECASE
)

_ONE_COPY, _COPIES = "the copy of the file has its own fix", "the copies of the file have their own fixes"
_MOST_PROGRAMS = 3
"""Programs of one job that its heading names."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Findings of one rule that say the same of different places; the first one speaks for all."""

    results: tuple[Result, ...]
    copies: tuple[Path, ...] = ()
    """Other files with the same findings as the first one's and the same code."""
    alike: tuple[Path, ...] = ()
    """Other files with the same findings on the same code, and other code besides: notebooks, files of one name."""

    @property
    def first(self) -> Finding:
        """The finding that is shown."""
        return self.results[0].finding

    @property
    def repaired(self) -> Result:
        """The place whose fix is shown: the first one if it has any that changes something, else the first that has,
        since ``gpulint fix`` changes each."""
        return next((one for one in self.results if changes(one.fix)), self.results[0])

    @property
    def is_fixable(self) -> bool:
        """Whether there is a fix."""
        return changes(self.repaired.fix)

    @property
    def is_safely_fixable(self) -> bool:
        """Whether there is a fix that ``gpulint fix --apply`` applies."""
        fix = self.repaired.fix
        return isinstance(fix, Fix) and fix.changes and fix.safety is Safety.SAFE

    @property
    def previewed(self) -> Fix | Declined | None:
        """The fix that is shown; with those of the other places of its file where it helps only together with them."""
        fix, path = self.repaired.fix, self.repaired.finding.path
        if not isinstance(fix, Fix) or TOGETHER not in fix.description:
            return fix
        others = (one.fix for one in self.results if one.finding.path == path and one is not self.repaired)
        fixes = disjoint([fix, *(one for one in others if isinstance(one, Fix))])
        return replace(fix, edits=tuple(dict.fromkeys(edit for one in fixes for edit in one.edits)))

    def told(self, context: Context) -> str:
        """Return what the fix does, with the place if it is not the first one."""
        fix, found = self.repaired.fix, self.repaired.finding
        said = fix.description if isinstance(fix, Fix) else ""
        if not said:
            return ""
        if conditions := self._conditions_elsewhere():
            said += "; elsewhere: " + "; ".join(conditions)
        if self.copies and isinstance(fix, Fix) and fix.edits:
            said += f"; {_ONE_COPY if len(self.copies) == 1 else _COPIES} (`--impact low`)"
        if self.repaired is self.results[0]:
            return said
        return f"at {context.place(found.path, found.span).rpartition(':')[0]}: {said}"

    def _conditions_elsewhere(self) -> list[str]:
        """Return what the fixes of the other places need or change beyond the one that is shown."""
        fixes = [result.fix for result in (self.repaired, *self.results) if isinstance(result.fix, Fix)]
        own, *others = (fix.description.split("; ") for fix in fixes if fix.changes)
        both = any(part.startswith(TOGETHER) for part in own)
        parts = dict.fromkeys(part for other in others for part in other[1:] if part not in own)
        return [part for part in parts if not (both and part.startswith(TOGETHER))]


@dataclass(slots=True)
class Section:
    """The findings of a job, or all that belong to none."""

    job: JobSummary | None
    causes: list[Cause]
    others: list[JobSummary] = field(default_factory=list)
    """More jobs that run a file of this section."""

    @property
    def gpus(self) -> int:
        """GPUs that the job holds; 0 if that is not known."""
        return (self.job.gpus or 0) if self.job is not None else 0

    @property
    def lost(self) -> Range | None:
        """Share of the job's GPU time that its findings cost together; None where no share is known."""
        left = [1.0, 1.0]
        for cause in self.causes:
            # Of places that say the same, the worst counts: their shares may be of the same waiting time.
            shares = [item.finding.impact.gpu_share for item in cause.results if item.finding.impact.gpu_share]
            for end in (0, 1) if shares else ():
                left[end] *= 1 - max(share[end] for share in shares)
        return None if left == [1.0, 1.0] else (1 - left[0], 1 - left[1])


def sections(report: Report, context: Context) -> list[Section]:
    """All findings of ``report``: jobs first, those with the highest impact and the most GPUs ahead, then the rest."""
    repeats = Repeats({}) if context.verbose else find_repeats(report.results, context)
    jobs_of = defaultdict[Path, list[int]](list)
    for number, job in enumerate(report.jobs):
        for path in dict.fromkeys((job.place.path, *job.files)):
            jobs_of[path].append(number)
    of_job = defaultdict[int, list[Result]](list)
    rest: list[Result] = []
    others = defaultdict[int, set[int]](set)
    for result in report.results:
        path = result.finding.path
        if path in repeats.leader_of:
            continue
        running = _named(result.finding, report.jobs, _running(result.finding, report.jobs, jobs_of))
        if not running:
            rest.append(result)
            continue
        best = min(running, key=lambda number: _nearness(report.jobs[number], path, number))
        others[best].update(number for number in running if number != best)
        of_job[best].append(result)
    found = [
        Section(
            report.jobs[number],
            _causes(results, repeats, context),
            [report.jobs[other] for other in sorted(others[number])],
        )
        for number, results in of_job.items()
    ]
    found.sort(key=lambda section: (-_worst(section.causes), -section.gpus, _place(section)))
    return [*found, Section(None, _causes(rest, repeats, context, by_file=True))] if rest else found


def most_important(sections: Iterable[Section], count: int) -> list[tuple[Section, Cause]]:
    """The causes to repair first, one of each rule: by impact, GPUs of the job, severity, and whether a fixer can."""
    ranked = sorted(
        ((section, cause) for section in sections for cause in section.causes),
        key=lambda pair: (
            -pair[1].first.impact.level, -pair[0].gpus, -pair[1].first.severity, not pair[1].is_fixable,
        ),
    )  # fmt: skip
    found: dict[str, tuple[Section, Cause]] = {}
    for section, cause in ranked:
        found.setdefault(cause.first.rule.code, (section, cause))
    return [*found.values()][:count]


def names_in(message: str, other: str) -> str:
    """Quoted names of ``message`` that ``other`` does not have: what tells places of one cause apart."""
    here, there = _quoted(message), set(_quoted(other))
    return ", ".join(dict.fromkeys(name for name in here if name not in there and len(name) <= 40))


def _quoted(message: str) -> list[str]:
    """Return what a message quotes, with the marks around it."""
    found, at = list[str](), 0
    while (mark := _MARK.search(message, at)) is not None:
        end = _end_of_quote(message, mark.start())
        if end < 0:
            break
        found.append(message[mark.start() : end + 1])
        at = end + 1
    return found


def _end_of_quote(message: str, start: int) -> int:
    """Return where a quote ends that begins at ``start``: not at a text in brackets (``'log('loss', x)'``)."""
    depth = 0
    for at in range(start + 1, len(message)):
        if message[at] == message[start] and not depth:
            return at
        depth += (message[at] in "([{") - (message[at] in ")]}")
    cut = message.find(f"...{message[start]}", start)
    return cut + 3 if cut >= 0 else message.find(message[start], start + 1)


def _running(found: Finding, jobs: Sequence[JobSummary], jobs_of: Mapping[Path, list[int]]) -> list[int]:
    """The jobs that run the file of a finding, for what it is about, and the loop that calls it, where the finding
    names one."""
    callers = dict.fromkeys(place.path for place in found.related if place.message.startswith(_CALLERS))
    known = [{*jobs_of.get(path, ())} for path in callers]
    unreached = {*found.unreached}
    return [
        number
        for number in jobs_of.get(found.path, ())
        if all(number in callers for callers in known)
        and jobs[number].place.path not in unreached
        and not (unreached and unreached.issuperset(jobs[number].programs) and jobs[number].programs)
    ]


def _named(found: Finding, jobs: Sequence[JobSummary], running: list[int]) -> list[int]:
    """Of the jobs that run the file of a finding, those of the file whose requests the finding marks or names; all if
    there are none."""
    path = found.path
    requests = [(path, found.span), *((place.path, place.span) for place in found.related if place.path == path)]
    return [number for number in running if (jobs[number].place.path, jobs[number].place.span) in requests] or running


def _nearness(job: JobSummary, path: Path, number: int) -> tuple[bool, bool, bool, int, int]:
    """Return which of several jobs a file's findings are shown with: the one that it launches, else one that does more
    than evaluate by its commands, or the names of its programs, of these one that starts the file, of these that of the
    most GPUs."""
    evaluates = bool(job.programs) and all(_EVALUATES.search(program.stem) for program in job.programs)
    return (
        path != job.place.path,
        job.evaluates or (evaluates and path not in job.programs),
        path not in job.programs,
        -(job.gpus or 0),
        number,
    )


def _worst(causes: Sequence[Cause]) -> int:
    return max((item.finding.impact.level for cause in causes for item in cause.results), default=0)


def _place(section: Section) -> str:
    return str(section.job.place.path if section.job is not None else section.causes[0].first.path)


def _causes(results: Sequence[Result], repeats: Repeats, context: Context, *, by_file: bool = False) -> list[Cause]:
    """Results of a section by impact, the file if ``by_file``, severity and place; those of one cause joined."""

    def order(result: Result) -> tuple[int, str, int, object]:
        found = result.finding
        return -found.impact.level, str(found.path) if by_file else "", -found.severity, found.sort_key

    ordered = sorted(results, key=order)
    groups: dict[object, list[Result]] = {}
    for number, result in enumerate(ordered):
        path = result.finding.path
        # Copies are named once for their file.
        key = number if context.verbose else (_cause(result.finding), path if any(repeats.of(path)) else None)
        groups.setdefault(key, []).append(result)
    for group in groups.values():
        group.sort(key=_strength)
    return [Cause(tuple(group), *repeats.of(group[0].finding.path)) for group in groups.values()]


def _strength(result: Result) -> tuple[int, float, bool]:
    """The place of one cause that costs most comes first, as far as shares of the GPUs' time tell; of equals, one that
    no documented command sets besides."""
    impact = result.finding.impact
    share = impact.gpu_share[1] if impact.gpu_share is not None else 0.0
    return -impact.level, -share, any(place.message == SET_TOO for place in result.finding.related)


def _cause(found: Finding) -> object:
    """Return what findings of one cause share: what their rule says it is, else their text. A command is the cause
    itself, but names and numbers in a program only tell its places apart."""
    if found.cause is not None:
        return found.rule.code, found.cause.path, found.cause.span
    pattern = _DETAILS if found.path.suffix in PROGRAMS else _NAMES
    return found.rule.code, found.severity, found.impact.level, pattern.sub("'", found.message)


def stated_gpus(section: Section, cause: Cause) -> str:
    """Return the GPUs that the impact of a cause names, which are those of its own jobs, else those of its section:
    ``4 GPUs``; empty if neither is known."""
    named = (part for part in cause.first.impact.basis.split(", ") if _COUNT_OF_GPUS.fullmatch(part))
    return next(named, counted(section.gpus, "GPU") if section.gpus else "")


def gpus_of(job: JobSummary) -> str:
    """Return ``8 GPUs``, as far as the number is known."""
    return counted(job.gpus, "GPU") if job.gpus else "unknown number of GPUs"


def steps_of(job: JobSummary, context: Context, shown: Callable[[str], str] = str) -> list[str]:
    """Return the place of the launcher, and the programs that it starts, one after the other or together:
    ``job.yaml:24``, ``prepare.py, train.py``."""
    programs = [context.relative(path) for path in job.programs if path != job.place.path]
    more = len(programs) - _MOST_PROGRAMS
    if more > 1:
        programs[_MOST_PROGRAMS:] = [f"{more} more programs"]
    started = [", ".join(map(shown, programs))] if programs else []
    return [shown(context.place(job.place.path, job.place.span).rpartition(":")[0]), *started]
