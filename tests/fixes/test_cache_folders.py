"""Where libraries keep what they download: a stage before a job only helps if both have the same folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

PROGRAM = """\
    import os

    import torch
    from transformers import AutoModel

    {}
    model = AutoModel.from_pretrained("facebook/opt-66b").cuda()
    for batch in loader:
        model(batch.cuda()).loss.backward()
        optimizer.step()
    """
JOB = "#!/bin/bash\n#SBATCH --gres=gpu:4\n{}\n{}python train.py\n"
OWN = (
    "export HF_HOME=$TMPDIR/hf",
    "WORK=/scratch-local/$(whoami).$SLURM_JOB_ID\nexport CACHE=${WORK}/cache\nexport HF_HOME=${CACHE}/hub",
    "ID=${SLURM_JOB_ID}\nBASE=/work/$USER/run_$ID\nexport TRANSFORMERS_CACHE=$BASE/models",
    "FAST=$(mktemp -d)\nexport HF_HUB_CACHE=$FAST",
    "export XDG_CACHE_HOME=/work/$(hostname)/cache",
    "export HF_HOME=/work/cache/$SLURM_ARRAY_TASK_ID",
    "export HOME=/tmp/$USER",
    "source ./env.sh",
)
SHARED = (
    "",
    "export HF_HOME=$SCRATCH/hf",
    "BASE=/work/$(whoami)\nexport CACHE=$BASE/cache\nexport HF_HOME=$CACHE/hub\nOUT=/tmp/$SLURM_JOB_ID",
    "export HF_HOME=$SLURM_SUBMIT_DIR/hf",
)
SAYS = "with a separate cache"


@pytest.mark.parametrize("settings", OWN)
def test_a_cache_of_the_job_s_own_is_not_filled_by_another_job(job: MakeJob, settings: str) -> None:
    files = {"train.py": PROGRAM.format(""), "train.sh": JOB.format(settings, ""), "env.sh": f"{OWN[1]}\n"}
    check_declined(job, "GPU331", files, SAYS)


@pytest.mark.parametrize("settings", SHARED)
def test_a_cache_that_all_jobs_see_is_filled_before_the_job(job: MakeJob, settings: str) -> None:
    made = job({"train.py": PROGRAM.format(""), "train.sh": JOB.format(settings, "")})
    (fix,) = [result.fix for result in made.scan("GPU331")]
    (stage,) = [new.text for new in fix.files if new.path.name == "train_prepare.sh"]
    assert "snapshot_download('facebook/opt-66b'" in stage
    assert all(line in stage for line in settings.split("\n") if "CACHE" in line or "HF_" in line)


def test_a_cache_that_only_the_program_knows_is_not_filled_by_another_one(job: MakeJob) -> None:
    files = {"train.sh": JOB.format("", "HF_HOME=/work/hf ")}
    check_declined(job, "GPU331", {"train.py": PROGRAM.format(""), **files}, SAYS)
    files = {"train.sh": JOB.format("", "env HF_HOME=/work/hf ")}
    check_declined(job, "GPU331", {"train.py": PROGRAM.format(""), **files}, SAYS)
    plain = {"train.sh": JOB.format("", "")}
    for line in ('os.environ["HF_HOME"] = "/work/hf"', 'os.environ.setdefault("HF_HUB_CACHE", "/work/hf")'):
        check_declined(job, "GPU331", {"train.py": PROGRAM.format(line), **plain}, SAYS)
    made = job({"train.py": PROGRAM.format('print(os.environ["HF_HOME"] == "/work/hf")'), **plain})
    assert [result.fix.files for result in made.scan("GPU331")]


TESTED = """\
if [ -f "$HOME/env.sh" ]; then
    source "$HOME/env.sh"
else
    echo "no settings"
    exit 1
fi
export HF_HOME=$SCRATCH/hf"""


def test_settings_without_which_a_job_ends_are_for_both_stages(job: MakeJob) -> None:
    made = job({"train.py": PROGRAM.format(""), "train.sh": JOB.format(TESTED, "")})
    (fix,) = [result.fix for result in made.scan("GPU331")]
    (stage,) = [new.text for new in fix.files if new.path.name == "train_prepare.sh"]
    assert TESTED in stage


@pytest.mark.parametrize(
    "options", ["--environment=torch", "--ntasks=1 --environment torch", "--container-image=t.sqsh"]
)
@pytest.mark.parametrize("settings", ["", TESTED])
def test_a_program_in_a_container_has_a_cache_of_its_own(job: MakeJob, options: str, settings: str) -> None:
    files = {"train.sh": JOB.format(settings, f"srun {options} ")}
    check_declined(job, "GPU331", {"train.py": PROGRAM.format(""), **files}, SAYS)


def test_a_stage_beside_a_job_in_another_folder_silences_its_finding(job: MakeJob) -> None:
    files = {"scripts/train.py": PROGRAM.format(""), "scripts/cluster/train.sh": JOB.format("", "")}
    text = files["scripts/cluster/train.sh"].replace("python train.py", "python scripts/train.py")
    made = job({**files, "scripts/cluster/train.sh": text})
    (fix,) = [result.fix for result in made.scan("GPU331")]
    stages = {f"scripts/cluster/{new.path.name}": new.text for new in fix.files}
    assert not job({**files, "scripts/cluster/train.sh": text, **stages}).scan("GPU331")
