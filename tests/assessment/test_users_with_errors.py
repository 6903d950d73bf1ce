"""Functions that only files with a syntax error use cost little: these cannot run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.cli import main
from gpulint.config import Config
from gpulint.project import Project

TOOLS = """\
import torch
from torch import nn


def score(model, test_loader):
    model.eval()
    total = 0.0
    device = next(model.parameters()).device
    for index, (images, labels) in enumerate(test_loader):
        output = model(images.to(device))
        total += nn.functional.cross_entropy(output, labels.to(device)).item()
    return total / len(test_loader)


def kept(model, test_loader):
    model.eval()
    device, found = next(model.parameters()).device, []
    for index, (images, labels) in enumerate(test_loader):
        found.append(model(images.to(device)).cpu())
    return torch.cat(found)


def described(model):
    sizes = [parameter.numel() for parameter in model.parameters()]
    print("parameters:", sum(sizes))
    print("largest:", max(sizes))
    return sorted(sizes)
"""
MAIN = """\
from tools import score
from net import Net
{line}
model = Net().cuda()
for epoch in range(90):
    for images, labels in loader:
        model(images.cuda()).sum().backward()
        optimizer.step()
    print(score(model, test_loader))
"""
SAID = "only a file with a syntax error uses it"


def _tools(line: str, more: dict[str, str], tmp_path: Path) -> bool:
    for name, text in {"net.py": "", "tools.py": TOOLS, "main.py": MAIN.format(line=line), **more}.items():
        (tmp_path / name).write_text(text)
    paths = sorted(tmp_path.glob("*.py"))
    project = Project(tmp_path, paths, Config(base=tmp_path))
    rules = [rule for rule in plugins.load().rules if rule.code == "GPU203"]
    (found,) = [one.finding for one in engine.run(project, paths, rules).results if one.finding.span.line == 9]
    return SAID in found.impact.basis


@pytest.mark.parametrize(
    ("line", "more", "said"),
    [
        ("", {}, False),
        ("net = Net(size=)", {}, True),
        ("print 'scores'", {}, False),  # of an older Python
        ("<<<<<<< HEAD\na = 1\n=======\na = 2\n>>>>>>> b", {}, False),  # somebody is about to repair it
        ("net = Net({{ size }}, =)", {}, False),  # of a template
        ("!pip install timm", {}, False),  # for a notebook
        ("net = Net(size=)", {"other.py": MAIN.format(line="")}, False),
    ],
)
def test_a_function_that_only_a_broken_file_uses(tmp_path: Path, line: str, more: dict[str, str], said: bool) -> None:
    assert _tools(line, more, tmp_path) is said


def test_copies_are_those_in_the_function_of_the_same_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    use = "from {module} import kept, score\n" + MAIN.format(line="print(kept(model, test_loader))").partition("\n")[2]
    files = {
        "net.py": "",
        "tools.py": TOOLS,
        "more.py": "import os\n\nSEED = 1\n" + TOOLS,
        "main.py": use.format(module="tools"),
        "other.py": use.format(module="more"),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    main(["scan", "--isolated", "--no-cache", "--select", "GPU203", "--output-format", "json", str(tmp_path)])
    copies = {
        (finding["line"], place["line"])
        for finding in json.loads(capsys.readouterr().out)
        for place in finding["related"]
        if place["message"] == "the same code"
    }
    assert copies == {(12, 9), (21, 18)}
