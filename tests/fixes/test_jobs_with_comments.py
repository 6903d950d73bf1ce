"""Numbers of processes and GPUs, and waits, that something beside them explains or depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

DDP = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(3, 3).cuda())
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    loss = model(torch.randn(64, 3).cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DEEPSPEED = """\
import deepspeed
import torch

engine, optimizer, _, _ = deepspeed.initialize(model=torch.nn.Linear(3, 3), config="ds.json")
for step in range(100):
    loss = engine(torch.randn(64, 3).to(engine.device)).mean()
    engine.backward(loss)
    engine.step()
"""
PLAIN = """\
import torch

model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    loss = model(torch.randn(64, 3).cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
STARTED = "#!/bin/bash\n#SBATCH --gres=gpu:4\n{}torchrun --nproc_per_node=2 train.py\n"
LISTED = "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --cpus-per-task=8\n{}CUDA_VISIBLE_DEVICES=1 python train.py\n"
SLEPT = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n{}sleep infinity\n"
SPED = "#!/bin/bash\n#SBATCH --gres=gpu:8\ndeepspeed --num_gpus=4 train.py --deepspeed ds.json\n"
MICRO = '{{"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4{}}}'


@pytest.mark.parametrize(
    ("code", "job_file", "program", "comment"),
    [
        ("GPU103", STARTED, DDP, "# only 2 GPUs: the others run the evaluation server\n"),
        ("GPU104", LISTED, PLAIN, "# GPU 0 of this node has ECC errors\n"),
        ("GPU105", SLEPT, PLAIN, "# keep the pod alive so that results can be copied\n"),
    ],
)
def test_what_a_comment_explains_is_left_alone(
    job: MakeJob, code: str, job_file: str, program: str, comment: str
) -> None:
    assert "comment" in job({"job.sh": job_file.format(comment), "train.py": program}).refusal(code)
    assert job({"job.sh": job_file.format(""), "train.py": program}).offer(code).changes


def test_a_global_batch_that_deepspeed_checks_keeps_its_number_of_processes(job: MakeJob) -> None:
    files = {"job.sh": SPED, "train.py": DEEPSPEED, "ds.json": MICRO.format(', "train_batch_size": 128')}
    assert "train_batch_size" in job(files).refusal("GPU103")
    assert job({**files, "ds.json": MICRO.format("")}).offer("GPU103").changes
