"""For authors of rules: executable Markdown specs.

A test module needs no more than::

    import pytest
    from gpulint import plugins
    from gpulint.testing import Case, check, read_all

    @pytest.mark.parametrize("case", read_all(Path(__file__).parent), ids=lambda case: case.id)
    def test_spec(case: Case, tmp_path: Path) -> None:
        check(case, plugins.load(), tmp_path)
"""

from gpulint.testing.check import check
from gpulint.testing.spec import Case, Expected, SpecError, read, read_all

__all__ = ["Case", "Expected", "SpecError", "check", "read", "read_all"]
