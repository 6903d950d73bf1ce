"""The job that a finding stands with: its name, its GPUs, and the other jobs of the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main

POD = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: fit}}
spec:
  completions: {replicas}
  parallelism: {replicas}
  template:
    spec:
      initContainers: [{before}]
      containers:
      - name: trainer
        image: me/train
        command: [{command}]
        env: [{{name: CUDA_LAUNCH_BLOCKING, value: "1"}}]
        resources: {{limits: {{nvidia.com/gpu: 1}}}}
      - {{name: metrics, image: me/metrics}}
"""
FETCH = "{name: fetch, image: aws, command: [sh, -c, aws s3 sync s3://b/d /data]}"
SPLIT = "{name: split, image: me/train, command: [python, split.py]}"
TRAIN = """\
import torch

model = torch.nn.Linear(4, 2).cuda()
"""


def pod(before: str = "", command: str = "python, train.py", replicas: int = 1) -> str:
    return POD.format(before=before, command=command, replicas=replicas)


@pytest.fixture
def scanned(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    def call(**files: str) -> str:
        for name, text in files.items():
            stem, _, suffix = name.rpartition("_")
            (tmp_path / f"{stem}.{suffix}").write_text(text)
        (tmp_path / "train.py").write_text(TRAIN)
        (tmp_path / "split.py").write_text("print('split')\n")
        monkeypatch.chdir(tmp_path)
        main(("scan", "--no-cache", "--impact", "low", "."))
        out: str = capsys.readouterr().out
        return out

    return call


@pytest.mark.parametrize("before", ["", FETCH, SPLIT, f"{FETCH}, {SPLIT}"])
def test_what_runs_before_a_container_is_part_of_its_job(scanned: Any, before: str) -> None:
    out = scanned(job_yaml=pod(before))
    assert re.findall(r"==> Job '(\w+)'.*: (\d) GPU", out) == [("trainer", "1")]
    assert "more job" not in out


def test_each_pod_of_a_file_stays_a_job(scanned: Any) -> None:
    out = scanned(job_yaml=f"{pod(FETCH)}---\n{pod(FETCH)}")
    assert re.findall(r"==> Job 'trainer' \(job.yaml:(\d+)", out) == ["15", "32"]


def test_a_command_counts_the_gpus_of_the_job_that_it_names(scanned: Any) -> None:
    command = "bash, run.sh"
    script = "pip install -r requirements.txt\npython train.py\n"
    out = scanned(a_yaml=pod(command=command), b_yaml=pod(command=command, replicas=10), run_sh=script)
    block = out[out.index("GPU401") :]
    assert re.search(r"impact: .*10 GPUs", block)
    assert re.search(r"note: b\.yaml:\d+:\d+: the GPUs are held", block)


def test_a_placeholder_for_the_name_of_a_job_reads_as_it_is_written(scanned: Any) -> None:
    script = "#SBATCH --gres=gpu:{gpus}\n#SBATCH -J {name}\nexport CUDA_LAUNCH_BLOCKING=1\npython train.py\n"
    out = scanned(
        a_sh=script.format(gpus=2, name="<job_name>"),
        b_sh=script.format(gpus="<count>", name='"<your job>_tuned"  # a comment'),
        c_sh=script.format(gpus=1, name="plain"),
    )
    heads = re.findall(r"==> Job '(.*)' \(.*\): (\d|unknown)", out)
    assert sorted(heads) == [("<job_name>", "2"), ("<your job>_tuned", "unknown"), ("plain", "1")]


def test_a_finding_on_a_job_stands_with_it(scanned: Any) -> None:
    first = f"{pod(command='python, -c, print(1)')}".replace("trainer", "prints")
    out = scanned(job_yaml=f"{pod(replicas=4)}---\n{first}")
    assert re.findall(r"==> Job 'prints'.*: 1 GPU\n\nGPU106", out)


def test_a_program_stands_with_the_job_that_starts_it_before_those_that_import_it(scanned: Any) -> None:
    big = "#!/bin/bash\n#SBATCH --gres=gpu:8\npython other.py\n"
    small = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython fit.py\n"
    fit = "import torch\ntorch.autograd.set_detect_anomaly(True)\nmodel = torch.nn.Linear(4, 2).cuda()\n"
    fit += "for batch in batches:\n    model(batch).sum().backward()\n    optimizer.step()\n"
    other = "import fit\nprint(fit.model)\n"
    out = scanned(big_sh=big, small_sh=small, fit_py=fit, other_py=other)
    assert re.findall(r"==> Job '(small.sh)' .*: 1 GPU\n.*more job.*big.sh:2\n\nGPU414", out) == ["small.sh"]
