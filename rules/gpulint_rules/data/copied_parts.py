"""What the names of the parts of a batch say of their sizes."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.workspace.module_index import ModuleIndex

NUMBER = regex.compile(
    r"(^|[_.'\"\[])(ys?|labels?|lbls?|targets?|idx|ind(ex|ices)|ids?|len(gth)?s?|classes|speakers?|rewards?|dones?|actions?|times?|t"
    r"|weights?|scores?)([_.'\"\]\d]|$)",
    re.IGNORECASE,
)
"""Names of what is one number for each sample."""
NUMBER_BYTES = 8
_CERTAIN = regex.compile(
    r"(^|[_.'\"\[])(labels?|lbls?|idx|ind(ex|ices)|ids?|len(gth)?s?|classes|speakers?|rewards?|dones?|actions?)([_.'\"\]\d]|$)",
    re.IGNORECASE,
)
"""Those that are one whatever the program does; a target or ``y`` may be what the model has to draw."""
_DENSE = regex.compile(
    r"(^|[_.'\"\[])(heat_?maps?|offsets?|maps?|images?|imgs?|audios?|wav(e|eform)?s?|spec(trogram)?s?|mels?|depths?|flows?"
    r"|noises?|latents?|bbox(es)?|box(es)?|wh|landmarks?|key_?points?|kps?|masks?|frames?|videos?|feat(ure)?s?|poses?|joints?"
    r"|signals?|pixels?|points?|embed(ding)?s?|density|input|token|position|attention)([_.'\"\]\d]|$)",
    re.IGNORECASE,
)
"""Words of names of what is more than a number for each sample."""
_CLASSES = regex.compile(
    r"[Cc]ross_?[Ee]ntropy|NLLLoss|nll_loss|[Aa]ccuracy|num_?classes|n_classes|\bacc1?\b|[Cc]lassif"
)
"""What a program has whose targets are classes."""
_FINDS = ("== ", ".eq(")
"""What compares a prediction with a class."""
_INDEX = regex.compile(r"\[[^\[\]'\"]*\]")
"""``[batch]`` of ``labels[batch]``, which says nothing of what is in the table."""


def is_number(module: ModuleIndex, name: str) -> bool:
    """Return whether a part of a batch is known to be one number for each sample: a label or an index by its name, or
    a target in a program that classifies."""
    table = _INDEX.sub("", name)
    if not NUMBER.search(table) or _DENSE.search(table) or _has_axes(module, table):
        return False
    if _CERTAIN.search(table):
        return True
    text = module.syntax.source.text
    return _CLASSES.search(text) is not None or any(f"{found}{table}" in text for found in _FINDS)


def _has_axes(module: ModuleIndex, name: str) -> bool:
    """Return whether a module takes parts of a variable along several axes: ``label[:, :, :4]``."""
    return any(
        isinstance(up := module.syntax.parents.get(node), ast.Subscript)
        and up.value is node
        and isinstance(up.slice, ast.Tuple)
        and len(up.slice.elts) > 1
        for node in module.named.get(name, ())
    )
