"""Figures in the documentation: each benchmark writes its own between two marks of a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def put(page: Path, name: str, lines: Sequence[str]) -> None:
    """Write Markdown lines into a page between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->``.

    Raises:
        SystemExit: the page has no such marks.
    """
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->\n"
    before, _, rest = page.read_text().partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise SystemExit(f"{page} has no lines {begin.strip()} and {end.strip()}")
    page.write_text(before + begin + "\n".join(lines).rstrip("\n") + "\n" + end + after)
