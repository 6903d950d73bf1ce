"""Programs that prepare data once, for trainings that read what they write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject

_PREPARES = regex.compile(
    r"^(pre_?)?(compute|extract|prepare|process|project|generate|build|convert|create|dump|encode|cache|render)(_|$)"
    r"|preprocess|precompute",
    re.IGNORECASE,
)
"""Names of programs that make files for others."""
_WRITES = regex.compile(
    r"\b(np|numpy|torch)\.(save|savez\w*)\(|\bh5py\b|\b(pickle|joblib|json)\.dump\(|\.(imwrite|to_csv|to_parquet|tofile)\("
)


def prepares_once(subject: Subject) -> bool:
    """Return whether the file's name says that it prepares data, which it writes to files, and it neither trains nor is
    run by a job."""
    return (
        not subject.is_launcher
        and not subject.trains
        and not subject.jobs
        and _PREPARES.search(subject.path.stem) is not None
        and subject.mentions(_WRITES)
    )
