"""Workers that would draw other random numbers than one process: the same ones in all of them, as releases of PyTorch
before 1.9 seed no NumPy in them, and those before 0.4 nothing but PyTorch, or others in each run."""

from __future__ import annotations

from gpulint.fix import Declined
from gpulint.programs.stated_releases import SEEDED_NUMPY, may_predate, predates
from gpulint.project import Project
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.values.constants import Constants
from gpulint.workload.global_draws import NUMPY, drawing_set, global_draw, only_draw_seeded
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.loading.random_order import may_draw

_OF_PYTHON = "; before PyTorch 0.4, for which the program is written, all workers draw the same numbers from `random`"


def repeats_draws(project: Project, loader: Loader) -> str | Declined:
    """Return what a fix has to say of random numbers, or why workers would repeat them or draw others in each run;
    empty where they do not."""
    if not loader_argument(project, loader, "worker_init_fn").is_absent:
        return ""
    name = global_draw(project, loader, NUMPY)
    some = drawing_set(project, loader, NUMPY) if name else ""
    if name and not some and (reason := predates(project, loader.module, SEEDED_NUMPY)):
        return Declined(
            f"{reason}, and before 1.9 all workers draw the same numbers from `{name}`: pass a `worker_init_fn` that "
            "seeds NumPy first"
        )
    if reason := draws_differ(project, loader):
        return Declined(reason)
    if not name or not may_predate(project, loader.module, SEEDED_NUMPY):
        return _OF_PYTHON if repeats_draws_of_python(project, loader) else ""
    where = f" for samples of `{some}`" if some else ""
    return (
        f"; before PyTorch 1.9 all of them draw the same numbers from `{name}`{where} unless a `worker_init_fn` seeds "
        "NumPy"
    )


def repeats_draws_of_python(project: Project, loader: Loader) -> bool:
    """Return whether all workers of a loader may draw the same numbers from Python's ``random``, as its module is for
    PyTorch before 0.4."""
    is_seeded = not loader_argument(project, loader, "worker_init_fn").is_absent
    return not is_seeded and predates_device_argument(loader.module) and may_draw(project, loader)


def draws_differ(project: Project, loader: Loader) -> str:
    """Return why samples that are the same in each run would differ with workers; empty where they would not, or are
    shuffled differently in each run already."""
    given = (loader_argument(project, loader, name) for name in ("generator", "worker_init_fn"))
    if not all(argument.is_absent for argument in given):
        return ""
    shuffle = loader_argument(project, loader, "shuffle")
    known = [project.fact(Constants).of(ref.module, ref.node) for ref in shuffle.refs]
    if known and all(value.every(lambda one: one is True) for value in known):
        return ""
    if not (name := only_draw_seeded(project, loader)):
        return ""
    return (
        f"samples draw from `{name}`, which the program seeds, but it does not seed PyTorch, from which workers take "
        "their seeds: each run would draw other numbers (call `torch.manual_seed` first)"
    )
