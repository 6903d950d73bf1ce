"""A scan offers no fix whose result could not be read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
import wandb

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    total_loss = 0
    for i, x in enumerate(train_loader):
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        loss_item = loss.item()
        total_loss += loss_item
        print(f"Step {i + 1}/{len(train_loader)}, Loss: {loss_item:.4f}")

        avg_loss = total_loss / (i + 1)

        wandb.log({
            "avg_train_loss": avg_loss,
            "loss_item": loss_item,
        })
    wandb.log({"epoch_loss": total_loss / len(train_loader)})
"""


def test_conditions_around_parts_of_one_another_are_not_offered(job: MakeJob) -> None:
    made = job({"train.py": PROGRAM})
    assert "do not fit together" in made.refusal("GPU305")


def test_a_condition_around_each_log_is(job: MakeJob) -> None:
    alone = PROGRAM.replace('            "avg_train_loss": avg_loss,\n', "").replace(
        "        avg_loss = total_loss / (i + 1)\n\n", ""
    )
    assert alone.count("avg_loss") == 0
    assert "50 steps" in job({"train.py": alone}).offer("GPU305").description


FREED = """\
from gc import collect

import torch

for batch in train_loader:
    optimizer.zero_grad()
    model(batch.cuda()).sum().backward()
    optimizer.step()
    collect()
    torch.cuda.memory.empty_cache()
"""


def test_calls_have_the_names_of_the_messages(job: MakeJob) -> None:
    results = job({"train.py": FREED}).scan("GPU207")
    assert {result.finding.message.partition(" ")[0] for result in results} == {
        "gc.collect",
        "torch.cuda.memory.empty_cache",
    }
    for result in results:
        assert result.fix.description.startswith("remove `gc.collect()`, `torch.cuda.memory.empty_cache()`;")
