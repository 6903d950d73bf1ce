"""Reasons that authors write down beside a setting: ``num_workers=0  # h5py handles cannot be shared``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.source import Span

_REASON = regex.compile(
    r"do(n't| not) (remove|delete|change)|work-?\s?around|(w/o|without) (this|these)\b|otherwise|must\b|keep this"
    r"|(do(es)?(n't| not)|can'?t|cannot|can not|won'?t) (support|have|connect|survive|share|be|work|handle|use)"
    r"|(can'?t|cannot) communicate"
    r"|(has|have) no\b|not (work|supported|available|safe)"
    r"|(will|would|may|can|might) (hang|deadlock|crash|fail|leak)|avoid\w* .*\b(error|hang|deadlock|crash|leak|copy)"
    r"|(is|are) (needed|required|necessary)|\bbecause\b|\bdue to\b|\bso that\b|\bsince\b",
    re.IGNORECASE | re.ASCII,
)
"""``re.ASCII``: a word may border on Chinese or Japanese without a space."""
TROUBLE = regex.compile(
    r"debug|deadlock|\bhangs?\b|\bcrash|\bwindows\b|\bmac(os)?\b|\bissues?\b|#\d{2,}|\bbugs?\b|pickl|\bfork",
    re.IGNORECASE | re.ASCII,
)
"""Words of what goes wrong with worker processes."""
MAX_ABOVE = 3
"""Most lines of comments above a setting that are read."""


def is_explained(
    document: Document,
    span: Span,
    more: re.Pattern[str] | None = None,
    about: re.Pattern[str] | None = None,
    beside: re.Pattern[str] | None = None,
) -> bool:
    """Return whether a comment beside a setting, or right above it, gives a reason for it.

    ``more`` are further words of reasons. A comment above has to speak ``about`` the setting; it may stand above
    several settings that match ``beside``, and is about them all.
    """
    source = document.cell_source(span.cell)
    lines = [source.line(span.line).partition("#")[2]]
    for number in range(span.line - 1, max(span.line - 1 - MAX_ABOVE, 0), -1):
        text = source.line(number)
        if text.lstrip().startswith("#"):
            if about is None or about.search(text):
                lines.append(text.partition("#")[2])
        elif beside is None or not (beside.match(text) and beside.match(source.line(span.line))):
            break
    return any(_REASON.search(text) or (more is not None and more.search(text)) for text in lines)
