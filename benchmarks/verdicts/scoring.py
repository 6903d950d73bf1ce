"""Findings against labels: precision and recall for each kind of problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from labelled import TOLERANCE, Finding, Label, LabelSet


@dataclass
class Counts:
    """Counts for one slug."""

    issues: int = 0
    traps: int = 0
    found: int = 0
    false: int = 0
    at_traps: int = 0
    """False positives at a label that warns of them."""

    @property
    def precision(self) -> float | None:
        """Share of the findings that are right; None without findings."""
        return self.found / (self.found + self.false) if self.found + self.false else None

    @property
    def recall(self) -> float | None:
        """Share of the issues that were found; None without issues."""
        return self.found / self.issues if self.issues else None

    def add(self, other: Counts) -> None:
        """Add the counts of another slug or set."""
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)


@dataclass
class Score:
    """What a scan of one set is worth."""

    by_slug: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))
    misses: list[Label] = field(default_factory=list)
    false: list[tuple[Finding, Label | None]] = field(default_factory=list)
    """Each with the trap that it hit."""
    uncounted: int = 0
    """Findings at unsure labels, or at a second place of a labelled issue."""
    repeated: int = 0
    """False positives that stand on a place of an issue that another finding was matched with."""

    @property
    def total(self) -> Counts:
        """Counts over all slugs."""
        total = Counts()
        for counts in self.by_slug.values():
            total.add(counts)
        return total


def score(labels: LabelSet, reported: Iterable[Finding]) -> Score:
    """Match findings with issues one to one, and count the others in files that were read whole."""
    found = _distinct(reported)
    sure = [label for label in labels.labels if not label.unsure]
    issues = [label for label in sure if label.verdict == "issue"]
    traps = [label for label in sure if label.verdict == "trap"]
    no_fault = [label for label in labels.labels if label.unsure or (label.elsewhere and label.verdict == "issue")]
    matched = _match(issues, found)

    result = Score()
    for number, label in enumerate(issues):
        counts = result.by_slug[label.slug]
        counts.issues += 1
        if number in matched:
            counts.found += 1
        else:
            result.misses.append(label)
    for label in traps:
        result.by_slug[label.slug].traps += 1
    taken = set(matched.values())
    for number, finding in enumerate(found):
        if number in taken or (finding.place.repository, finding.place.path) not in labels.files:
            continue
        if any(closeness(finding, label) for label in no_fault):
            result.uncounted += 1
            continue
        trap = next((label for label in traps if closeness(finding, label)), None)
        slug = trap.slug if trap and trap.slug in finding.slugs else finding.slugs[0]
        result.by_slug[slug].false += 1
        result.by_slug[slug].at_traps += trap is not None
        result.false.append((finding, trap))
        result.repeated += any(finding.place in label.places and closeness(finding, label) for label in issues)
    return result


def closeness(finding: Finding, label: Label) -> tuple[int, ...] | None:
    """Sort key of a possible match, the best first; None if they do not fit."""
    gaps = [gap for place in label.places if (gap := finding.place.gap(place)) is not None]
    if not gaps or min(gaps) > TOLERANCE:
        return None
    if label.slug not in finding.slugs and label.other_slugs.isdisjoint(finding.slugs):
        return None
    to_own = finding.place.gap(label.place)
    return (label.slug not in finding.slugs, min(gaps), to_own is None, to_own or 0)


def _distinct(reported: Iterable[Finding]) -> list[Finding]:
    """Findings of labelled kinds; several of the same kinds at one line are one."""
    return list({(finding.place, frozenset(finding.slugs)): finding for finding in reported if finding.slugs}.values())


def _match(issues: Sequence[Label], found: Sequence[Finding]) -> dict[int, int]:
    """As many pairs as possible, each issue and finding once, near ones preferred: finding by issue."""
    pairs = sorted(
        (key, issue, finding)
        for issue, label in enumerate(issues)
        for finding, candidate in enumerate(found)
        if (key := closeness(candidate, label)) is not None
    )
    choices: dict[int, list[int]] = defaultdict(list)
    by_issue: dict[int, int] = {}
    by_finding: dict[int, int] = {}
    for _, issue, finding in pairs:
        choices[issue].append(finding)
        if issue not in by_issue and finding not in by_finding:
            by_issue[issue], by_finding[finding] = finding, issue

    def place(issue: int, tried: set[int]) -> bool:
        """Find a finding for an issue, moving the issues that hold one if they have another choice."""
        for finding in choices[issue]:
            if finding not in tried:
                tried.add(finding)
                if finding not in by_finding or place(by_finding[finding], tried):
                    by_issue[issue], by_finding[finding] = finding, issue
                    return True
        return False

    for issue in range(len(issues)):
        if issue not in by_issue:
            place(issue, set())
    return by_issue
