"""Lines of a job that only say what its next steps do: they move with these steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]
HEAD = "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --nodes=1\n\n"
FETCH = "aws s3 sync s3://bucket/set /shared/set\n"
TRAIN = '\necho "Training"\npython train.py\n'
PROGRAM = "import torch\n\nfor x in loader:\n    model(x.cuda()).backward()\n    optimizer.step()\n"
BANNER = 'echo "====="\necho "Installing packages"\necho "====="\n'


def stages(job: MakeJob, steps: str) -> tuple[str, str]:
    """The job, and the stage before it."""
    made = job({"train.sh": HEAD + steps + TRAIN, "train.py": PROGRAM})
    made.repair("GPU332", "GPU401")
    return made.text("train.sh"), made.text("train_prepare.sh")


@pytest.mark.parametrize(
    "announced",
    [
        'echo "Downloading data ..."\n' + FETCH,
        "# data\nprintf 'syncing\\n'\n" + FETCH,
        BANNER + "pip install einops\n",
        'echo "Preparing folders"\nmkdir -p /shared/set\n' + FETCH,
    ],
)
def test_a_line_that_announces_a_step_moves_with_it(job: MakeJob, announced: str) -> None:
    program, stage = stages(job, announced)
    assert announced in stage
    note = "# train_prepare.sh has prepared this job; train_submit.sh submits both."
    assert program.replace("\n\n", "\n") == f"{HEAD}{note}{TRAIN}".replace("\n\n", "\n")


@pytest.mark.parametrize(
    "before",
    [
        'echo "Job on $SLURM_JOB_NODELIST downloading"\n',
        'echo "Start"\n',
        'echo "Downloading data ..."\n\necho "Second part"\n',
        'echo "downloading" >> log.txt\n',
    ],
)
def test_other_lines_stay(job: MakeJob, before: str) -> None:
    program, stage = stages(job, before + FETCH)
    assert before in program
    assert "echo" not in stage


def test_a_script_that_is_no_job_says_nothing_of_one(job: MakeJob) -> None:
    made = job(
        {
            "train.sh": "#!/bin/bash\necho 'Downloading'\nwget -q https://host/set.zip\n"
            "torchrun --nproc_per_node=8 train.py\n",
            "train.py": PROGRAM,
            "start.sh": "#!/bin/bash\nsbatch --gres=gpu:8 train.sh\n",
        }
    )
    made.repair("GPU331")
    stage = made.text("train_prepare.sh")
    assert "set -e  # what follows needs what comes before\necho 'Downloading'\nwget" in stage
    assert "job starts" not in stage
