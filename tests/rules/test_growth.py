"""The work of a scan is in proportion to its input: counted in calls, as clocks would depend on the machine."""

from __future__ import annotations

import cProfile
import json
import pstats
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulint.cli import main

SETUP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __init__(self, paths): self.paths = paths
    def __len__(self): return len(self.paths)
    def __getitem__(self, index): return torch.load(self.paths[index])

model = nn.Linear(10, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = Images(["a", "b"])
loader = DataLoader(data, batch_size=8)
"""
STEP = """\
for batch in loader:
    batch = batch.cuda()
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
"""
REPEATED = {
    "loops": (SETUP, "for x{n} in loader:\n    y = x{n}.cuda()\n"),
    "training loops": (SETUP, STEP),
    "loaders with loops": (SETUP, "l{n} = DataLoader(data, 8)\nfor b in l{n}:\n    model(b.cuda()).backward()\n"),
    "rebound loaders": (
        SETUP,
        "loader = DataLoader(data, 8)\ndef f{n}():\n    for b in loader:\n        model(b.cuda())\n",
    ),
    "loaders by key": (SETUP, "d['k{n}'] = DataLoader(data, 8)\nfor b in d['k{n}']:\n    model(b.cuda())\n"),
    "data sets": (
        SETUP,
        "class D{n}(Dataset):\n    def __getitem__(self, i): return 1\nl{n} = DataLoader(D{n}(), 8)\n",
    ),
    "items": (SETUP + STEP, "    print(loss.item())\n"),
    "tests on losses": (SETUP + STEP, "    if loss > {n}:\n        best = loss.item()\n"),
    "saves": (SETUP + STEP, "    torch.save(model.state_dict(), 'm{n}.pt')\n"),
    "lists of losses": (SETUP + STEP, "    l{n}.append(loss)\n"),
    "functions with loops": (
        SETUP,
        "def f{n}(l):\n    for b in l:\n        model(b.cuda()).backward()\n\nf{n}(loader)\n",
    ),
    "evaluations": (SETUP, "model.eval()\nfor batch in loader:\n    y = model(batch.cuda())\nmodel.train()\n"),
    "parallel models": (SETUP, "m{n} = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)\n"),
    "submitted functions": (
        "import modal\nimport subprocess\napp = modal.App()\n",
        "@app.function(gpu='A100')\ndef f{n}():\n    subprocess.run(['python', 'train.py', '--n', '{n}'])\n",
    ),
    "executors of one name": (
        "import submitit\nfrom train import main\n",
        "executor = submitit.AutoExecutor('logs')\nn = {n}\noptions = dict(gpus_per_node=n)\n"
        "executor.update_parameters(**options)\nexecutor.submit(main, n)\n",
    ),
    "estimators in functions": (
        "import argparse\nfrom sagemaker.pytorch import PyTorch\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--kind', default='ml.p3.2xlarge')\n",
        "def submit{n}():\n    args = parser.parse_args()\n    kind = args.kind\n"
        "    PyTorch('train.py', 'src', instance_type=kind, hyperparameters=dict(n={n})).fit()\n",
    ),
    "calls of a function by itself": (
        SETUP + "def start():\n    make(data)\n\ndef make(d):\n    loader = DataLoader(d, 8)\n"
        "    for x in loader:\n        model(x.cuda()).sum().backward()\n        optimizer.step()\n",
        "    make(d)\n",
    ),
    "calls of a collate function by itself": (
        SETUP
        + "def start():\n    for x in DataLoader(data, 8, collate_fn=put):\n        model(x.cuda()).sum().backward()\n"
        "        optimizer.step()\n\ndef put(samples):\n",
        "    put(samples)\n",
    ),
    "ignored loaders": (SETUP + STEP, "l{n} = DataLoader(data)  # gpulint: ignore[GPU303]\n"),
}


def python(folder: Path, kind: str, size: int) -> None:
    head, unit = REPEATED[kind]
    (folder / "train.py").write_text(head + "".join(unit.replace("{n}", str(number)) for number in range(size)))


def calls(folder: Path, *arguments: str) -> int:
    """How many functions a command calls."""
    profile = cProfile.Profile()
    code = profile.runcall(main, [*arguments, "--isolated", str(folder)])
    assert code in (0, 1)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


def growth(
    tmp_path: Path, *arguments: str, write: Callable[[Path, str, int], None] = python, kind: str = "loops"
) -> float:
    """How many times the work of a command multiplies when the input does so by three."""
    counts = []
    for number, size in enumerate((1, 1, 40, 120)):  # the first run imports rules and reporters
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "job.sbatch").write_text("#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n")
        write(folder, kind, size)
        counts.append(calls(folder, *arguments))
    _, start, before, after = counts
    return (after - start) / (before - start)


@pytest.mark.parametrize("kind", REPEATED)
def test_python(tmp_path: Path, kind: str) -> None:
    assert growth(tmp_path, "scan", "--no-cache", kind=kind) < 4.5


def test_look_ups_in_a_loop(tmp_path: Path) -> None:
    """Each level of a walk through a configuration may come from any of the look-ups."""
    walks = "".join(f"    if test({n}):\n        config = config['k{n}']\n" for n in range(12))
    (tmp_path / "config.yaml").write_text("size: 3\n")
    (tmp_path / "train.py").write_text(
        f"import yaml\n{SETUP}config = yaml.safe_load(open('config.yaml'))\nwhile steps():\n{walks}"
        f"loader = DataLoader(data, batch_size=config['size'])\n{STEP}"
    )
    assert calls(tmp_path, "scan", "--no-cache") < 5_000_000


def cells(folder: Path, kind: str, size: int) -> None:
    def cell(code: str) -> dict[str, object]:
        return {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": code}

    head, unit = REPEATED[kind]
    content = [cell(head), *(cell(unit.replace("{n}", str(number))) for number in range(size))]
    notebook = {"cells": content, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "train.ipynb").write_text(json.dumps(notebook))


@pytest.mark.parametrize("kind", ["training loops", "loaders with loops"])
def test_notebooks(tmp_path: Path, kind: str) -> None:
    assert growth(tmp_path, "scan", "--no-cache", write=cells, kind=kind) < 4.5


@pytest.mark.parametrize("form", ["full", "json", "sarif", "github", "rdjson"])
def test_reports_of_many_findings(tmp_path: Path, form: str) -> None:
    assert growth(tmp_path, "scan", "--no-cache", "--output-format", form) < 4.5


def test_repairs_of_many_findings(tmp_path: Path) -> None:
    assert growth(tmp_path, "fix", "--unsafe-fixes") < 4.5


def test_a_suggestion_does_not_quote_a_file(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python(tree, "loops", 2000)
    main(["scan", "--no-cache", "--isolated", "--impact", "low", "--output-format", "rdjson", str(tree)])
    shown = capsys.readouterr().out
    assert shown.count('"message"') > 2000
    assert len(shown) < 100 * (tree / "train.py").stat().st_size


def test_only_bindings_nearby_are_looked_at(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A thousand loaders of one name: each loop still finds the one above it."""
    unit = "loader = DataLoader(data, 8, num_workers={n})\nfor b in loader:\n    model(b.cuda()).backward()\n"
    (tree / "train.py").write_text(SETUP + "".join(unit.replace("{n}", str(n % 2)) for n in range(1000)))
    main(["scan", "--no-cache", "--isolated", "--output-format", "json", "--select", "GPU303", str(tree)])
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 500
