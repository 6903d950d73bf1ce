"""Whether a loader draws its samples in another order in each epoch, which workers change by the numbers they take."""

from __future__ import annotations

from gpulint.project import Project
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.values.constants import Constants
from gpulint_fixers.loading.loader_lifetimes import serves_one_pass

_ORDERS = ("sampler", "batch_sampler")
OTHER_ORDER = "later epochs are shuffled differently"


def shuffles_again(project: Project, loader: Loader) -> bool:
    """Return whether a loader may shuffle its samples for more than one pass: not with ``shuffle=False``, or without
    that, unless it has a sampler."""
    shuffle = loader_argument(project, loader, "shuffle")
    known = [project.fact(Constants).of(ref.module, ref.node) for ref in shuffle.refs]
    given = any(keyword.arg is None for keyword in loader.node.keywords) or any(
        not loader_argument(project, loader, name).is_absent for name in _ORDERS
    )
    in_order = shuffle.is_absent or (bool(known) and all(one.every(lambda value: not value) for one in known))
    return (given or not in_order) and not serves_one_pass(project, loader)
