"""Which assignments reach a place in a script, and which of them are sure to have run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpulint.documents.shell.script import Assignment, Block, Command, Script

_ISOLATING = ("subshell", "substitution", "pipe")


def reaching(
    script: Script, assignments: Sequence[Assignment], position: int, blocks: tuple[Block, ...]
) -> Iterator[tuple[Assignment, bool]]:
    """Assignments that may hold at ``position`` within ``blocks``, in the order they run; True where one surely has."""
    found = list[tuple[int, int, Assignment, bool]]()
    home = _function(blocks)
    for assignment in assignments:
        certain = certainty(script, assignment, position, blocks)
        if certain is None:
            continue
        function, moment = _function(assignment.blocks), assignment.start
        if function is not None and function != home:  # it runs where its function is called
            moment = max((call.start for call in script.calls(function) if call.start < position), default=moment)
        found.append((int(function is not None and function == home), moment, assignment, certain))
    found.sort(key=lambda entry: entry[:2])
    for _, _, assignment, certain in found:
        yield assignment, certain


def _function(blocks: tuple[Block, ...]) -> str | None:
    return next((block.text for block in reversed(blocks) if block.kind == "function"), None)


def certainty(script: Script, item: Assignment | Command, position: int, blocks: tuple[Block, ...]) -> bool | None:
    """Whether ``item`` has run when control is at ``position``; None where it has no say, False where it only may have.

    A function's body runs at its calls: it sees what came before them.
    """
    shared = 0
    for mine, theirs in zip(item.blocks, blocks, strict=False):
        if mine.key != theirs.key or mine.kind != theirs.kind:
            break
        if mine.branch != theirs.branch:
            return None  # the other arm of the same if, the other side of the same pipe
        shared += 1
    own = item.blocks[shared:]
    if any(block.kind in _ISOLATING for block in own):
        return None
    function = next((block.text for block in own if block.kind == "function"), None)
    if function is not None:
        local = isinstance(item, Assignment) and item.local
        called = not local and any(call.start < position for call in script.calls(function))
        return False if called else None
    entered = next((block.text for block in blocks[shared:] if block.kind == "function"), None)
    calls = [call.start for call in script.calls(entered)] if entered is not None else []
    first, last = (min(calls), max(calls)) if calls else (position, position)
    if item.start < first:
        return not own
    repeated = any(block.kind == "loop" for block in blocks[:shared])  # an earlier turn of the loop may have run it
    return False if item.start < last or (repeated and item.start > position) else None


def sets_default(assignment: Assignment) -> bool:
    """``[ -z "$A" ] && A=4`` and the same with ``if``: an assignment that only fills a gap."""
    test = assignment.blocks[-1].text if assignment.blocks and assignment.blocks[-1].kind in ("if", "and") else ""
    return re.fullmatch(rf"""\[\[?\s+-z\s+"?\$\{{?{assignment.name}(?:[:+-]\w*)?\}}?"?\s+\]\]?""", test) is not None
