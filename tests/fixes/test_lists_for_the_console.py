"""Lists of a script that people may plot in the console afterwards keep their numbers, also if no code reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
from net import net, optimizer, loader, criterion

{above}
losses = []

for epoch in range(10):
    for images, labels in loader:
        loss = criterion(net(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        {beside}
        losses.append(loss.item())
    print(epoch)

torch.save(net.state_dict(), "net.pt")
"""
HEADER = '# -*- coding: utf-8 -*-\n"""\nCreated on Sun Apr 28 18:07:40 2019\n\n@author: someone\n"""\n'
KEPT = PROGRAM.replace("loss.item()", "loss.detach().clone()").replace(
    "    print(epoch)\n", "    print(epoch)\nlosses[:] = map(float, losses)\n"
)


@pytest.mark.parametrize(
    ("header", "above", "beside"),
    [
        ("", "# the losses", "# save the losses for plotting"),
        ("", "# Losses, to visualise them", "# one more"),
        (HEADER, "# the losses", "# one more"),
        ("# %%\n", "# the losses", "# one more"),
    ],
)
def test_a_list_that_may_be_plotted_is_kept(header: str, above: str, beside: str, job: MakeJob) -> None:
    text = header + PROGRAM.format(above=above, beside=beside)
    found = job({"train.py": text})
    assert found.repair("GPU305", unsafe=False) == 0
    assert found.repair("GPU305") == 1
    assert found.text("train.py") == header + KEPT.format(above=above, beside=beside)


@pytest.mark.parametrize(
    ("above", "beside"),
    [("# the losses", "# one more"), ("# plot at the end\n\n# the losses", "# one more")],
)
def test_a_list_that_nothing_reads_goes(above: str, beside: str, job: MakeJob) -> None:
    (made,) = (result.fix for result in job({"train.py": PROGRAM.format(above=above, beside=beside)}).scan("GPU305"))
    assert isinstance(made, Fix) and "which nothing reads" in made.description


def test_a_list_of_a_function_goes_whatever_it_is_for(job: MakeJob) -> None:
    text = PROGRAM.format(above="# for plotting", beside="# for plotting")
    head, _, body = text.partition("# for plotting")
    lines = "\n".join(f"    {line}" if line else "" for line in ("# for plotting" + body).splitlines())
    program = f"{head}def train():\n{lines}\n\n\ntrain()\n"
    (made,) = (result.fix for result in job({"train.py": program}).scan("GPU305"))
    assert isinstance(made, Fix) and "which nothing reads" in made.description
