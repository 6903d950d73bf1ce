"""Reads of elements in an inner loop whose index is on the GPU: the index is waited for, wherever the read goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

INDEXED = """\
import torch


def train(model, loader, optimizer, device):
    weights = torch.ones(64, device="cuda")
    total = 0.0
    for images, labels in loader:
        moved = labels.cuda(non_blocking=True)
        model(images.cuda(non_blocking=True), moved, weights).backward()
        optimizer.step()
        for {loop}:
            total += weights[index].item()
    return total
"""


@pytest.mark.parametrize(
    "loop",
    [
        "index in moved",
        "place, index in enumerate(moved)",
        "image, index in zip(images, moved)",
    ],
)
def test_a_sum_on_the_gpu_would_still_wait_for_indices_on_the_gpu(job: MakeJob, loop: str) -> None:
    files = {"train.py": INDEXED.format(loop=loop)}
    check_declined(job, "GPU305", files, "waits for its index `index`, which is on the GPU as well")


FOUND = """\
import torch
{imports}

def train(task, agent, optimizer):
    env = gym.make(task)
    state, _ = env.reset()
    rewards = torch.zeros(64, device="cuda")
    total = 0.0
    for step in range(100000):
        state, reward, done, _, _ = env.step(agent(state))
        rewards += torch.as_tensor(reward, device="cuda")
        agent.loss(state, rewards).backward()
        optimizer.step()
        ended = {ended}
        for index in {rounds}:
            total += rewards[index].item()
    return total
"""


@pytest.mark.parametrize(
    ("ended", "rounds"),
    [
        ("done.nonzero(as_tuple=False).squeeze(-1)", "ended"),
        ("done.nonzero().flatten()", "ended"),
        ("torch.where(done)[0]", "ended"),
        ("done", "ended.nonzero().flatten()"),
    ],
)
def test_indices_of_environments_on_the_gpu_are_waited_for(job: MakeJob, ended: str, rounds: str) -> None:
    files = {"train.py": FOUND.format(imports="import gymnasium as gym\nimport isaaclab\n", ended=ended, rounds=rounds)}
    check_declined(job, "GPU305", files, "waits for its index `index`, which is on the GPU as well")


@pytest.mark.parametrize(
    ("imports", "ended"),
    [
        ("import gymnasium as gym\nimport isaaclab\n", "done.nonzero(as_tuple=False).squeeze(-1).tolist()"),
        ("import gymnasium as gym\nimport numpy as np\n", "np.where(done)[0]"),
        ("import gymnasium as gym\n", "torch.where(torch.as_tensor(done))[0]"),
    ],
)
def test_indices_on_the_host_are_not_waited_for(job: MakeJob, imports: str, ended: str) -> None:
    made = job({"train.py": FOUND.format(imports=imports, ended=ended, rounds="ended")})
    assert not any("waits for its index" in getattr(result.fix, "reason", "") for result in made.scan("GPU305"))


SUMMED = """\
import torch
import torch.nn.functional as F


def train(model, loader, optimizer, device):
    sums = torch.zeros(10, device=device)
    counts = {counts}
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        losses = F.cross_entropy(model(images), labels, reduction="none")
        losses.mean().backward()
        optimizer.step()
        for {rounds}:
            sums[{index}] += losses[i].item()
            counts[{index}] += 1
    return sums, counts


train(net.cuda(), train_loader, optimizer, "cuda")
"""


@pytest.mark.parametrize("rounds", ["i, group in enumerate(labels)", "i, group in zip(range(64), labels)"])
def test_a_sum_in_a_tensor_would_still_wait_for_its_index(job: MakeJob, rounds: str) -> None:
    """PyTorch makes a number of an index without axes, wherever the tensor is that it indexes."""
    files = {"train.py": SUMMED.format(counts="torch.zeros(10, device=device)", rounds=rounds, index="group")}
    check_declined(job, "GPU305", files, "waits for its index `group`, which is on the GPU")


@pytest.mark.parametrize("counts", ["[0] * 10", "torch.zeros(10)", "torch.zeros(10).to(device)"])
def test_indices_of_tensors_are_copied_with_what_is_added(job: MakeJob, counts: str) -> None:
    files = {"train.py": SUMMED.format(counts=counts, rounds="i in range(len(labels))", index="labels[i]")}
    made = job(files)
    [result] = made.scan("GPU305")
    text = "".join(edit.text for edit in result.fix.edits)
    assert "labels_list = labels.tolist()" in text
    assert "labels_list[i]" in text


@pytest.mark.parametrize("index", ["i % 10", "0"])
def test_sums_at_places_of_the_host_are_added_up_on_the_gpu(job: MakeJob, index: str) -> None:
    files = {"train.py": SUMMED.format(counts="[0] * 10", rounds="i in range(len(labels))", index=index)}
    [result] = job(files).scan("GPU305")
    assert [edit.text for edit in result.fix.edits] == [".detach()"]
