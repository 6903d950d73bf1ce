"""What a loop waits for, found anew in the repaired programs of the spec: fixes leave fewer waits than there were."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait
from gpulint_rules.data.repeated_waits import times_called
from gpulint_rules.data.wait_counts import all_rounds

from gpulint import engine, fixing, plugins
from gpulint.config import Config
from gpulint.outcomes import State
from gpulint.project import Project
from gpulint.selection import select
from gpulint.testing import Case, read_all
from gpulint.writing import write

LOADED = plugins.load()
RULES = select(LOADED.rules, ("GPU305",), (), ())
SPEC = Path(__file__).parent.parent / "rules"
CASES = [case for case in read_all(SPEC) if case.id.startswith("GPU305-bad") and case.fixed]
SHARES = 12
ONCE_PER_CALL = "GPU305-bad-a-test-of-a-sum-that-a-method-leaves-on-the-gpu-silent-of-a-share-of-numbers-that-it-read"
"""A case whose fix reads a sum once per evaluation, which a loop of the training starts, and not per batch of it."""


def waits(root: Path, files: list[Path]) -> int:
    """Return how often the loops of a job wait in a round, with the rounds of inner loops as they are assumed."""
    report = engine.run(Project(root, files, Config(base=root)), files, RULES, fixers=LOADED.fixers)
    found = [one.finding.payload for one in report.results]
    return sum(
        all_rounds(one.module, sync.node, one.context.loop.node) * times_called(one.context)
        for one in found
        if isinstance(one, HostWait)
        for sync in one.syncs
    )


def repaired(case: Case, root: Path) -> tuple[int, int, int]:
    """Return the waits before, the fixes, and the waits after them."""
    for name, text in case.files.items():
        path = root / (name or "program.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    files = sorted(root.rglob("*.py"))
    before = waits(root, files)
    fixed = fixing.fix(Project(root, files, Config(base=root)), files, RULES, LOADED.fixers, unsafe=True)
    for group in fixed.groups:
        write(group, root)
    return before, len(fixed.of(State.APPLIED)), waits(root, files)


@pytest.mark.parametrize("share", range(SHARES))
def test_fixes_leave_fewer_waits(tmp_path: Path, share: int) -> None:
    kept = list[str]()
    for number, case in enumerate(CASES[share::SHARES]):
        before, fixes, after = repaired(case, tmp_path / str(number))
        if fixes and after >= before and case.id != ONCE_PER_CALL:
            kept.append(f"{case.id}: {before} waits, {fixes} fixes, {after} waits")
    assert kept == []
