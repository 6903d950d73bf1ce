"""How many workers are proposed: what the job's cores allow for each of its processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

loader = DataLoader(ImageFolder("train"), batch_size=64, shuffle=True, pin_memory=True)
for epoch in range(9):
    for images, labels in loader:
        model(images.cuda(non_blocking=True)).backward()
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: t}
spec:
  containers:
  - name: main
    image: me/train
    command: ["torchrun", "--nproc_per_node=2", "train.py"]
    resources: {limits: {nvidia.com/gpu: 2, cpu: "14"}}
    volumeMounts: [{name: memory, mountPath: /dev/shm}]
  volumes: [{name: memory, emptyDir: {medium: Memory}}]
"""


@pytest.mark.parametrize(
    ("name", "launcher", "workers"),
    [
        ("job.sh", "#SBATCH --gres=gpu:1 --ntasks=1 --cpus-per-task=6\nsrun python train.py", "6"),
        ("job.sh", "#SBATCH --gres=gpu:1 --ntasks=1 --cpus-per-task=64\nsrun python train.py", "16"),
        ("job.sh", "#SBATCH --nodes=1 --ntasks-per-node=4 --gres=gpu:4 --cpus-per-task=8\nsrun python train.py", "8"),
        (
            "job.sh",
            "#SBATCH --nodes=1 --ntasks-per-node=1 --gres=gpu:4 --cpus-per-task=32\ntorchrun --nproc_per_node=4 train.py",
            "8",
        ),
        (
            "job.sh",
            "#SBATCH --nodes=1 --ntasks-per-node=1 --gres=gpu:4 --cpus-per-task=8\ntorchrun --nproc_per_node=gpu train.py",
            "2",
        ),
        (
            "job.sh",
            "#SBATCH --nodes=1 --ntasks-per-node=1 --gres=gpu:4 --cpus-per-task=6\ntorchrun --nproc_per_node=4 train.py",
            "1",
        ),
        ("pod.yaml", POD, "7"),
        ("job.sh", "#SBATCH --gres=gpu:1 --ntasks=8\npython train.py", "4"),
        ("job.sh", "#SBATCH --nodes=1 --ntasks-per-node=8 --gres=gpu:1\npython train.py", "8"),
        # Nothing says how many cores there are: a usual number.
        ("job.sh", "#SBATCH --gres=gpu:4\ntorchrun --nproc_per_node=4 train.py", "4"),
        ("job.sh", "#SBATCH --gres=gpu:1\npython train.py", "4"),
    ],
)
def test_workers_by_the_jobs_cores(job: MakeJob, name: str, launcher: str, workers: str) -> None:
    made = job({"train.py": PROGRAM, name: launcher})
    made.repair("GPU303")
    assert f"num_workers={workers}" in made.text("train.py")
    assert "persistent_workers=True" in made.text("train.py")


@pytest.mark.parametrize(
    "launcher",
    [
        "#SBATCH --gres=gpu:1 --ntasks=1\npython train.py",
        "#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:1\npython train.py",
        "#SBATCH --gres=gpu:1 --ntasks=1 --cpus-per-task=1\npython train.py",
        "#SBATCH --nodes=1 --ntasks-per-node=1 --gres=gpu:4 --cpus-per-task=4\ntorchrun --nproc_per_node=4 train.py",
    ],
)
def test_one_core_leaves_none_to_workers(job: MakeJob, launcher: str) -> None:
    made = job({"train.py": PROGRAM, "job.sh": launcher})
    assert "one core" in made.refusal("GPU303")
    (found,) = made.scan("GPU303")
    assert "(the job requests at most one per process)" in found.finding.help


@pytest.mark.parametrize(("cpus", "workers"), [("$(cpus:6)", "6"), ("$(cores)", "3"), ("$(most)", "4"), ("2", "2")])
def test_cores_by_a_macro_of_a_submit_file(job: MakeJob, cpus: str, workers: str) -> None:
    submit = f"cores = 3\nrequest_cpus = {cpus}\nrequest_gpus = 1\nexecutable = train.sh\nqueue\n"
    made = job({"train.py": PROGRAM, "train.sub": submit, "train.sh": "#!/bin/bash\npython train.py\n"})
    made.repair("GPU303")
    assert f"num_workers={workers}" in made.text("train.py")


def test_cores_of_the_job_that_imports_the_module(job: MakeJob) -> None:
    module = "from torch.utils.data import DataLoader\nfrom torchvision.datasets import ImageFolder\n\n\ndef load():\n"
    program = "from data import load\n\nloader = load()\nfor epoch in range(9):\n    for images, labels in loader:\n"
    made = job(
        {
            "data.py": module + '    return DataLoader(ImageFolder("train"), batch_size=64, pin_memory=True)\n',
            "train.py": program + "        model(images.cuda(non_blocking=True)).backward()\n",
            "job.sh": "#SBATCH --gres=gpu:1 --ntasks=1 --cpus-per-task=6\nsrun python train.py",
        }
    )
    made.repair("GPU303")
    assert "num_workers=6" in made.text("data.py")


@pytest.mark.parametrize(
    ("command", "workers"), [("uv run trainer fit", "3"), ('"$RUN" fit', "3"), ("python other.py", "6")]
)
def test_no_more_workers_than_a_job_has_cores_that_may_start_the_program_as_well(
    job: MakeJob, command: str, workers: str
) -> None:
    made = job(
        {
            "train.py": PROGRAM,
            "other.py": "import torch\n\nprint(torch.ones(3).cuda())\n",
            "job.sh": "#SBATCH --gres=gpu:1 --ntasks=1 --cpus-per-task=6\nsrun python train.py",
            "fit.sh": f"#SBATCH --gres=gpu:1 --ntasks=1 --cpus-per-task=3\n{command}",
        }
    )
    made.repair("GPU303")
    assert f"num_workers={workers}" in made.text("train.py")


def test_workers_stay_alive_for_more_than_one_pass_only(job: MakeJob) -> None:
    program = """\
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def evaluate(model, loader):
    for images, labels in loader:
        model(images.cuda(non_blocking=True))


def main():
    loader = DataLoader(ImageFolder("test"), batch_size=64, pin_memory=True)
    LINES
"""
    once = job({"train.py": program.replace("LINES", "evaluate(model, loader)")})
    once.repair("GPU303")
    assert "num_workers=4)" in once.text("train.py")
    often = job({"train.py": program.replace("LINES", "for epoch in range(9):\n        evaluate(model, loader)")})
    often.repair("GPU303")
    assert "persistent_workers=True" in often.text("train.py")


def test_the_loaders_of_one_function_get_workers_together(job: MakeJob) -> None:
    program = PROGRAM.replace("for epoch", 'val_loader = DataLoader(ImageFolder("val"), batch_size=64)\nfor epoch')
    program += "    for images, labels in val_loader:\n        model(images.cuda(non_blocking=True))\n"
    train, val = (result.fix for result in job({"train.py": program}).scan("GPU303"))
    assert {*train.edits} == {*val.edits}
    assert len(train.edits) == 2


def test_workers_of_an_option_may_be_none_so_that_nothing_stays_alive(job: MakeJob) -> None:
    program = PROGRAM.replace("batch_size=64", "batch_size=64, num_workers=workers").replace(
        "loader =", "def make(workers=0):\n    return"
    )
    made = job({"train.py": program.replace("for epoch", "loader = make()\nfor epoch")})
    made.repair("GPU303")
    assert "def make(workers=4)" in made.text("train.py")
    assert "persistent_workers" not in made.text("train.py")


OPTIONS = """\
import argparse
import torch
from omegaconf import OmegaConf
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

{read}


def main():
    loader = DataLoader(ImageFolder("train"), batch_size={size}, shuffle=True, pin_memory=True)
    optimizer = make(model, {rate})
    for epoch in range(9):
        for images, labels in loader:
            model(images.cuda(non_blocking=True)).sum().backward()
            optimizer.step()


main()
"""
ARGUMENTS = """\
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--workers", type=int, default={default})
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("read", "size", "rate", "workers"),
    [
        (ARGUMENTS.format(default=6), "32", "args.lr", "args.workers"),
        (ARGUMENTS.format(default=0), "32", "args.lr", "4"),
        ('cfg = OmegaConf.load("train.yaml")', "cfg.optim.size", "cfg.data.root", "cfg.data.num_workers"),
        ('cfg = OmegaConf.load("train.yaml")', "cfg.optim.size", "cfg.test.root", "4"),
    ],
)
def test_workers_come_from_an_option_that_the_loader_does_not_get(
    job: MakeJob, read: str, size: str, rate: str, workers: str
) -> None:
    program = OPTIONS.format(read=read, size=size, rate=rate)
    config = "optim: {size: 32}\ndata: {root: /d, num_workers: 6}\ntest: {root: /d}\n"
    made = job({"train.py": program, "train.yaml": config})
    made.repair("GPU303")
    assert f"num_workers={workers}, persistent_workers=" in " ".join(made.text("train.py").split())


@pytest.mark.parametrize(
    ("shards", "help_", "workers"),
    [
        ('"/data/{0..1}.tar"', "at most to its 2 shards", "2"),
        ('"/data/{0..1}.tar", empty_check=False', "cores per GPU", "4"),
        ('"/data/a.tar::/data/b.tar::/data/c.tar"', "at most to its 3 shards", "3"),
        ('"/data/shards.json"', "cores per GPU", "4"),
    ],
)
def test_no_worker_of_webdataset_is_without_a_shard(job: MakeJob, shards: str, help_: str, workers: str) -> None:
    text = (
        "import torch\nimport webdataset as wds\nfrom torch.utils.data import DataLoader\n\n"
        f"loader = DataLoader(wds.WebDataset({shards}).map(decode), batch_size=16)\n"
        "for epoch in range(9):\n    for batch in loader:\n        model(batch.cuda()).sum().backward()\n"
    )
    made = job({"train.py": text})
    (result,) = made.scan("GPU303")
    assert help_ in result.finding.help and ("at most" in result.finding.help) == ("at most" in help_)
    made.repair("GPU303")
    assert f"num_workers={workers}" in made.text("train.py")
