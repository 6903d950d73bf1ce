"""Training loops as jobs for fixers, and the check that they are left alone."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

from gpulint.fix import Declined

STEP = """\
    x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def loop(before: str, after: str) -> str:
    """A training loop with lines before it and at the end of each step."""
    return f"import random\n\nimport torch\n\n{before}for x, y in train_loader:\n{STEP}{after}print(total)\n"


def check_declined(job: Callable[..., Any], code: str, files: dict[str, str], reason: str) -> None:
    """Check that there are findings, and that each is without a fix, one for the given reason."""
    results = job({name: dedent(text) for name, text in files.items()}).scan(code)
    assert results
    reasons = [result.fix.reason for result in results if isinstance(result.fix, Declined)]
    assert len(reasons) == len(results), [result.fix for result in results]
    assert any(reason in one for one in reasons), reasons
