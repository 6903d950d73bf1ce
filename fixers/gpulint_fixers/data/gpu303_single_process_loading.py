"""Give the loader workers that live as long as the loader."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu303_single_process_loading import SingleProcess

from gpulint.facts.loaders import Loader
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.calls import add_keyword
from gpulint_fixers.imports import add_import

MOST = 16
"""More workers than this seldom help one GPU, whatever the node has."""


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Workers by the cores that the launcher asks for, else by those of the machine."""
    payload = finding.payload
    assert isinstance(payload, SingleProcess)
    loader = payload.loader
    module = loader.scopes.module
    cores = _cores(project, loader)
    workers = str(cores) if cores is not None else "min(8, os.cpu_count() or 1)"
    imports = add_import(loader.scopes, "os") if cores is None else ()
    persistent = (
        ""
        if any(keyword.arg == "persistent_workers" for keyword in loader.node.keywords)
        else "persistent_workers=True"
    )
    edits: tuple[Edit, ...]
    if payload.workers is None:
        edits = (add_keyword(module, loader.node, ", ".join(filter(None, [f"num_workers={workers}", persistent]))),)
    else:
        passed = payload.workers.node
        own = [*loader.node.args, *(keyword.value for keyword in loader.node.keywords)]
        if not isinstance(passed, ast.Constant) or not any(passed is argument for argument in own):
            return Declined("num_workers is set elsewhere: raise it there")
        edits = (Edit(module.path, module.span(passed), workers),)
        if persistent:
            edits += (add_keyword(module, loader.node, persistent),)
    why = f"the launcher gives each process {cores} cores" if cores is not None else "measure how many help"
    return Fix(
        f"load with worker processes, which get their own random state ({why})", Safety.UNSAFE, (*imports, *edits)
    )


def _cores(project: Project, loader: Loader) -> int | None:
    """Cores per training process in the leanest job that starts the program; None if no launcher says."""
    found: list[int] = []
    for launch in project.launched(loader.scopes.path):
        job = launch.job
        if job.cpus is None or job.cpus.value is None:
            return None
        processes = job.tasks_per_node or job.gpus
        share = job.cpus.value // max(1, processes.value or 1) if processes is not None else job.cpus.value
        found.append(max(1, min(share, MOST)))
    return min(found, default=None)


FIXER = Fixer("GPU303", fix)
