"""Running a spec's case: what is found is what is marked, and fixes do what they promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpulint import config, fixing
from gpulint.fix import Fix, Safety
from gpulint.impact import SELDOM, Impact
from gpulint.libraries.sources import merged
from gpulint.outcomes import Fixed, State
from gpulint.plugins import Plugins
from gpulint.project import Project
from gpulint.report import Report
from gpulint.selection import select
from gpulint.testing.spec import Case, Expected


def check(case: Case, plugins: Plugins, folder: Path) -> None:
    """Write the case's files into the empty ``folder``, scan them and compare.

    Raises:
        AssertionError: says what was missing or unexpected, and how to update the spec.
    """
    rules = select(plugins.rules, case.select, (), ())
    missing = [code for code in case.select if not any(rule.code == code for rule in rules)]
    assert not missing, f"{_where(case)}: no rule {', '.join(missing)} is registered; {_failures(plugins)}"
    for name, text in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    project, files = _project(case, plugins, folder)
    fixed = fixing.fix(
        project, files, rules, plugins.fixers, unsafe=True
    )  # its report is that of the files as they were
    errors = "\n".join(
        f"{error.where} on {error.path.name}: {error.error}\n{error.trace}" for error in fixed.report.errors
    )
    assert not errors, f"{_where(case)}: internal error\n{errors}"
    _compare(case, fixed.report, folder)
    _check_safety(case, fixed.report)
    _check_fixes(case, fixed, folder)


def _where(case: Case) -> str:
    return f"{case.spec}:{case.line}: '{case.title}'"


def _failures(plugins: Plugins) -> str:
    return "; ".join(f"{failure.name}: {failure.reason}" for failure in plugins.failures) or "all plugins loaded"


def _project(case: Case, plugins: Plugins, folder: Path) -> tuple[Project, list[Path]]:
    settings = folder / "gpulint.toml"
    options = config.load(folder, explicit=settings) if settings.is_file() else config.Config(base=folder)
    options = replace(options, models=merged(options.models, plugins.models))
    files = sorted(folder / name for name in case.files)
    project = Project(folder, files, options)
    project.explicit_files = frozenset(files)  # what a fix breaks must be seen even if no rule can fire there any more
    return project, files


def _has_impact(impact: Impact, expected: str) -> bool:
    return impact.basis.endswith(SELDOM) if expected == "seldom" else expected == str(impact.level)


def _compare(case: Case, report: Report, folder: Path) -> None:
    unexpected = []
    missing = list(case.expected)
    for result in report.results:
        found = result.finding
        cell = -1 if found.span.cell is None else found.span.cell
        place = Expected(found.path.relative_to(folder).as_posix(), cell, found.span.line, found.rule.code)
        match = next((one for one in missing if one.is_met_by(place, found.message)), None)
        if match is None:
            unexpected.append(f"{place} {found.message}")
        else:
            missing.remove(match)
            if case.impact and not _has_impact(found.impact, case.impact):
                unexpected.append(f"{place} has impact {found.impact.level} ({found.impact.basis}), not {case.impact}")
    if not missing and not unexpected:
        return
    lines = [f"{_where(case)} does not report what it says."]
    lines += [f"  missing:    {expected}" for expected in missing]
    lines += [f"  unexpected: {place}" for place in unexpected]
    lines += [f"  while reading: {problem.path.name}:{problem.line}: {problem.message}" for problem in report.problems]
    lines += ["If the rule is right, mark the line with '# error: [CODE]' (or take the mark away); else mend the rule."]
    raise AssertionError("\n".join(lines))


def _check_safety(case: Case, report: Report) -> None:
    """No fix claims more than its rule declares, and one that edits is not called advice."""
    for result in report.results:
        fix, rule = result.fix, result.finding.rule
        if not isinstance(fix, Fix):
            continue
        assert fix.description, f"{_where(case)}: {rule.code}: a fix without a description"
        assert fix.changes == (fix.safety is not Safety.ADVICE), (
            f"{_where(case)}: {rule.code}: a {fix.safety} fix that changes {len(fix.edits)} places"
        )
        promised = {Safety.ADVICE: 0, Safety.UNSAFE: 1, Safety.SAFE: 2}
        assert promised[fix.safety] <= promised[rule.fix], (
            f"{_where(case)}: {rule.code} declares {rule.fix} fixes, but its fixer offers a {fix.safety} one"
        )


def _check_fixes(case: Case, fixed: Fixed, folder: Path) -> None:
    """All fixes, safe or not, give the declared text, which can be read again, is silent, and needs no further fix."""
    for outcome in fixed.of(State.DROPPED):
        found, fix = outcome.result.finding, outcome.result.fix
        assert isinstance(fix, Fix)
        raise AssertionError(
            f"{_where(case)}: the fix of {found.rule.code} at {found.path.name}:{found.span.line} could not be applied:"
            f" {outcome.reason}\n" + "\n".join(f"  {edit.span}: {edit.text!r}" for edit in fix.edits)
        )
    applied = fixed.of(State.APPLIED)
    left = [outcome.result.finding for outcome in fixed.outcomes if outcome.state is not State.APPLIED]
    for name, text in case.fixed.items():
        path = folder / name
        now = fixed.project.data(path).decode()
        assert now == text, (
            f"{_where(case)}: the fixed {name} is not what the spec says"
            f" ({len(applied)} fixes applied).\n--- got:\n{now}--- spec:\n{text}"
        )
        for found in left:
            assert found.path != path or found.rule.code not in case.select, (
                f"{_where(case)}: the fixed {name} is still reported: {found.span.line}: {found.message}"
            )
