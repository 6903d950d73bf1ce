"""Running a spec's case: what is found is what is marked, and fixes do what they promise."""

from __future__ import annotations

from pathlib import Path

from gpulint import config, edits, engine
from gpulint.fix import Fix, Safety
from gpulint.plugins import Plugins
from gpulint.project import Project
from gpulint.rule import Rule
from gpulint.selection import select
from gpulint.testing.spec import Case, Expected

_ROUNDS = 10
"""Enough for fixes that build on each other; more means that two fixers undo each other's work."""


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
    report = _scan(case, plugins, rules, folder)
    _compare(case, report, folder)
    _check_safety(case, report, rules)
    _check_fixes(case, plugins, rules, folder, report)


def _where(case: Case) -> str:
    return f"{case.spec}:{case.line}: '{case.title}'"


def _failures(plugins: Plugins) -> str:
    return "; ".join(f"{failure.name}: {failure.reason}" for failure in plugins.failures) or "all plugins loaded"


def _scan(case: Case, plugins: Plugins, rules: tuple[Rule, ...], folder: Path) -> engine.Report:
    settings = folder / "gpulint.toml"
    options = config.load(folder, explicit=settings) if settings.is_file() else config.Config(base=folder)
    files = sorted(folder / name for name in case.files)
    report = engine.run(Project(folder, files, options), files, rules, fixers=plugins.fixers)
    errors = "\n".join(f"{error.where} on {error.path.name}: {error.error}\n{error.trace}" for error in report.errors)
    assert not errors, f"{_where(case)}: internal error\n{errors}"
    return report


def _compare(case: Case, report: engine.Report, folder: Path) -> None:
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
    if not missing and not unexpected:
        return
    lines = [f"{_where(case)} does not report what it says."]
    lines += [f"  missing:    {expected}" for expected in missing]
    lines += [f"  unexpected: {place}" for place in unexpected]
    lines += [f"  while reading: {problem.path.name}:{problem.line}: {problem.message}" for problem in report.problems]
    lines += ["If the rule is right, mark the line with '# error: [CODE]' (or take the mark away); else mend the rule."]
    raise AssertionError("\n".join(lines))


def _check_safety(case: Case, report: engine.Report, rules: tuple[Rule, ...]) -> None:
    """No fix claims more than its rule declares, and one that edits is not called advice."""
    for result in report.results:
        fix, rule = result.fix, result.finding.rule
        if not isinstance(fix, Fix):
            continue
        assert fix.description, f"{_where(case)}: {rule.code}: a fix without a description"
        assert bool(fix.edits) == (fix.safety is not Safety.ADVICE), (
            f"{_where(case)}: {rule.code}: a {fix.safety} fix with {len(fix.edits)} edits"
        )
        promised = {Safety.ADVICE: 0, Safety.UNSAFE: 1, Safety.SAFE: 2}
        assert promised[fix.safety] <= promised[rule.fix], (
            f"{_where(case)}: {rule.code} declares {rule.fix} fixes, but its fixer offers a {fix.safety} one"
        )


def _fixes(report: engine.Report) -> list[Fix]:
    """Fixes with edits. Those of notebooks are left to the fix engine, which alone knows how to write cells back."""
    fixes = [result.fix for result in report.results if isinstance(result.fix, Fix)]
    return [fix for fix in fixes if fix.edits and all(edit.span.cell is None for edit in fix.edits)]


def _check_fixes(case: Case, plugins: Plugins, rules: tuple[Rule, ...], folder: Path, report: engine.Report) -> None:
    """Fixes give the declared text, which can be read again, is silent, and needs no further fix."""
    broken_before = {(problem.path, problem.message) for problem in report.problems}
    fixed_places = 0
    for _ in range(_ROUNDS):
        fixes = edits.disjoint(_fixes(report))
        if not fixes:
            break
        before = len(report.results)
        for (name, _cell), changes in edits.by_file(fixes).items():
            path = Path(name)
            path.write_bytes(edits.apply(path.read_bytes().decode(), changes).encode())
        fixed_places += len(fixes)
        report = _scan(case, plugins, rules, folder)
        broken = [problem for problem in report.problems if (problem.path, problem.message) not in broken_before]
        if broken:
            text = broken[0].path.read_text()
            raise AssertionError(f"{_where(case)}: the fix breaks {broken[0].path.name}: {broken[0].message}\n{text}")
        assert len(report.results) < before or not _fixes(report), (
            f"{_where(case)}: the fix does not silence its rule:\n{changes[0].path.read_text()}"
        )
    else:
        raise AssertionError(f"{_where(case)}: fixes do not come to an end after {_ROUNDS} rounds")
    for name, text in case.fixed.items():
        now = (folder / name).read_bytes().decode()
        assert now == text, (
            f"{_where(case)}: the fixed {name} is not what the spec says"
            f" ({fixed_places} fixes applied).\n--- got:\n{now}--- spec:\n{text}"
        )
        left = [result.finding for result in report.results if result.finding.path == folder / name]
        assert not [found for found in left if found.rule.code in case.select], (
            f"{_where(case)}: the fixed {name} is still reported: {left[0].span.line}: {left[0].message}"
        )
