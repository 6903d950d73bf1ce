"""Names for findings that survive edits elsewhere in the file, for SARIF and baselines."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable

from gpulint.finding import Finding


def fingerprints(
    findings: Iterable[Finding], line: Callable[[Finding], str], path: Callable[[Finding], str]
) -> list[str]:
    """A fingerprint for each finding, in order.

    It is made of the rule, the file (``path``), the text of the finding's first line (``line``, blanks folded) and, for
    equal ones, how many came before: inserting or deleting lines elsewhere changes none of them.
    """
    seen: Counter[str] = Counter()
    made = []
    for finding in findings:
        key = "\0".join((finding.rule.code, path(finding), " ".join(line(finding).split())))
        made.append(hashlib.sha256(f"{key}\0{seen[key]}".encode("utf-8", "surrogatepass")).hexdigest()[:32])
        seen[key] += 1
    return made
