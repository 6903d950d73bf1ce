"""Jobs of launchers that were copied from another organisation, whose GPUs are those of the original authors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import scan

_TRAINS = """\
import torch
from net import Net

def main(args):
    model, optimizer = Net().cuda(), None
    for images in loader:
        loss = model(images.cuda()).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""
_SUBMITS = """\
import submitit
import train

class Trainer:
    def __call__(self):
        train.main(None)

executor = submitit.AutoExecutor(folder="{folder}")
executor.update_parameters(gpus_per_node=8, nodes=2, tasks_per_node=8, slurm_partition="{partition}")
executor.submit(Trainer())
"""
_BATCH = "#!/bin/bash\n#SBATCH --gpus-per-node=8\n#SBATCH --nodes=2\n#SBATCH --partition={partition}\n{folder}\nsrun python train.py\n"


@pytest.mark.parametrize(
    ("name", "text"), [("submit.py", _SUBMITS), ("job.sh", _BATCH)], ids=["a program", "a batch script"]
)
@pytest.mark.parametrize(
    ("partition", "folder", "own"),
    [
        ("learnfair", "", False),
        ("devlab,learnfair", "", False),
        ("learnlab", "", False),
        ("gpu", "/private/home/someone/runs", False),
        ("gpu", "/large_experiments/someone", False),
        ("gpu", "", True),
        ("devlabs", "/checkpoint/me/runs", True),
        ("gpu", "/home/private/runs", True),
    ],
)
def test_gpus_of_other_clusters_are_not_counted(
    tmp_path: Path, name: str, text: str, partition: str, folder: str, own: bool
) -> None:
    if name == "job.sh" and folder:
        folder = f"cd {folder.rpartition('/')[0]}; cd {folder}"
    launcher = text.format(partition=partition, folder=folder)
    report = scan(tmp_path, {"net.py": "", "train.py": _TRAINS, name: launcher})
    found = [one.finding for one in report.results if one.finding.rule.code == "GPU305"]
    assert len(found) == 1
    assert any(job.gpus == 16 for job in report.jobs) is own
    assert own or "16 GPUs" not in found[0].impact.basis
