"""How a file is written down changes no finding: line endings, a byte order mark, characters outside of ASCII.

Every case of every spec runs again in each form, with its fixes, which must parse and silence their rule there as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulint import plugins
from gpulint.testing import Case, check, read_all

CASES = [case for case in read_all(Path(__file__).parents[1] / "rules") if case.kind == "Bad"]
EMOJI = "# 🙂 データ: ünïcode above the code\n"


@pytest.fixture(scope="module")
def loaded() -> plugins.Plugins:
    return plugins.load()


def carriage_returns(case: Case) -> Case:
    """CRLF in all but shell scripts, in which a shell would not run them."""
    files = {
        name: text.replace("\n", "\r\n") if name.endswith((".py", ".yaml", ".yml")) else text
        for name, text in case.files.items()
    }
    return dataclasses.replace(case, files=files, fixed={})


def byte_order_mark(case: Case) -> Case:
    """A BOM in front of the Python files, as some editors write it."""
    files = {name: f"\ufeff{text}" if name.endswith(".py") else text for name, text in case.files.items()}
    return dataclasses.replace(case, files=files, fixed={})


def emoji_above(case: Case) -> Case:
    """A comment that takes more bytes than characters, one line above the Python code."""
    files = {name: EMOJI + text if name.endswith(".py") else text for name, text in case.files.items()}
    expected = [dataclasses.replace(one, line=one.line + one.file.endswith(".py"), message="") for one in case.expected]
    return dataclasses.replace(case, files=files, fixed={}, expected=expected)


@pytest.mark.parametrize("form", [carriage_returns, byte_order_mark, emoji_above])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_findings_do_not_depend_on_the_form(
    case: Case, form: Callable[[Case], Case], loaded: plugins.Plugins, tmp_path: Path
) -> None:
    check(form(case), loaded, tmp_path)
