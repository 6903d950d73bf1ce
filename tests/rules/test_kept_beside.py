"""What findings of totals that keep graphs say of other values that keep the same graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.fix import Fix, Safety
from gpulint.project import Project
from gpulint.report import Result
from gpulint.selection import select

LOADED = plugins.load()
STEP = """\
import torch


def train(loader, model, optimizer, criterion):
    total, parts, outputs, features = 0, {{}}, [], []
    for x, y in loader:
        out, inner = model(x.cuda())
        term = criterion(out, y.cuda())
        loss = 0
        loss += term
        {}
        total += loss
        loss.backward()
        optimizer.step()
    {}
    return total
"""


def _result(folder: Path, text: str) -> Result:
    path = folder / "train.py"
    path.write_text(text)
    project = Project(folder, [path], Config(base=folder))
    (found,) = engine.run(project, [path], select(LOADED.rules, ["GPU204"], (), ()), fixers=LOADED.fixers).results
    return found


@pytest.mark.parametrize(
    ("keeps", "after", "notes", "safe"),
    [
        ("pass", "", [], True),
        ("parts['a'] = parts.get('a', 0) + term.item()", "", [], True),
        ("features.append(x.shape)", "", [], True),
        ("parts['a'] += term", "", ["'term', which is kept here as well, has the same graph"], True),
        (
            "features.append(inner)",
            "torch.cat(features)",
            ["'inner', which is kept here as well, has the same graph"],
            True,
        ),
        ("features.append(inner)", "", ["'inner', which is kept here as well, may have the same graph"], False),
        (
            "outputs.append(out.logits)",
            "",
            ["'out.logits', which is kept here as well, may have the same graph"],
            False,
        ),
        (
            "outputs.append(out['logits'])",
            "torch.stack(outputs)",
            ["\"out['logits']\", which is kept here as well, has the same graph"],
            True,
        ),
        (
            "outputs.append(term)",
            "sum(outputs).backward()",
            ["'term', which is kept here as well, may have the same graph"],
            False,
        ),
        ("outputs.append(y)", "", [], True),
    ],
)
def test_what_keeps_the_same_graph_is_named_and_detached_or_the_fix_is_unsafe(
    tmp_path: Path, keeps: str, after: str, notes: list[str], safe: bool
) -> None:
    result = _result(tmp_path, STEP.format(keeps, after))
    said = [place.message for place in result.finding.related if "as well" in place.message]
    assert said == notes
    assert ("detach the other values" in result.finding.help) is bool(notes)
    assert isinstance(result.fix, Fix)
    assert (result.fix.safety is Safety.SAFE) is safe
    assert len(result.fix.edits) == 1 + (safe and bool(notes))
    assert safe or "may hold the same graph" in result.fix.description


TWO_LOSSES = """\
import torch


def train(loader, model, critic, optimizers, criterion, weight):
    total, terms, real_total, last = 0, 0, 0, 0
    for x, y in loader:
        real = criterion(critic(x.cuda()), y.cuda())
        critic_loss = real + criterion(critic(model(x.cuda()).detach()), y.cuda())
        critic_loss.backward()
        optimizers[0].step()
        pixels = criterion(model(x.cuda()), y.cuda())
        shapes = weight * pixels + 0.1 * criterion(model(y.cuda()), x.cuda())
        both = pixels + 0.005 * shapes
        loss = weight * both
        loss.backward()
        optimizers[1].step()
        total += loss
        {}
    return total
"""


@pytest.mark.parametrize(
    ("keeps", "notes"),
    [
        ("last += real.item()", []),
        ("last = real", []),
        ("terms += both", ["'both', which is kept here as well, has the same graph"]),
        ("terms += pixels", ["'pixels', which is kept here as well, has the same graph"]),
        ("real_total += real", ["'real', which is kept here as well, has the graph of another loss"]),
        ("last += len(real)", []),
    ],
)
def test_all_sums_of_a_loop_are_detached_together(tmp_path: Path, keeps: str, notes: list[str]) -> None:
    result = _result(tmp_path, TWO_LOSSES.format(keeps))
    assert [place.message for place in result.finding.related if "as well" in place.message] == notes
    assert isinstance(result.fix, Fix)
    assert result.fix.safety is Safety.SAFE
    assert len(result.fix.edits) == 1 + len(notes)
