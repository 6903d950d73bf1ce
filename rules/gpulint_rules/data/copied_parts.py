"""What the names of the parts of a batch say of their sizes."""

from __future__ import annotations

import re

from gpulint import regex

NUMBER = regex.compile(
    r"(^|[_.'\"\[])(ys?|labels?|lbls?|targets?|idx|ind(ex|ices)|ids?|len(gth)?s?|classes|speakers?|rewards?|dones?|actions?|times?|t"
    r"|weights?|scores?)([_.'\"\]\d]|$)",
    re.IGNORECASE,
)
"""Names of what is one number for each sample."""
NUMBER_BYTES = 8
