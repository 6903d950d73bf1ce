"""``--estimate``: GPU201 and GPU202 say which batch fits, and ``gpulint fix`` writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from gpulint.cli import main

MODEL = """\
import torch

def build():
    layers = [torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)]
    return torch.nn.Sequential(*layers)
"""
PROGRAM = """\
import torch
from torch.utils.data import DataLoader
from model import build

train_loader = DataLoader(train_set, batch_size=16, num_workers=4, pin_memory=True)
val_loader = DataLoader(val_set, batch_size=16, num_workers=4, pin_memory=True)
model = build().cuda()
for x, y in train_loader:
    loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
with torch.no_grad():
    for x, y in val_loader:
        metric.update(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
"""
SETTINGS = """\
[estimate]
target = "model.py:build"
memory = "2GiB"
input = "3x64x64"
loss = "cross-entropy"
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "gpulint.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def batches(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, object]]:
    main(["scan", "--select", "GPU201,GPU202", "--output-format", "json", "--exit-zero", *arguments])
    return {finding["code"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_findings_say_what_fits(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["estimate", "model.py:build", "--memory", "2GiB", "--input", "3x64x64", "--loss", "cross-entropy",
          "--suggest-batch", "--output-format", "json"])  # fmt: skip
    truth = json.loads(capsys.readouterr().out)
    found = batches(capsys, "--estimate")
    assert f"{truth['train_batch']} samples fit" in str(found["GPU201"]["help"])
    assert f"{truth['eval_batch']} samples fit" in str(found["GPU202"]["help"])


def test_the_factory_may_be_named_on_the_command_line(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "gpulint.toml").unlink()
    found = batches(capsys, "--estimate-with", "model.py:build --memory 2GiB --input 3x64x64 --loss cross-entropy")
    assert re.search(r"\d+ samples fit", str(found["GPU201"]["help"]))


def test_fix_writes_a_batch_that_fits_and_is_done_then(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--select", "GPU201,GPU202", "--estimate", "--unsafe-fixes"]
    assert main(["fix", "--apply", "--allow-no-vcs", "--allow-dirty", *arguments]) == 0
    text = (job / "train.py").read_text()
    sizes = [int(line.split("batch_size=")[1].split(",")[0]) for line in text.splitlines() if "batch_size=" in line]
    capsys.readouterr()
    main(["estimate", "model.py:build", "--memory", "2GiB", "--input", "3x64x64", "--loss", "cross-entropy",
          "--suggest-batch", "--output-format", "json"])  # fmt: skip
    truth = json.loads(capsys.readouterr().out)
    assert 16 < sizes[0] <= truth["train_batch"]
    assert sizes[0] < sizes[1] <= truth["eval_batch"]
    assert batches(capsys, "--estimate") == {}


def test_nothing_is_run_unless_asked_for(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "model.py").write_text("open('was_run', 'w')\n" + MODEL)
    assert not re.search(r"\d+ samples fit", str(batches(capsys)["GPU201"]["help"]))
    assert not (job / "was_run").exists()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (SETTINGS.replace("build", "missing"), "has no 'missing'"),
        (SETTINGS.replace('memory = "2GiB"\n', ""), "needs a card"),
        (SETTINGS.replace("memory", "memroy"), "unknown option '--memroy'; did you mean '--memory'?"),
    ],
)
def test_a_factory_that_fails_costs_no_finding(
    job: Path, capsys: pytest.CaptureFixture[str], settings: str, reason: str
) -> None:
    (job / "gpulint.toml").write_text(settings)
    code = main(["scan", "--select", "GPU201", "--estimate", "--output-format", "json"])
    output = capsys.readouterr()
    assert code == 1
    assert reason in output.err and "gpulint.toml" in output.err
    assert [finding["code"] for finding in json.loads(output.out)] == ["GPU201"]


def test_the_flag_needs_a_factory(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "gpulint.toml").write_text("")
    assert main(["scan", "--estimate"]) == 2
    assert "[tool.gpulint.estimate]" in capsys.readouterr().err


BLOCKS = """\
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))

def build():
    return torch.nn.Sequential(*[Block() for _ in range(12)])
"""
LARGE = """\
import torch
from model import build
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("google/gemma-2b").cuda()
for batch in DataLoader(data, batch_size=2):
    model(**batch).loss.backward()
    optimizer.step()
"""


def test_activation_checkpointing_says_what_it_gains(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "model.py").write_text(BLOCKS)
    (job / "train.py").write_text(LARGE)
    (job / "gpulint.toml").write_text(
        '[estimate]\ntarget = "model.py:build"\nmemory = "2GiB"\ninput = "64x256"\nloss = "mean"\n'
    )
    main(["scan", "--select", "GPU206", "--output-format", "json", "--exit-zero", "--estimate"])
    (finding,) = json.loads(capsys.readouterr().out)
    found = re.search(r"(\d+) samples would fit .* instead of (\d+)", finding["help"])
    assert found is not None and int(found[1]) > int(found[2])
