"""The pieces of code in "Writing a plugin" are those of the example."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r'^(`{3,})\w+ title="([^"]+)"\n(.*?)^\1$', re.MULTILINE | re.DOTALL)


def test_pieces_of_the_example_are_up_to_date() -> None:
    pieces = BLOCK.findall((ROOT / "docs" / "plugins.md").read_text(encoding="utf-8"))
    assert len(pieces) >= 5
    for _, name, text in pieces:
        assert text in (ROOT / "examples" / "plugin" / name).read_text(encoding="utf-8"), name
