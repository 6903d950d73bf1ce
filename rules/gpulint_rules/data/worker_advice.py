"""What to do about a loader without workers, and what workers need first."""

from __future__ import annotations

from gpulint.programs.process_cores import cores_per_process
from gpulint.project import Project
from gpulint.training.loader_calls import Loader
from gpulint.workload.item_work import ItemWorks
from gpulint.workload.opened_early import opened_early
from gpulint.workload.refreshed_data import changes_within_pass
from gpulint.workload.restarted_loaders import is_started_anew
from gpulint.workload.sent_parts import spawned_part
from gpulint.workload.worker_supply import shares_client, shares_handle

_OPENS = "open the data set's file in each worker (on the first `__getitem__`), then "
_CONNECTS = "make the data set's client in each worker (on the first `__getitem__`), then "
_OWN_CACHES = " (each worker fills a cache of its own, which lasts with `persistent_workers=True`)"
_NEXT_PASS = " (workers see what the loop sets on the data set from the next pass on, without `persistent_workers`)"


def advice(project: Project, loader: Loader) -> str:
    """Return what to do, with what workers of the loader need first."""
    of = f" of `{loader.variable}`" if loader.variable else ""
    if is_started_anew(project, loader):
        return f"draw the batches{of} from one iterator that starts again when it ends, then set `num_workers=`"
    if part := spawned_part(project, loader.call):
        return f"define what `{part}` holds in a module (processes are spawned here), then set `num_workers=`"
    first = _OPENS if shares_handle(project, loader) else _CONNECTS if shares_client(project, loader) else ""
    if not first and (name := opened_early(project, loader)):
        first = f"let each worker open `self.{name}` itself (the training process opens it first), then "
    if cores_per_process(project, loader.module.path) == 1:
        first += "request more cores for each GPU (the job has one), then "
    said = f"{first}set `num_workers=`{of} to the job's cores per GPU"
    if project.fact(ItemWorks).of(loader).keeps:
        return said + _OWN_CACHES
    return said + (_NEXT_PASS if changes_within_pass(project, loader) else "")
