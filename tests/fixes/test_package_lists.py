"""Jobs that fetch lists of packages before they install some: the installs move all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]
PROGRAM = "import torch\n\nfor x in loader:\n    model(x.cuda()).backward()\n    optimizer.step()\n"
POD = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: train
          image: pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime
          command: ["bash", "-c"]
          args:
            - |
{steps}
              python train.py
          resources:
            limits:
              nvidia.com/gpu: 4
"""


def pod(*steps: str) -> dict[str, str]:
    return {"train.py": PROGRAM, "job.yaml": POD.format(steps="\n".join(f"{14 * ' '}{step}" for step in steps))}


@pytest.mark.parametrize(
    "steps",
    [
        ("apt-get update", "pip install einops"),
        ("apt-get update -qq && apt-get install -y libgl1", "pip install einops"),
        ("apt-get update && apt-get install -y libgl1 && pip install einops && true",),
        ("sudo apt-get -qq update && sudo apt-get install -y libgl1 && pip install einops && true",),
        ("apt update -y", "apt install -y libgl1", "pip install einops"),
        ("apt-get -q update", "pip install einops", "apt-get install -y libgl1"),
    ],
)
def test_lists_of_packages_go_with_the_installs(job: MakeJob, steps: tuple[str, ...]) -> None:
    made = job(pod(*steps))
    made.repair("GPU401")
    system = any("libgl1" in step for step in steps)
    assert "apt" not in made.text("job.yaml")
    assert "pip" not in made.text("job.yaml")
    assert "RUN pip install einops" in made.text("Dockerfile.gpulint")
    assert (
        "apt-get update && apt-get install" in made.text("Dockerfile.gpulint").replace("apt ", "apt-get ")
    ) is system


@pytest.mark.parametrize(
    "steps",
    [
        ("apt-get update", "apt-get upgrade -y", "pip install einops"),
        ('if [ -n "$FRESH" ]; then apt-get update; fi', "pip install einops"),
        ("apt-get update", "apt-get install -y $PACKAGES", "pip install einops"),
        ("apt-get update && \\", "apt-get install -y libgl1", "pip install einops"),
    ],
)
def test_lists_that_something_else_needs_stay_with_it(job: MakeJob, steps: tuple[str, ...]) -> None:
    results = job(pod(*steps)).scan("GPU401")
    assert results and all(isinstance(result.fix, Declined) for result in results)


BATCH = "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --nodes=1\n{steps}\npython train.py\n"


def test_a_stage_before_a_batch_job_installs_without_the_lists(job: MakeJob) -> None:
    made = job({"train.py": PROGRAM, "train.sh": BATCH.format(steps="sudo apt-get update\npip install einops")})
    made.repair("GPU401")
    assert "pip install einops" in made.text("train_prepare.sh")
    assert "apt-get" not in made.text("train_prepare.sh")
    assert "pip" not in made.text("train.sh")


def test_one_that_installs_packages_of_its_node_keeps_all(job: MakeJob) -> None:
    steps = "apt-get update\napt-get install -y libgl1\npip install einops"
    results = job({"train.py": PROGRAM, "train.sh": BATCH.format(steps=steps)}).scan("GPU401")
    assert results and all(isinstance(result.fix, Declined) for result in results)
