"""Workers that would draw the same random numbers, as releases of PyTorch before 1.9 seed no NumPy in them."""

from __future__ import annotations

from gpulint.fix import Declined
from gpulint.programs.stated_releases import SEEDED_NUMPY, may_predate, predates
from gpulint.project import Project
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.workload.numpy_draws import numpy_draw


def repeats_draws(project: Project, loader: Loader) -> str | Declined:
    """Return what a fix has to say of random numbers, or why workers would repeat them; empty where they do not."""
    if not loader_argument(project, loader, "worker_init_fn").is_absent:
        return ""
    if not may_predate(project, loader.module, SEEDED_NUMPY) or not (name := numpy_draw(project, loader)):
        return ""
    if reason := predates(project, loader.module, SEEDED_NUMPY):
        return Declined(
            f"{reason}, and before 1.9 all workers draw the same numbers from `{name}`: pass a `worker_init_fn` that "
            "seeds NumPy first"
        )
    return f"; before PyTorch 1.9 all of them draw the same numbers from `{name}` unless a `worker_init_fn` seeds NumPy"
