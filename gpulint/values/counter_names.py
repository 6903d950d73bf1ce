"""What names of counters and of limits say they count."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.workspace.module_index import last_name

_EPOCH = regex.compile(r"epoch|(^|_)ep(_|$|\d)", re.IGNORECASE)
_WITHIN_EPOCH = regex.compile(
    r"(^|_)(it|iters?|iterations?|steps?|batch(es)?|samples|len|length|size)_((per|in|of)_)?(an_|the_|1_)?epoch(_|$)"
    r"|_(per|in)_(an_|the_|1_)?epoch(_|$)"
    r"|(^|_)epoch_(it|iters?|iterations?|steps?|batch(es)?|samples|len|length|size)(_|$)",
    re.IGNORECASE,
)

_PLACE = regex.compile(r"(^|_)(opt|optim|optimizer)_(i|idx|index|id)$")
"""Names of which of several optimizers it is (``training_step(self, batch, batch_idx, optimizer_idx)``)."""
_COUNTER = regex.compile(r"(^|_)(i|idx|step|steps|iter|iteration|it|batch|batch_idx|epoch|n|count|global_step)(_|$)")


def counts_epochs(name: str) -> bool:
    """Return whether a variable of this name holds an epoch or a number of epochs."""
    return bool(_EPOCH.search(name)) and not counts_steps_of_epoch(name)


def counts_steps_of_epoch(name: str) -> bool:
    """Return whether the name is of a step within an epoch or of how many there are (``iters_per_epoch``)."""
    return bool(_WITHIN_EPOCH.search(name))


def is_counter(node: ast.expr) -> bool:
    """Return whether a name says that it counts rounds of a loop."""
    return bool(_COUNTER.search(last_name(node))) and not _PLACE.search(last_name(node))
