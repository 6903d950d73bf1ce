"""How a file is written down changes no finding: line endings, a byte order mark, characters outside of ASCII.

Every case of every spec runs again with all of them at once, with its fixes, which must parse and silence their rule
there as well.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gpulint import plugins
from gpulint.testing import Case, check, read_all

CASES = [case for case in read_all(Path(__file__).parents[1] / "rules") if case.kind == "Bad"]
EMOJI = "# 🙂 データ: ünïcode above the code\n"


@pytest.fixture(scope="module")
def loaded() -> plugins.Plugins:
    return plugins.load()


def rewritten(case: Case) -> Case:
    """A byte order mark, and a comment that takes more bytes than characters one line above the code, in the Python
    files; CRLF in all but shell scripts, in which a shell would not run them."""
    files = dict(case.files)
    for name, text in files.items():
        if name.endswith(".py"):
            files[name] = f"\ufeff{EMOJI}{text}"
        if name.endswith((".py", ".yaml", ".yml")):
            files[name] = files[name].replace("\n", "\r\n")
    expected = [dataclasses.replace(one, line=one.line + one.file.endswith(".py"), message="") for one in case.expected]
    return dataclasses.replace(case, files=files, fixed={}, expected=expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_findings_do_not_depend_on_the_form(case: Case, loaded: plugins.Plugins, tmp_path: Path) -> None:
    check(rewritten(case), loaded, tmp_path)
