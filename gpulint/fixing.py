"""The fix engine: applies the fixes of a scan in memory, scans again, and goes on until nothing changes.

Nothing is written here. A fix is done whole, in all its files, or not at all; one that breaks a file, does not silence
its finding or undoes another is dropped with the reason, and the others are done without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import edits, engine
from gpulint.fix import Declined, Fix, Fixer, Safety
from gpulint.fix_lines import as_before
from gpulint.fix_scans import FixScans, Key, NotAccepted, is_in_line_of_fix, key_of, unnumbered
from gpulint.outcomes import Fixed, Outcome, State
from gpulint.records import dataclass, field
from gpulint.report import Report, Result
from gpulint.rescans import Rescans
from gpulint.texts import Refused, edited
from gpulint.writing import Change

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.rule import Rule

ROUNDS = 10
"""Enough for fixes that build on each other; more means that fixers undo each other's work."""

Refusal = Callable[[Path], str | None]
"""Says why a file may not be changed."""
Approval = Callable[[Result, Fix, Sequence[Change]], bool]
"""Whether a fix is to be done, by what it would change in each file."""


def fix(
    project: Project,
    files: Sequence[Path],
    rules: Sequence[Rule],
    fixers: Mapping[str, Fixer],
    *,
    unsafe: bool = False,
    refusal: Refusal | None = None,
    approval: Approval | None = None,
    not_accepted: NotAccepted | None = None,
    jobs: int | None = 1,
    progress: engine.Progress | None = None,
) -> Fixed:
    """Repair what ``rules`` find in ``files`` of ``project`` with safe fixes, and with ``unsafe`` ones if asked.

    A fix may change other files, but none outside of the project, and bring new ones. ``refusal`` says why one may not
    be changed, ``approval`` is asked once about each fix, and ``not_accepted`` leaves out what is not shown nor fixed.
    """
    rescans = Rescans(project)

    def scan(project: Project, new: Sequence[Path]) -> Report:
        return rescans.run(project, [*files, *new], rules, fixers=fixers, jobs=jobs, progress=progress)

    scans = FixScans(scan, not_accepted)
    return _Rounds(project, scans, unsafe, refusal or (lambda path: None), approval).run()


@dataclass
class _Step:
    """Some fixes done together."""

    project: Project
    done: list[Result]
    moves: dict[tuple[Path, int | None], edits.Moves]

    def moved(self, key: Key) -> Key:
        """The key of a finding after the step."""
        code, path, cell, offset, message = key
        moves = self.moves.get((path, cell))
        return code, path, cell, offset if moves is None else moves.of(offset), message


@dataclass
class _Rounds:
    project: Project
    scans: FixScans
    unsafe: bool
    refusal: Refusal
    approval: Approval | None
    banned: dict[Key, str] = field(default_factory=dict)
    """Findings whose fix was dropped, with the reason; the key moves along with the text."""
    answers: dict[Key, bool] = field(default_factory=dict)
    """What the user said to fixes; the key moves along with the text."""
    seen: dict[Path, set[bytes]] = field(default_factory=dict)
    """All that files held before some round."""
    together: list[set[Path]] = field(default_factory=list)
    """Files of each fix that was done."""

    def run(self) -> Fixed:
        self.original = self.project
        number, first = 1, self.scans.first(self.project)
        report, applied = first, list[Outcome]()
        origins = {key_of(result.finding, self.project): (result, number) for result in report.results}
        while True:
            step = self.step(report)
            if not step.done:
                break
            if number > ROUNDS:
                self.ban(step.done, f"fixes do not come to an end after {ROUNDS} rounds")
                break
            done = {*map(id, step.done)}
            shown = {unnumbered(step.moved(self.key(one))) for one in report.results if id(one) not in done}
            after = self.scans.after(step.project, self.new_files(step), step.moved, shown)
            if again := self.not_silenced(step, report, after):
                self.ban(again, "the fix does not silence its finding")
                continue  # each time with a fix less
            applied += [Outcome(result, State.APPLIED, number) for result in step.done]
            known = {step.moved(key): origin for key, origin in origins.items()}
            self.accept(step)
            self.scans.accept(step.moved)
            number, report = number + 1, after
            origins = {}
            for result in report.results:
                key = key_of(result.finding, self.project)
                origins[key] = known.get(key, (result, number))
            first.errors += [error for error in after.errors if error not in first.errors]
        left = [self.left(result, number, origins) for result in report.results if not self.is_of_fix(result, applied)]
        return Fixed([*applied, *left], self.groups(), first, self.project)

    # -- one round -----------------------------------------------------------------------------------------------------

    def step(self, report: Report) -> _Step:
        """All fixes that can be done together and leave every file readable."""
        results = self.approved(report)
        while True:
            try:
                changes = self.changed([fix for _, fix in results])
                break
            except _Broken:
                results = self.bearable(results)
        fixes = [fix for _, fix in results]
        moves = {
            (path, cell): edits.Moves(edits.replacements(_text(self.project, path, cell), found))
            for path, cells in edits.by_file(fixes).items()
            for cell, found in cells.items()
        }
        files = tuple(dict.fromkeys((*self.project.files, *changes)))
        project = self.project.successor(changes, files)
        for path, data in changes.items():
            project.provide(path, data)
        return _Step(project, [result for result, _ in results], moves)

    def approved(self, report: Report) -> list[tuple[Result, Fix]]:
        """Candidates that do not touch each other, and that the user wants if there is one to ask."""
        candidates = list(self.candidates(report))
        while True:
            chosen = set(map(id, edits.disjoint(fix for _, fix in candidates)))
            results = [(result, fix) for result, fix in candidates if id(fix) in chosen]
            wanted = [self.wants(result, fix) for result, fix in results]
            if all(wanted):
                return results
            candidates = [(result, fix) for result, fix in candidates if self.answers.get(self.key(result), True)]

    def wants(self, result: Result, fix: Fix) -> bool:
        """Return what the user says to a fix, asked once."""
        key = self.key(result)
        if self.approval is None:
            return True
        if key not in self.answers:
            try:
                changed = self.changed([fix])
            except _Broken as error:
                self.ban([result], str(error))
                self.answers[key] = False
                return False
            changes = [Change(path, self.before(path), after) for path, after in changed.items()]
            self.answers[key] = self.approval(result, fix, changes)
        return self.answers[key]

    def before(self, path: Path) -> bytes | None:
        return self.project.data(path) if path in self.project.files else None

    def key(self, result: Result) -> Key:
        return key_of(result.finding, self.project)

    def candidates(self, report: Report) -> Iterator[tuple[Result, Fix]]:
        """Findings with a fix that is allowed; what no round could do is banned here."""
        for result in report.results:
            fix = result.fix
            if not isinstance(fix, Fix) or not self.allowed(fix) or self.key(result) in self.banned:
                continue
            if not self.answers.get(self.key(result), True):
                continue
            if reason := self.forbidden(fix):
                self.ban([result], reason)
            else:
                yield result, fix

    def allowed(self, fix: Fix) -> bool:
        return fix.safety is Safety.SAFE or (self.unsafe and fix.safety is Safety.UNSAFE)

    def forbidden(self, fix: Fix) -> str | None:
        """Return why a fix cannot be done whatever else is done."""
        own = set(self.project.files)
        for path in {edit.path for edit in fix.edits}:
            if path not in own:
                return f"it would change {path}, which is not among the files of the project"
            if reason := self.refusal(path):
                return reason
        for new in fix.files:
            try:
                if new.path in own or new.path.exists() or new.path.is_symlink():
                    return f"{new.path} exists already"
            except OSError as error:  # such as a name that is too long
                return f"{new.path.name} cannot be created: {error.strerror}"
            if not new.path.is_relative_to(self.project.root):
                return f"{new.path} is not inside of the project"
            if reason := self.refusal(new.path):
                return reason
        return None

    def bearable(
        self, results: Sequence[tuple[Result, Fix]], kept: Sequence[tuple[Result, Fix]] = ()
    ) -> list[tuple[Result, Fix]]:
        """``kept`` and those of ``results`` that break no file on top of it; found by halves, as most break none."""
        of = [fix for _, fix in results]
        try:
            self.changed([*(fix for _, fix in kept), *of], of=of)
        except _Broken as error:
            if len(results) == 1:
                self.ban([results[0][0]], str(error))
                return [*kept]
            half = len(results) // 2
            return self.bearable(results[half:], self.bearable(results[:half], kept))
        return [*kept, *results]

    def changed(self, fixes: Sequence[Fix], of: Sequence[Fix] | None = None) -> dict[Path, bytes]:
        """New content of all files that ``fixes`` change, or only of those that ``of`` changes.

        Raises:
            _Broken: a file could not be read any more, or is again what it was before an earlier round.
        """
        found: dict[Path, bytes] = {}
        wanted = None if of is None else {edit.path for fix in of for edit in fix.edits}
        for path, cells in edits.by_file(fixes).items():
            if wanted is not None and path not in wanted:
                continue
            document = self.project.document(path)
            if document is None:
                raise _Broken(f"{path.name} is of no kind that gpulint reads")
            data = self.project.data(path)
            try:
                found[path] = edited(document, data, cells)
            except Refused as error:
                raise _Broken(str(error)) from None
            if found[path] in self.seen.get(path, ()):
                raise _Broken("it undoes another fix")
        for fix in fixes if of is None else of:
            for new in fix.files:
                found[new.path] = new.text.encode("utf-8", "surrogatepass")
        return found

    def not_silenced(self, step: _Step, before: Report, after: Report) -> list[Result]:
        """Return what was repaired and is still reported at its place, perhaps with another number."""
        keys = {id(result): unnumbered(step.moved(key_of(result.finding, self.project))) for result in before.results}
        done = set(map(id, step.done))
        rest = {key for mark, key in keys.items() if mark not in done}
        again = {unnumbered(key_of(result.finding, step.project)) for result in after.results} - rest
        return [result for result in step.done if keys[id(result)] in again]

    def new_files(self, step: _Step) -> list[Path]:
        return [path for path in step.project.files if path not in self.existing]

    @cached_property
    def existing(self) -> frozenset[Path]:
        return frozenset(self.original.files)

    def accept(self, step: _Step) -> None:
        """Go on from what a step made."""
        for result in step.done:
            fix = result.fix
            assert isinstance(fix, Fix)
            paths = {edit.path for edit in fix.edits}
            for path in paths:
                self.seen.setdefault(path, set()).add(self.project.data(path))
            self.together.append(paths | {new.path for new in fix.files})
        self.banned = {step.moved(key): reason for key, reason in self.banned.items()}
        self.answers = {step.moved(key): answer for key, answer in self.answers.items() if not answer}
        self.project = step.project

    # -- the end -------------------------------------------------------------------------------------------------------

    def ban(self, results: Iterable[Result], reason: str) -> None:
        self.banned |= {self.key(result): reason for result in results}

    def is_of_fix(self, result: Result, applied: Sequence[Outcome]) -> bool:
        """Return whether a finding without a fix is in a line that fixes of its rule wrote: what such a fix leaves."""
        finding = result.finding
        codes = {one.result.finding.rule.code for one in applied if finding.path in one.paths}
        return (
            isinstance(result.fix, Declined)
            and finding.rule.code in codes
            and is_in_line_of_fix(finding, self.project, self.original)
        )

    def left(self, result: Result, number: int, origins: Mapping[Key, tuple[Result, int]]) -> Outcome:
        """Return what became of a finding that the last scan still has, in the places where it was first seen."""
        key, fix = key_of(result.finding, self.project), result.fix
        origin, first = origins[key]
        if type(origin.fix) is type(fix):
            result, number = origin, first
        if key in self.banned:
            return Outcome(result, State.DROPPED, number, self.banned[key])
        if not self.answers.get(key, True):
            return Outcome(result, State.SKIPPED, number, "you chose to skip it")
        if isinstance(fix, Declined):
            told = result is origin and number == 1  # its place is that in the user's file
            reason = as_before(fix.reason, result.finding, self.project, self.original) if told else fix.reason
            return Outcome(result, State.DECLINED, number, reason)
        if fix is None:
            return Outcome(result, State.UNFIXABLE, number, "there is no fixer")
        if fix.safety is Safety.UNSAFE:
            return Outcome(result, State.UNSAFE, number, "the fix is unsafe")
        return Outcome(result, State.ADVICE, number, "the fix is advice")

    def groups(self) -> list[list[Change]]:
        """Changed files, those that fixes tie together in one list."""
        changes: dict[Path, Change] = {}
        for path in set[Path]().union(*self.together):
            before = self.original.data(path) if path in self.existing else None
            changes[path] = Change(path, before, self.project.data(path))
        groups: list[set[Path]] = []
        for paths in self.together:
            apart = [group for group in groups if not group & paths]
            groups = [*apart, paths.union(*(group for group in groups if group & paths))]
        return [[changes[path] for path in sorted(group)] for group in sorted(groups, key=min)]


class _Broken(Exception):
    """Fixes that cannot be done together; the message says why."""


def _text(project: Project, path: Path, cell: int | None) -> str:
    document = project.document(path)
    return "" if document is None else document.cell_source(cell).text
