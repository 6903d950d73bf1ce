"""What a place in a source calls."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psutil")

from gpulint_probe.inside.calls import called

SOURCE = """\
def train(self):
    with self.lock:
        step(1)
    with guard(1) as held, self.lock:
        pass
    total = np.mean(
        values)
    return total
"""


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ([2, 3, 4, 15], "self.lock.__enter__"),  # Python 3.11: the whole statement
        ([2, 2, 9, 18], "self.lock.__enter__"),  # later ones: its expression
        ([2], "self.lock.__enter__"),  # earlier ones: its line
        ([3, 3, 8, 15], "step"),
        ([4, 5, 4, 12], ""),
        ([4, 4, 9, 17], "guard"),
        ([4], "guard"),
        ([6, 7, 12, 15], "np.mean"),
        ([8], ""),
    ],
)
def test_calls_are_read_from_the_source(tmp_path: Path, place: list[int], name: str) -> None:
    source = tmp_path / "job.py"
    source.write_text(SOURCE)
    assert called(str(source), place) == name
