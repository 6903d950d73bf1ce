"""GPU401's repair moves what an image can hold, and nothing that depends on the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]


@pytest.mark.parametrize(
    ("before", "install", "reason"),
    [
        ("", "pip install $EXTRA", "only known in the job"),
        ("", "if true; then pip install wandb; fi", "is conditional"),
        ("", "pip install -e .", "code or files of the job"),
        ("", "pip install ./wheels/a.whl", "code or files of the job"),
        ("", "pip install -r ../requirements.txt", "not found in the tree"),
        ("", "uv sync", "own image"),
        ("", "pip install wandb; nvidia-smi", "shares its line"),
        ("conda activate train", "pip install wandb", "activates an environment"),
        ("source venv/bin/activate", "pip install wandb", "activates an environment"),
        ("export PATH=/opt/conda/bin:$PATH", "pip install wandb", "activates an environment"),
        ("pip uninstall -y torch", "pip install torch==2.3", "uninstalls"),
    ],
)
def test_an_install_that_depends_on_the_job_stays(job: MakeJob, before: str, install: str, reason: str) -> None:
    script = f"#PBS -l select=1:ngpus=1\n{before}\n{install}\npython train.py\n"
    assert reason in job({"job.sh": script}).refusal("GPU401")


def test_a_dockerfile_of_that_name_is_never_overwritten(job: MakeJob) -> None:
    script = "#PBS -l select=1:ngpus=1\npip install wandb\npython train.py\n"
    mine = {"Dockerfile.gpulint": "FROM scratch\n", "Dockerfile.gpulint-job": "FROM scratch\n"}
    made = job({"job.sh": script, **mine})
    assert "exists already" in made.refusal("GPU401")


def test_an_install_in_front_of_the_program_goes_from_its_line(job: MakeJob) -> None:
    made = job({"job.sh": "#PBS -l select=1:ngpus=1\npip install --user wandb && python train.py  # go\n"})
    assert made.repair("GPU401") == 1
    assert made.text("job.sh") == "#PBS -l select=1:ngpus=1\npython train.py  # go\n"
    assert made.text("Dockerfile.gpulint").endswith("FROM ${BASE_IMAGE}\nRUN pip install wandb\n")


def test_what_a_string_needs_to_be_whole_stays_in_it(job: MakeJob) -> None:
    script = '#SBATCH --gres=gpu:8\nsrun bash -c "\n  ls &&\n  apt-get install -y infiniband-diags\n  "\nsrun python train.py\n'
    assert "shares its line" in job({"job.sh": script, "train.py": "import torch\n"}).refusal("GPU401")


def test_all_installs_of_a_launcher_share_one_repair(job: MakeJob) -> None:
    installs = "".join(f"pip install package{number}\n" for number in range(100))
    made = job({"job.sh": f"#PBS -l select=1:ngpus=1\n{installs}python train.py\n"})
    made.repair("GPU401")
    assert made.text("job.sh") == "#PBS -l select=1:ngpus=1\npython train.py\n"
    assert made.text("Dockerfile.gpulint").count("RUN pip install") == 100


def test_more_installs_than_a_repair_holds_are_left(job: MakeJob) -> None:
    installs = "".join(f"pip install package{number}\n" for number in range(101))
    results = job({"job.sh": f"#PBS -l select=1:ngpus=1\n{installs}python train.py\n"}).scan("GPU401")
    reasons = {result.fix.reason for result in results if isinstance(result.fix, Declined)}
    assert len(results) == 101
    assert len(reasons) == 1 and "has 101 installs" in reasons.pop()


def test_an_image_asks_no_questions_and_keeps_what_was_said_of_an_install(job: MakeJob) -> None:
    installs = "apt install unzip\n\n# 2.0.5 cannot be built\npip install pycocotools==2.0.4  # for COCO\n\n"
    made = job({"job.sh": f"#PBS -l select=1:ngpus=1\n{installs}python train.py\n"})
    assert made.repair("GPU401") == 2
    assert made.text("job.sh") == "#PBS -l select=1:ngpus=1\n\npython train.py\n"
    assert made.text("Dockerfile.gpulint").endswith(
        "RUN apt-get update && apt install -y unzip && rm -rf /var/lib/apt/lists/*\n"
        "# 2.0.5 cannot be built\n# for COCO\nRUN pip install pycocotools==2.0.4\n"
    )
