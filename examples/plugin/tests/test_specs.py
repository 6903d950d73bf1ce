"""Every rule does what its spec says."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpulint import plugins
from gpulint.testing import Case, check, read_all


@pytest.mark.parametrize("case", read_all(Path(__file__).parent), ids=lambda case: case.id)
def test_spec(case: Case, tmp_path: Path) -> None:
    check(case, plugins.load(), tmp_path)
