"""Calls by which a module tries its own functions, with values that the programs which import it do not pass."""

from __future__ import annotations

from collections.abc import Sequence

from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import ModuleIndex, NodeRef, source_text


def without_trials(module: ModuleIndex, sites: Sequence[NodeRef]) -> Sequence[NodeRef]:
    """Return the calls of a function of ``module`` without those below ``if __name__ == "__main__":`` of the module
    itself, unless there are no others."""
    return [site for site in sites if not is_trial(module, site)] or sites


def is_trial(module: ModuleIndex, site: NodeRef) -> bool:
    """Return whether a module calls a function of its own where it is run as a program."""
    return (
        site.module is module
        and module.function(site.node) is None
        and any(holds and "__main__" in source_text(module, test) for test, holds in conditions(module, site.node))
    )
