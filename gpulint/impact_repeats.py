"""The same code in several files, as in scripts copied from each other, is one finding."""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.copies import IS_COPY, IS_DEMO, original, share_lines
from gpulint.impact import Level
from gpulint.impact_causes import IN_COPIES, SAME_CODE, SAME_LOOP, SAME_SWITCH, with_copies
from gpulint.rule import Kind

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.finding import Finding
    from gpulint.project import Project
    from gpulint.report import Result

AROUND = 2
"""Lines before and after the finding's that have to be the same as well."""
SHORT = 8
"""Characters up to which a line says little and is passed over."""
LEAST = 100
"""Characters of all these lines together from which on they are no chance."""
MAX_COMPARED = 60
"""Most findings of a rule on the same line whose files are compared."""
REPAIRED_ONCE = frozenset({"install", "download"})
"""Costs that one repair ends for all batch scripts with the same command: one environment, one cache."""
_SWITCHES = frozenset({"debug-mode"})
"""Costs of what is on for a whole process, whichever of its modules switches it on."""
_MACHINE = frozenset({"install", "data-copy"})
"""Costs of commands that prepare a machine."""
_MOVES = frozenset({"cuda", "to", "to_device", "prepare", "fit", "Trainer", "DataParallel"})
"""Calls that move a model or a batch to a GPU."""
_PYTHON = regex.compile(r"\bpython3?\b")
_LAUNCHERS = frozenset({Kind.SHELL, Kind.JOBSPEC})
MANY = 4
"""Copies of a job file from which on a script may have written them."""
_ITEM = regex.compile(r"'([\w.-]+/[\w.-]+)'")
"""What a message says is downloaded: one copy in a cache serves all jobs."""
_SPACES = regex.compile(r"\s+")
_COMMENT = regex.compile(r"(^|\s)#(?!SBATCH|PBS|BSUB|\$).*$")


def fold_repeats(results: Sequence[Result], project: Project) -> list[Result]:
    """``results`` in their order; a finding whose code also stands in another file with a finding of the same rule has
    low impact, except in the file where it costs most (of several, the first), which names the others. That is the same
    line with the same lines around it, or in a file that shares many lines with the other one, or the same command in
    batch scripts below one folder of the root, where one environment or one cache serves all of them, or another
    download of the same files."""
    alike: dict[object, list[int]] = {}
    near: dict[tuple[str, str], list[int]] = {}
    commands: dict[tuple[str, str, str], list[int]] = {}
    for number, result in enumerate(results):
        finding = result.finding
        if finding.impact.level > Level.LOW and (document := project.document(finding.path)):
            if block := _block(finding, document):
                alike.setdefault((finding.rule.code, block), []).append(number)
            own = _plain(document.cell_source(finding.span.cell).line(finding.span.line))
            if len(own) > SHORT:
                near.setdefault((finding.rule.code, own), []).append(number)
                if (
                    document.kind is Kind.SHELL
                    and finding.rule.cost is not None
                    and finding.rule.cost.kind in REPAIRED_ONCE
                ):
                    place = (
                        finding.path.relative_to(project.root) if finding.path.is_relative_to(project.root) else None
                    )
                    folder = place.parts[0] if place is not None and len(place.parts) > 1 else ""
                    commands.setdefault((finding.rule.code, _PYTHON.sub("python", own), folder), []).append(number)
    copies = [group for numbers in near.values() for group in _of_near_copies(numbers, results, project)]
    found = list(results)
    original: dict[int, int] = {}
    sizes = Counter(_loop_of(result.finding) for result in results if result.finding.impact.level > Level.LOW)
    switches = _switches(results)
    for numbers in switches:
        _fold(found, numbers, original, project, f"{SAME_SWITCH} as", within=True)
    folded = {number for numbers in switches for number in numbers}
    for numbers in _joined([*alike.values(), *copies, *commands.values(), *_with_copies(near, results, project)]):
        largest = sorted(numbers, key=lambda number: (-sizes[_loop_of(results[number].finding)], number))
        if folded.isdisjoint(numbers):
            _fold(found, largest, original, project)
    _fold_loops(found, original, project)
    _fold_downloads(found, project)
    _fold_commands(found, project)
    return found


def _with_copies(
    near: dict[tuple[str, str], list[int]], results: Sequence[Result], project: Project
) -> list[list[int]]:
    """Return findings that are worth telling, each with those on the same line of copies of its file."""
    groups: dict[int, list[int]] = {}
    for number, result in enumerate(results):
        finding = result.finding
        said = finding.impact.basis.split(", ")
        if (IS_COPY not in said and said[-1] != IS_DEMO) or (document := project.document(finding.path)) is None:
            continue
        own = _plain(document.cell_source(finding.span.cell).line(finding.span.line))
        first, key = original(project, finding.path), (finding.rule.code, own)
        home = _function(finding, project)
        for one in near.get(key, ())[:MAX_COMPARED]:
            leader = results[one].finding
            alike = leader.path == first or (
                first is None and leader.path != finding.path and share_lines(project, leader.path, finding.path)
            )
            if alike and _function(leader, project) == home:
                groups.setdefault(one, [one]).append(number)
    return [*groups.values()]


def _switches(results: Sequence[Result]) -> list[list[int]]:
    """Return the places that switch the same thing on for a process, of which some cost more than a little."""
    groups: dict[object, list[int]] = {}
    for number, result in enumerate(results):
        cost, cause = result.finding.rule.cost, result.finding.cause
        if cost is not None and cost.kind in _SWITCHES and cause is not None:
            groups.setdefault((result.finding.rule.code, cause.path, cause.span), []).append(number)
    levels = {number: result.finding.impact.level for number, result in enumerate(results)}
    return [one for one in groups.values() if len(one) > 1 and any(levels[number] > Level.LOW for number in one)]


def _fold_commands(found: list[Result], project: Project) -> None:
    """Lower commands that follow another one of the same rule line by line, as one ``tar`` for each archive does, and
    other installations of a script: one environment holds them all."""
    last: dict[tuple[str, Path, int | None], tuple[int, int]] = {}
    for number in sorted(range(len(found)), key=lambda number: found[number].finding.span.line):
        finding = found[number].finding
        cost, span = finding.rule.cost, finding.span
        document = project.document(finding.path)
        if cost is None or cost.kind not in _MACHINE or document is None or document.kind is not Kind.SHELL:
            continue
        if finding.impact.level == Level.LOW:
            continue
        key = finding.rule.code, finding.path, span.cell
        head, end = last.get(key, (span.line, -1))
        if end == span.line - 1 or (end != -1 and cost.kind == "install"):
            found[number] = _with_basis(found[number], f"with the command in line {head}", Level.LOW)
        else:
            head = span.line
        last[key] = head, span.end_line


def _fold_downloads(found: list[Result], project: Project) -> None:
    """Lower other downloads of the same files in other files of the tree, and those of launchers that are copies of one
    another, for one model each."""
    items: dict[tuple[str, str], list[int]] = {}
    for number, result in enumerate(found):
        finding = result.finding
        cost, named = finding.rule.cost, _ITEM.search(finding.message)
        if finding.impact.level > Level.LOW and cost is not None and cost.kind == "download" and named is not None:
            items.setdefault((finding.rule.code, named[1]), []).append(number)
    for numbers in items.values():
        _fold(found, numbers, {}, project, "the same download as", within=True)
    launchers: dict[str, list[int]] = {}
    for number in (number for numbers in items.values() for number in numbers):
        finding = found[number].finding
        document = project.document(finding.path)
        if finding.impact.level > Level.LOW and document is not None and document.kind in _LAUNCHERS:
            launchers.setdefault(finding.rule.code, []).append(number)
    for numbers in launchers.values():
        for copies in _of_near_copies(sorted(numbers), found, project):
            _fold(found, copies, {}, project, "in a copy of")


def _fold_loops(found: list[Result], original: dict[int, int], project: Project) -> None:
    """Lower the other findings of a loop of which one was lowered, in a file that shares many lines with that of the
    original: the whole loop is a copy, if not every line of it."""
    loops: dict[object, int] = {}
    for number, leader in original.items():
        if found[number].finding.cause is not None:
            loops.setdefault(_loop_of(found[number].finding), leader)
    for number, result in enumerate(found):
        finding = result.finding
        if number in original or finding.impact.level == Level.LOW or finding.cause is None:
            continue
        leading = loops.get(_loop_of(finding))
        first = found[leading].finding if leading is not None else None
        if leading is not None and first is not None and share_lines(project, first.path, finding.path):
            place = f"{project.place(first.path)}:{first.span.mark}"
            found[number] = _with_basis(result, f"{SAME_LOOP} around {place}", Level.LOW)
            found[leading] = with_copies(found[leading], [finding], SAME_LOOP)


def _loop_of(finding: Finding) -> object:
    """The loop of a finding, or the finding itself: what it is of."""
    cause = finding.cause
    home = (cause.path, cause.span) if cause is not None else (finding.path, finding.span)
    return finding.rule.code, finding.path, *home


def _joined(groups: Iterable[Sequence[int]]) -> list[list[int]]:
    """Groups of several members; those that share one are one."""
    group_of: dict[int, list[int]] = {}
    for group in groups:
        if len(group) < 2:
            continue
        joined = sorted({*group, *(member for one in group for member in group_of.get(one, ()))})
        group_of.update(dict.fromkeys(joined, joined))
    return list({id(group): group for group in group_of.values()}.values())


def _of_near_copies(numbers: Sequence[int], results: Sequence[Result], project: Project) -> list[list[int]]:
    """Results of one rule on the same line, those in files that share many lines with the first one's together."""
    groups: list[list[int]] = []
    for number in numbers[:MAX_COMPARED]:
        path = results[number].finding.path
        firsts = (results[group[0]].finding.path for group in groups)
        at = next((at for at, first in enumerate(firsts) if path == first or share_lines(project, first, path)), None)
        if at is None:
            groups.append([number])
        else:
            groups[at].append(number)
    return [part for group in groups for part in _by_function(group, results, project)]


def _by_function(numbers: Sequence[int], results: Sequence[Result], project: Project) -> Iterable[list[int]]:
    """Return results on the same line of several files; where one of these has it more than once, those in functions
    of one name together."""
    files = [results[number].finding.path for number in numbers]
    if len(set(files)) in (1, len(files)):
        return [[*numbers]]
    groups: dict[str, list[int]] = {}
    for number in numbers:
        groups.setdefault(_function(results[number].finding, project), []).append(number)
    return groups.values()


def _function(finding: Finding, project: Project) -> str:
    """Return the name of the function around a finding; empty if it is in none."""
    module = project.module_at(finding.path) if finding.span.cell is None else None
    line = finding.span.line
    around = [
        one
        for one in (module.syntax.of(ast.FunctionDef) if module is not None else ())
        if one.lineno <= line <= (one.end_lineno or one.lineno)
    ]
    return max(around, key=lambda one: one.lineno).name if around else ""


def _fold(
    found: list[Result],
    numbers: Sequence[int],
    original: dict[int, int],
    project: Project,
    said: str = f"{SAME_CODE} as",
    within: bool = False,
) -> None:
    """Lower all of ``numbers`` but those in the file of the one that costs most (``within``: those too; of several, in
    a job with the most GPUs, else the first), and note whose copies they are."""
    leader = min(numbers, key=lambda number: _rank(found[number].finding, project))
    path = found[leader].finding.path
    others = sorted(number for number in numbers if number != leader and (within or found[number].finding.path != path))
    if not others:
        return
    place = f"{project.place(path)}:{found[leader].finding.span.mark}"
    for number in others:
        original[number] = leader
        found[number] = _with_basis(found[number], f"{said} {place}", Level.LOW)
    elsewhere = [found[number].finding for number in others if found[number].finding.path != path]
    paths = list(dict.fromkeys(project.place(finding.path) for finding in elsewhere))
    if paths:
        found[leader] = (
            with_copies(found[leader], elsewhere, said.removesuffix(" as"))
            if said.startswith((SAME_CODE, SAME_SWITCH))
            else found[leader]
        )
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        found[leader] = _with_basis(found[leader], f"{IN_COPIES}{paths[0]}{more}", None)
    if len(paths) >= MANY and (writer := _writer(found[leader].finding, project)):
        found[leader] = _with_basis(found[leader], f"written by {writer}", None)


def _writer(finding: Finding, project: Project) -> str:
    """``run_train.sh:92``, the line of a script that writes the job file of a finding; empty if none is known."""
    from gpulint.launch.job_writers import writer_of, writers_of  # the analysis, which a cached report does not need

    document = project.document(finding.path)
    if document is None:
        return ""
    own = _plain(document.cell_source(finding.span.cell).line(finding.span.line))
    for path in writers_of(project, finding.path):
        lines = [_plain(line) for line in project.data(path).decode("utf-8", "replace").splitlines()]
        if own in lines:
            return f"{project.place(path)}:{lines.index(own) + 1}"
    only = writer_of(project, finding.path)
    return project.place(only) if only is not None else ""


def _rank(finding: Finding, project: Project) -> tuple[int, int, bool, bool, bool, bool]:
    """Those that cost most first, then those of jobs with several GPUs, of what a launcher starts, of files that lack
    no names, those that move something to a GPU, and those that are not in functions that nothing calls."""
    # The whole analysis, which a cached report does not need.
    from gpulint.assessment.jobs import jobs_running, most_gpus
    from gpulint.assessment.uncalled import is_uncalled
    from gpulint.semantic.failing_names import has_gaps

    most = most_gpus(project, finding.path) or 1
    started = any(jobs_running(project, finding.path))
    module = project.module_at(finding.path)
    gaps = module is not None and has_gaps(project, module)
    moves = module is None or not _MOVES.isdisjoint(module.calls_by_name)
    uncalled = is_uncalled(project, finding.path, finding.span)
    return -finding.impact.level, -max(most, 1), not started, gaps, not moves, uncalled


def _with_basis(result: Result, said: str, level: Level | None) -> Result:
    impact = result.finding.impact
    basis = f"{impact.basis}, {said}" if impact.basis else said
    impact = dataclasses.replace(impact, level=impact.level if level is None else level, basis=basis)
    return dataclasses.replace(result, finding=dataclasses.replace(result.finding, impact=impact))


def _block(finding: Finding, document: Document) -> tuple[str, ...]:
    """The finding's line and those around it without what says nothing; empty if that is too little to compare."""
    source, line = document.cell_source(finding.span.cell), finding.span.line
    own = _plain(source.line(line))
    above = _significant(source.line(number) for number in range(line - 1, 0, -1))
    below = _significant(source.line(number) for number in range(line + 1, len(source.line_starts) + 1))
    block = (*reversed(above), own, *below)
    return block if sum(map(len, block)) >= LEAST else ()


def _significant(lines: Iterable[str]) -> list[str]:
    found: list[str] = []
    for line in lines:
        if len(text := _plain(line)) > SHORT:
            found.append(text)
            if len(found) == AROUND:
                break
    return found


def _plain(line: str) -> str:
    return _SPACES.sub(" ", _COMMENT.sub("", line)).strip().rstrip("; ")
