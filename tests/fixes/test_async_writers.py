"""Checkpoints in the background by the framework's own means: the same files, and the loop does not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeJob = Callable[..., Any]

DISTRIBUTED = """\
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp


def main():
    dist.init_process_group("BACKEND")
    torch.manual_seed(0)
    model = torch.nn.Linear(*map(int, "4 2".split()))
    if torch.cuda.is_available():
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        loss = model(torch.randn(8, 4, device=model.weight.device)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 2 == 0:
            dcp.save({"model": model.state_dict()}, checkpoint_id=f"runs/{step}")
    print(loss.item())
    dist.destroy_process_group()


main()
"""
LIGHTNING = """\
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

saves = ModelCheckpoint(dirpath="s3://bucket/runs", every_n_epochs=1)
trainer = Trainer(max_epochs=90, callbacks=[saves])
trainer.fit(model)
"""
REQUIREMENTS = "torch\nlightning>=2.5.4\n"
ORBAX = """\
import jax
import orbax.checkpoint as ocp

checkpointer = ocp.PyTreeCheckpointer()
for epoch in range(90):
    for batch in train_loader:
        state = step(state, jax.device_put(batch, jax.devices("gpu")[0]))
    checkpointer.save(f"gs://bucket/{epoch}", state)
print("done")
"""


def test_distributed_checkpoints_hold_the_same(job: MakeJob, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    made = job({"train.py": DISTRIBUTED.replace("BACKEND", "cpu:gloo")})
    assert made.repair("GPU211") == 1
    after = made.text("train.py")
    assert "pending_save = dcp.async_save(" in after
    programs = {"before.py": DISTRIBUTED.replace("BACKEND", "cpu:gloo"), "after.py": after}
    printed = made.outputs(programs, ranks=2)
    assert printed["before.py"] == printed["after.py"] != ""
    for step in (0, 2, 4):
        states = []
        for name in ("before", "after"):
            state = {"model": torch.nn.Linear(4, 2).state_dict()}
            checkpoint.load(state, checkpoint_id=tmp_path / name / f"runs/{step}", no_dist=True)
            states.append(state["model"])
        assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_a_group_of_gpus_alone_also_gets_a_backend_for_the_cpu(job: MakeJob) -> None:
    made = job({"train.py": DISTRIBUTED.replace("BACKEND", "nccl")})
    assert made.repair("GPU211") == 1
    assert 'init_process_group("cpu:gloo,cuda:nccl")' in made.text("train.py")


def test_lightning_gets_its_plugin(job: MakeJob) -> None:
    made = job({"train.py": LIGHTNING, "requirements.txt": REQUIREMENTS})
    assert made.repair("GPU211") == 1
    lines = made.text("train.py").splitlines()
    assert lines[2] == "from lightning.pytorch.plugins.io import AsyncCheckpointIO"
    assert "trainer = Trainer(max_epochs=90, callbacks=[saves], plugins=[AsyncCheckpointIO()])" in lines


def test_orbax_writes_in_the_background_and_is_waited_for(job: MakeJob) -> None:
    made = job({"train.py": ORBAX})
    assert made.repair("GPU211") == 1
    lines = made.text("train.py").splitlines()
    assert "checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())" in lines
    assert lines[-2:] == ["checkpointer.wait_until_finished()", 'print("done")']


@pytest.mark.parametrize(
    ("program", "before", "after", "reason"),
    [
        (DISTRIBUTED, '"BACKEND"', "args.backend", "which backends"),
        (DISTRIBUTED, '    dist.init_process_group("BACKEND")\n', "", "where the process group is made"),
        (DISTRIBUTED, "        optimizer.zero_grad()\n", "        if loss < 0.1:\n            return\n", "may return"),
        (LIGHTNING, "max_epochs=90,", 'max_epochs=90, strategy="fsdp",', "strategy or plugins"),
        (LIGHTNING, "max_epochs=90,", "max_epochs=90, **options,", "strategy or plugins"),
        (LIGHTNING, "every_n_epochs=1", "every_n_train_steps=20000", "longer than a write"),
        (LIGHTNING, '"s3://bucket/runs", every_n_epochs=1', '"runs", every_n_train_steps=50', "a disk of the node"),
        (ORBAX, "PyTreeCheckpointer()", "PyTreeCheckpointer(primary_host=1)", "options of its own"),
    ],
)
def test_what_the_writer_could_not_do_is_left_alone(
    job: MakeJob, program: str, before: str, after: str, reason: str
) -> None:
    assert before in program
    made = job({"train.py": program.replace(before, after, 1), "requirements.txt": REQUIREMENTS})
    assert reason in made.refusal("GPU211")


@pytest.mark.parametrize("packages", ["", "lightning\n", "lightning==2.5.3\n", "pytorch-lightning>=1.8\n"])
def test_lightning_that_may_write_weights_while_they_change_is_left_alone(job: MakeJob, packages: str) -> None:
    made = job({"train.py": LIGHTNING, "requirements.txt": packages})
    assert "while the training changes them" in made.refusal("GPU211")


@pytest.mark.parametrize("packages", ["lightning==2.6.0\n", 'lightning[extra] ~= "2.5.5"\n', "pytorch_lightning>=3\n"])
def test_lightning_that_copies_the_state_first_is_recognized(job: MakeJob, packages: str) -> None:
    made = job({"train.py": LIGHTNING, "requirements.txt": packages})
    assert made.repair("GPU211") == 1
