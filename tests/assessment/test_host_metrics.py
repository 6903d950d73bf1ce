"""Metrics that libraries of the host compute in each step: the finding names them, for their work costs most."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.cli import main
from gpulint.report import Result
from tests.assessment.scans import scan

PROGRAM = """\
import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn import metrics
from sklearn.metrics import accuracy_score, jaccard_score
from torchmetrics.functional import jaccard_index

from net import Net


def agreement(predicted, target):
    return accuracy_score(target.reshape(-1), predicted.reshape(-1))


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    kept = []
    for step, (images, masks) in enumerate(loader):
        images, masks = images.cuda(), masks.cuda()
        output = model(images)
        for j in range(masks.shape[0]):
            {metric}
        loss = (output - masks).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    {after}
    with torch.no_grad():
        for images, masks in validation:
            output = model(images.cuda())
            for k in range(masks.shape[0]):
                total += jaccard_score(output[k].argmax(0).cpu().numpy(), masks[k].numpy())
"""
JACCARD = "scores.append(jaccard_score(masks[j].cpu().numpy(), output[j].argmax(0).cpu().numpy()))"


def _found(folder: Path, metric: str = JACCARD, after: str = "pass") -> Result:
    text = PROGRAM.format(metric=metric, after=after)
    results = scan(folder, {"net.py": "", "train.py": text}).results
    line = text[: text.index("range(masks")].count("\n") + 2
    return next(one for one in results if one.finding.rule.code == "GPU305" and one.finding.span.line == line)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (JACCARD, "jaccard_score"),
        ("scores.append(metrics.f1_score(masks[j].cpu(), output[j].cpu() > 0))", "f1_score"),
        ("row = output[j].detach().cpu().numpy(); scores.append(spearmanr(row, row[::-1])[0])", "spearmanr"),
        ("scores.append(agreement(output[j].cpu().numpy(), masks[j].cpu().numpy()))", "agreement"),
    ],
)
def test_a_metric_on_the_host_is_named(tmp_path: Path, metric: str, name: str) -> None:
    found = _found(tmp_path, metric).finding
    assert found.message.endswith(f"on every training iteration, which runs {name}() on the CPU in an inner loop")
    assert found.help.startswith(f"compute `{name}` every N iterations, on the GPU (`torchmetrics`), or after")


@pytest.mark.parametrize(
    ("metric", "after"),
    [
        ("scores.append(output[j].mean().item())", "pass"),
        ("scores.append(np.sum(output[j].detach().cpu().numpy()))", "pass"),
        ("kept.append(output[j].detach().cpu().numpy())", "scores.append(accuracy_score(names, kept))"),
        ("scores.append(jaccard_index(output[j], masks[j], 'binary').item())", "pass"),
    ],
)
def test_other_reads_are_told_as_before(tmp_path: Path, metric: str, after: str) -> None:
    found = _found(tmp_path, metric, after).finding
    assert found.message.endswith("on every training iteration")
    assert "torchmetrics" not in found.help


def test_a_fix_of_the_copies_says_that_the_metric_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metric = "z = jaccard_score(masks[j].flatten().cpu().detach().numpy(), binary[j])"
    (tmp_path / "net.py").touch()
    (tmp_path / "train.py").write_text(PROGRAM.format(metric=metric, after="pass"))
    main(["scan", "--no-cache", "--select", "GPU305", "--output-format", "json", str(tmp_path)])
    assert "`jaccard_score` runs on the CPU for each of them as before" in capsys.readouterr().out


def test_lines_of_another_loop_are_not_counted(tmp_path: Path) -> None:
    found = _found(tmp_path).finding
    assert found.impact.level.name.lower() == "medium"
    below = PROGRAM[: PROGRAM.index("for images, masks in validation")].count("\n")
    named = [place.span.line for place in found.related]
    assert all(line <= below for line in named), named
    assert "includes" not in found.impact.basis
