"""The places that a finding counts are those that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpulint.cli import main
from tests.assessment.scans import scan

HEAD = """\
import torch
from torch.utils.data import DataLoader
from net import Net
model = Net().cuda()
total, top, low, mean = 0.0, 0.0, 0.0, 0.0
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in DataLoader(images_of("train"), batch_size=256, num_workers=0):
    output = model(images.cuda())
    loss = torch.nn.functional.cross_entropy(output, labels.cuda())
"""
READS = """\
    total += loss.item()
    top += output.max().item()
    low += output.min().item()
    mean += output.mean().item()
"""
END = """\
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def named(folder: Path, capsys: pytest.CaptureFixture[str], body: str) -> list[tuple[int, str, str]]:
    """Line, level and impact of the waits."""
    (folder / "net.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    (folder / "train.py").write_text(HEAD + body + "print(total, top, low, mean)\n")
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(folder)])
    found = json.loads(capsys.readouterr().out)
    return [(one["line"], one["impact"]["level"], one["impact"]["basis"]) for one in found]


@pytest.mark.parametrize("last", ["    torch.cuda.synchronize()\n", ""])
def test_a_count_names_its_other_places(tmp_path: Path, capsys: pytest.CaptureFixture[str], last: str) -> None:
    found = named(tmp_path, capsys, READS + END + last)
    counted = [(line, basis) for line, level, basis in found if level != "low"]
    for line, basis in counted:
        count = int(basis.partition(" waits")[0].rpartition(" ")[2])
        lines = {int(number) for number in re.findall(r"\d+", re.sub(r"\d+ (waits|of them)\b", "", basis))}
        assert len(lines | {line}) == count
    assert counted


INNER = """\
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {stays}
    hits = 0
    for scores, label in zip(output, labels):
        hits += scores.argmax().eq(label.cuda()).sum().item()
        mean += scores.max().item()
    top += hits
"""


@pytest.mark.parametrize(
    ("stays", "said"),
    [
        ("total += loss.item(); bar.update(total)", ", line 13 waits in any case (`loss.item()`), also line 17"),
        ("history[name] = loss.item()", ", also lines 13 and 17"),
    ],
)
def test_a_place_that_waits_in_any_case_is_none_to_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stays: str, said: str
) -> None:
    (leading,) = [basis for _, level, basis in named(tmp_path, capsys, INNER.format(stays=stays)) if level != "low"]
    assert leading.endswith(f"3 waits, 2 of them in inner loops{said}")


LOSSES = """\
import torch

class Losses(torch.nn.Module):
    def forward(self, output, labels):
        first = torch.nn.functional.cross_entropy(output, labels)
        second = output.abs().mean()
        total = first + second
        return total, {"first": first.item(), "second": second.item(), "total": total.item()}
"""
LOOP = """\
import torch
from tqdm import tqdm

model, losses = torch.nn.Linear(8, 8).cuda(), Losses().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
average = 0.0
bar = tqdm(loader)
for images, labels in bar:
    output = model(images.cuda())
    loss, parts = losses(output, labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average += loss.item()
    bar.set_postfix({"total": f"{loss.item():.4f}", "first": f"{parts['first']:.4f}"})
"""


def test_places_of_a_notebook_have_a_cell_and_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": text.splitlines(keepends=True)}
        for text in (LOSSES, LOOP)
    ]
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(tmp_path)])
    found = json.loads(capsys.readouterr().out)
    said = "\n".join(f"{one['impact']['basis']} {(one['fix'] or {}).get('description')}" for one in found)
    assert {(one["cell"], one["line"]) for one in found} == {(0, 8), (1, 14), (1, 15)}
    assert "cell 0, line 8 waits as well (`first.item()`)" in said
    assert "together with the fix" in said
    assert not re.findall(r"(?<!cell \d, )\blines? \d", said)
    assert "in any case" not in said  # a fix ends it


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("if chosen > 0:", "`chosen > 0`"),
        ("if not (output.max(1)[1] == labels.cuda()).any():", "`output.max(...)[...] == labels.cuda()`"),
        ("if torch.isnan(torch.cat([output, loss])).sum() != 0:", "`torch.isnan(...).sum() != 0`"),
    ],
)
def test_what_waits_in_any_case_is_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str, said: str
) -> None:
    body = f"""\
    chosen = output.argmax(1).sum()
    total += loss.item()
    {test}
        mean = mean + loss.detach()
{END}"""
    found = named(tmp_path, capsys, body)
    assert any(f"waits in any case ({said})" in basis for _, _, basis in found), found
    assert not any("``" in basis for _, _, basis in found)


PARTS = """\
import torch
from torch.utils.data import DataLoader
from net import Net
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
source = iter(DataLoader(images_of("train"), batch_size=256, num_workers=0))
history = []
for step in range(100000):
    parts = []
    for _ in range(4):
        parts.append(next(source)["labels"].cuda())
    tokens = sum(int((part > 0).sum()) for part in parts)
    total = 0.0
    for part in parts:
        loss = model(part)
        (loss / tokens).backward()
        total += loss.item()
    optimizer.step()
    history.append(total / tokens)
"""


def test_a_count_says_which_line_of_low_impact_it_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    (tmp_path / "train.py").write_text(PARTS)
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(tmp_path)])
    found = [(one["line"], one["impact"]) for one in json.loads(capsys.readouterr().out)]
    assert any("the count includes line 12" in one["basis"] for line, one in found if line == 17), found


BRANCHES = """\
import torch
from net import Net


def clip(model, most):
    norms = []
    for p in model.parameters():
        norms.append(p.grad.norm(2).item())
    return norms


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images in loader:
    loss = model(images.cuda()).mean()
    if scaler is None:
        loss.backward()
        clip(model, 3)
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        {call}
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("clip(model, 3)", ["called from the training loop here", "or here, in another branch"]),
        ("print(step)", ["called from the training loop here"]),
    ],
)
def test_calls_of_several_branches_are_named(tmp_path: Path, call: str, said: list[str]) -> None:
    results = scan(tmp_path, {"net.py": "", "train.py": BRANCHES.format(call=call)}).results
    found = next(one.finding for one in results if "norm(2).item()" in one.finding.message)
    assert [place.message for place in found.related if "here" in place.message] == said
