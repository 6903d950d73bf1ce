"""A job whose addresses are placeholders is a template: nobody runs it as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import scan

TRAIN = "import torch\n\nfor x in loader:\n    model(x.cuda()).sum().backward()\n    optimizer.step()\n"
MOSAIC = """\
name: finetune
image: mosaicml/pytorch:latest
compute:
  gpus: 8
command: |
  {command}
  composer train.py
"""
SLURM = "#!/bin/bash\n#SBATCH --gres=gpu:8\n#SBATCH --container-image=a/b\n{command}\ntorchrun --nproc_per_node=8 train.py\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: train}}
spec:
  containers:
  - name: main
    image: acme/train:1
    resources: {{limits: {{nvidia.com/gpu: 8}}}}
    command:
    - bash
    - -c
    - |
      {command}
      torchrun --nproc_per_node=8 train.py
"""
JOBS = {"job.yaml": MOSAIC, "job.sh": SLURM, "pod.yaml": POD}


def levels(folder: Path, code: str, files: dict[str, str]) -> set[str]:
    """The levels of a rule's findings."""
    report = scan(folder, {"train.py": TRAIN, **files})
    return {str(one.finding.impact.level) for one in report.results if one.finding.rule.code == code}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize(
    "command",
    [
        "aws s3 cp --recursive s3://bucket/folder/hf/ data",
        "aws s3 sync s3://my-bucket/imagenet data",
        "gsutil -m cp -r gs://YOUR_BUCKET/imagenet data",
        "aws s3 sync 's3://<your-bucket>/imagenet' data",
        "rsync -a user@host:/path/to/imagenet data",
        "rclone copy remote:/path/to/imagenet data",
        "BUCKET=your-bucket-name\n      aws s3 sync s3://$BUCKET/imagenet data",
    ],
)
def test_a_copy_from_a_placeholder_is_low(tmp_path: Path, name: str, command: str) -> None:
    if name != "pod.yaml":
        command = command.replace("\n      ", "\n  " if name == "job.yaml" else "\n")
    assert levels(tmp_path, "GPU332", {name: JOBS[name].format(command=command)}) == {"low"}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize(
    "command",
    [
        "aws s3 sync s3://acme-imagenet/train data",
        "aws s3 sync s3://my-bucket-of-birds/train data",
        "aws s3 sync s3://birds-bucket/train data",
        "aws s3 sync s3://$BUCKET_NAME/train data",
        "rsync -a anna@storage3:/data/imagenet data",
    ],
)
def test_a_copy_from_a_real_address_is_shown(tmp_path: Path, name: str, command: str) -> None:
    assert levels(tmp_path, "GPU332", {name: JOBS[name].format(command=command)}) <= {"medium", "high"}
    assert levels(tmp_path, "GPU332", {name: JOBS[name].format(command=command)})


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize(
    ("after", "low"),
    [
        ("aws s3 sync out s3://my-bucket/runs", True),
        ("oci os object bulk-upload -bn YOUR_BUCKET_HERE --src-dir out", True),
        ("python convert.py --out s3://bucket/folder/hf", True),
        ("aws s3 sync out s3://acme-runs/runs", False),
        ("python convert.py --out /path/to/out", False),
        ("echo done", False),
    ],
)
def test_an_install_of_a_template_is_low(tmp_path: Path, name: str, after: str, low: bool) -> None:
    indent = {"job.yaml": "\n  ", "job.sh": "\n", "pod.yaml": "\n      "}[name]
    command = f"pip install torch torchvision vllm{indent}{after}"
    found = levels(tmp_path, "GPU401", {name: JOBS[name].format(command=command)})
    assert found
    assert (found == {"low"}) is low
