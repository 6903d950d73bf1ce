"""GPU353's repair: the same training with fewer exchanges, in two real processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]

PROGRAM = """\
import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(torch.nn.Linear(8, 1))
exchanges = 0


def count(state, bucket):
    global exchanges
    exchanges += 1
    return dist.all_reduce(bucket.buffer().div_(2), async_op=True).get_future().then(lambda done: done.value()[0])


dist._register_comm_hook(model.reducer, None, count)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
loader = [torch.randn(4, 8) for _ in range(12)]
for step, batch in enumerate(loader):
    loss = model(batch).square().mean() / 4
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
with open(f"rank{dist.get_rank()}.json", "w") as file:  # not stdout, where two processes' words may mix
    json.dump([exchanges, *model.module.weight.flatten().tolist()], file)
dist.barrier()
os._exit(0)  # ending gloo's threads together with the interpreter may abort on a busy machine
"""


SCALED = PROGRAM.replace(
    """\
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """\
    loss_scaler(loss, optimizer, update_grad=(step + 1) % accumulated == 0)
""",
).replace(
    "exchanges = 0\n",
    """\
exchanges, accumulated = 0, 4


def loss_scaler(loss, optimizer, update_grad):
    loss.backward()
    if update_grad:
        optimizer.step()
        optimizer.zero_grad()
""",
)
"""The same by a scaler that does the backward pass."""


def test_two_processes_train_the_same_with_a_quarter_of_the_exchanges(job: MakeJob) -> None:
    pytest.importorskip("torch")
    programs = {}
    for name, program in (("backward", PROGRAM), ("scaler", SCALED)):
        made = job({"train.py": program})
        assert made.repair("GPU353") == 1
        programs |= {f"{name}.py": program, f"{name}_fixed.py": made.text("train.py")}
        (made.root / "train.py").unlink()
    made.outputs(programs, ranks=2)

    def ranks(name: str) -> list[list[float]]:
        return [json.loads(made.text(f"{name}/rank{rank}.json")) for rank in range(2)]

    for name in ("backward", "scaler"):
        before, after = ranks(name), ranks(f"{name}_fixed")
        assert [rank[0] for rank in before] == [12, 12]
        assert [rank[0] for rank in after] == [3, 3]
        for mine, other in zip(after, before, strict=True):
            assert mine[1:] == pytest.approx(other[1:], abs=1e-5)
        assert after[0][1:] == after[1][1:]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("(step + 1) % 4", "(total := step + 1) % 4", "`total` is changed"),
        ("for step, batch in enumerate(loader):", "step = 0\nfor batch in loader:\n    step += 1", "`step` is changed"),
        ("model = DDP(", "from torch.distributed.fsdp import FSDP\nmodel = FSDP(", "plain DDP"),
        (
            "    loss.backward()\n",
            "    loss.backward()\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
            "gradients of every micro-step",
        ),
        ("DDP(torch.nn.Linear(8, 1))", "torch.compile(DDP(torch.nn.Linear(8, 1)))", "plain DDP"),
    ],
)
def test_where_it_cannot_be_told_early_the_loop_stays(job: MakeJob, before: str, after: str, reason: str) -> None:
    assert before in PROGRAM
    assert reason in job({"train.py": PROGRAM.replace(before, after)}).refusal("GPU353")


def test_clipping_what_was_exchanged_is_no_obstacle(job: MakeJob) -> None:
    clip = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    made = job({"train.py": PROGRAM.replace("        optimizer.step()\n", f"{clip}        optimizer.step()\n")})
    assert made.repair("GPU353") == 1


REDUCED = PROGRAM.replace("range(12)", "range(60)").replace(
    "        optimizer.zero_grad()\n",
    """\
        optimizer.zero_grad()
    shown = loss.detach().clone()
    dist.all_reduce(shown)
    if dist.get_rank() == 0:
        print(step, float(shown), flush=True)
""",
)
"""The same with a loss that is reduced over the processes to be printed."""


def test_the_reduced_loss_of_every_fiftieth_step_is_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": REDUCED})
    assert made.repair("GPU354") == 1
    printed = made.outputs({"before.py": REDUCED, "after.py": made.text("train.py")}, ranks=2)
    before = printed["before.py"].splitlines()
    assert len(before) == 60
    assert printed["after.py"].splitlines() == before[::50]


@pytest.mark.parametrize(
    ("wrapped", "reason"),
    [
        ("DDP(net) if args.ddp else torch.nn.DataParallel(net)", "`DataParallel` may wrap the model"),
        ("DDP(net) if args.ddp else FSDP(net)", "under FSDP it increases memory use"),
        ("torch.compile(DDP(net))", "the module compiles its models"),
    ],
)
def test_fsdp_is_named_only_where_it_may_wrap_the_model(job: MakeJob, wrapped: str, reason: str) -> None:
    program = f"""\
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.nn.parallel import DistributedDataParallel as DDP

model = {wrapped}
for step, batch in enumerate(loader):
    loss = model(batch.cuda()).square().mean() / 4
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
    (result,) = job({"train.py": program}).scan("GPU353")
    assert isinstance(result.fix, Declined)
    assert result.fix.reason.endswith(reason)
