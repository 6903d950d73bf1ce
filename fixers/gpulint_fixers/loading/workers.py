"""How many worker processes a loader should have."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.programs.process_cores import cores_per_process
from gpulint.project import Project
from gpulint.query import query

MOST = 16
"""More workers than this seldom help one GPU, whatever the node has."""
USUAL = 4
"""Workers of one GPU where nothing says how many cores the job has; PyTorch warns if there are fewer."""

ON_COLAB = 2
"""CPU cores of the free GPU machines of Google Colab; PyTorch warns of more workers than cores."""
MAX_NOTEBOOKS = 50
"""Most notebooks of a tree that are read for the machine that they name."""
_COLAB = regex.compile(r"^[^#\n]{0,200}(?:\bgoogle\.colab\b(?!\.kernel)|[\"' =]/content/)", re.MULTILINE)
_IN_CELLS = regex.compile(rb"\bgoogle\.colab\b(?!\.kernel)|[\"' =]/content/")
"""The same in a notebook, whose commands (``!python /content/train.py``) are no Python."""


def worker_count(project: Project, program: Path) -> tuple[str, str]:
    """Return (number of workers, why that many) for a program, or for those that import a module which no job
    starts; 0 where each process has one core, and 1 where two share three."""
    given, fewest = cores_per_process(project, program), _fewest_elsewhere(project)
    if given is not None:
        cores = min(given, MOST)
        if cores <= fewest:
            why = f"the launcher gives each process {round(cores, 1):g} cores"
            return (str(int(cores)), why) if cores > 1 else ("0", "one core per process")
        return str(fewest), f"a launcher that may start it as well requests {fewest} cores"
    if runs_on_colab(project, program):
        return str(min(ON_COLAB, fewest)), "Google Colab has two cores beside a GPU"
    return str(min(USUAL, fewest)), "measure how many help"


@query
def runs_on_colab(project: Project, program: Path) -> bool:
    """Return whether a program names the folders or the modules of Google Colab, or a notebook of a tree does whose
    jobs are all notebooks."""
    if project.matches(program, _COLAB):
        return True
    jobs = project.fact(JobIndex).jobs()
    notebooks = project.notebooks()
    return all(job.document.path in notebooks for job in jobs if job.gpus is not None) and any(
        project.finds(path, _IN_CELLS) for path in islice(notebooks, MAX_NOTEBOOKS)
    )


@query
def _fewest_elsewhere(project: Project) -> int:
    """The fewest cores, but more than one, of the GPU jobs that start nothing known of the tree: they may start this
    program by a command that its package installs, or by a variable."""
    counts = (
        job.cpus.value
        for job in project.fact(JobIndex).jobs()
        if job.gpus is not None
        and job.cpus is not None
        and not any(start.program or start.module for start in job.launches)
    )
    return min((count for count in counts if count is not None and count > 1), default=MOST)
