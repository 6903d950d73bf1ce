"""What it detects
A Slurm script that requests GPUs without ``--time``.

Why it costs GPU time
The scheduler fills gaps with short jobs only if it knows how long they run. On ACME's cluster a job without a limit
counts as seven days long, and one that hangs holds its GPUs for as long.

When to ignore this rule
The script is always submitted with ``sbatch --time=...``.

Fix safety
Unsafe: a job that runs longer than the limit is ended. The fix writes four hours; set what your job needs.

References
https://slurm.schedmd.com/sbatch.html#OPT_time
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpulint import api
from gpulint.finding import Finding, Severity
from gpulint.fix import Edit, Fix, Fixer, Safety
from gpulint.rule import Dimension, Evidence, Kind, OtherCategory, Rule
from gpulint.source import Span

LIMIT = "04:00:00"
TIME = re.compile(r"(^|\s)(--time\b|-t)")


def check(document: api.Document, project: api.Project) -> Iterator[Finding]:
    for task in document.tasks:
        gpus = task.resources.gpus
        if task.system != "slurm" or gpus is None or not gpus.value:
            continue
        directives = [line for script in document.scripts for line in script.directives if line.leading]
        if any(TIME.search(line.text) for line in directives):
            continue
        yield RULE.finding(
            document.path,
            gpus.span,
            f"`{gpus.text}` without a time limit",
            help="say how long the job runs with `#SBATCH --time=`",
        )


def fix(finding: Finding, project: api.Project) -> Fix:
    """Put a limit above the line that requests the GPUs."""
    line = finding.span.line
    edit = Edit(finding.path, Span(line, 1, line, 1), f"#SBATCH --time={LIMIT}\n")
    return Fix(f"end the job after {LIMIT}", Safety.UNSAFE, (edit,))


RULE = Rule(
    code="ACME101",
    name="no-time-limit",
    category=OtherCategory("Scheduling"),
    dimension=Dimension.JOB,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.SHELL}),
    summary="GPU job without a time limit",
    why="The scheduler cannot fill gaps with it, and if it hangs it keeps its GPUs for seven days.",
    evidence=(Evidence("longest run of the partition: 7 days", "ACME's cluster handbook"),),
    check=check,
    tokens=(("#SBATCH",), ("gpu", "gres")),
    fix=Safety.UNSAFE,
    bad="#SBATCH --gres=gpu:1\nsrun python train.py\n",
    good="#SBATCH --gres=gpu:1\n#SBATCH --time=04:00:00\nsrun python train.py\n",
    since="1.0.0",
    docs_url="https://handbook.acme.example/gpulint",
)

FIXER = Fixer("ACME101", fix)
