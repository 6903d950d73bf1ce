"""What is known of the waits of one loop, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.placement.sync_points import SyncPoint
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.exclusive_branches import exclude

if TYPE_CHECKING:
    from gpulint_rules.data.wait_groups import Group


def needed_basis(group: Group) -> str:
    """Return in words which of the waits of a loop the host needs."""
    count = len(group.staying)
    if group.needs_rounds:
        return "the host needs the values in an inner loop"
    return f"the host needs {count} values" if count > 1 else "the host needs the value"


def basis_of(module: ModuleIndex, sync: SyncPoint, group: Group) -> str:
    """Return in words what is known of the waits of a loop; empty if there is nothing to tell."""
    least = group.partial or (group.inner > 0 and not group.times)
    most = "up to " if group.uncertain else "at least " if least else ""
    parts = [f"{most}{group.reads} waits"] if group.reads > 1 else []
    if group.inner:
        which = f", {group.inner} of them" if group.inner < group.reads else ""
        parts = [f"{parts[0]}{which} in inner loops" if parts else "a wait in an inner loop"]
        if group.times:
            parts.append(f"{group.times} per step")
    elif group.times > group.reads:
        places = f"{group.reads} places" if group.reads > 1 else "one place"
        parts = [f"{most}{group.times} waits in {places}"]
    elif group.following:
        parts.append(f"{group.following} of them brief, right after another one")
    elif group.reads == 1 and group.amount > 1:
        parts.append("a wait, work on the host and a copy back")
    beside = group.first is not None and exclude(module, sync.node, group.first)
    if group.anyway and group.anyway != module.syntax.span(sync.node).words and not beside:
        what = f" ({group.what})" if group.what else ""
        parts.append(f"{group.anyway} waits {'as well' if group.as_well else 'in any case'}{what}")
    return ", ".join(parts)
