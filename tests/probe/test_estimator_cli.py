"""``gpulint estimate`` as a user meets it: what it prints, returns and refuses."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gpulint_probe  # noqa: E402

FACTORIES = """
import sys
import torch
from torch import nn

class Fails(nn.Module):
    def forward(self, x):
        return x @ torch.zeros(3, 3, device=x.device)

def build(width=64):
    return nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 10))

def with_batch():
    return build(), (torch.zeros(4, 32), torch.zeros(4, dtype=torch.long))

def with_optimizer():
    model = build().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return model, (torch.zeros(4, 32), torch.zeros(4, dtype=torch.long)), optimizer

def legacy():
    model = build()
    model.extra = nn.Parameter(torch.FloatTensor(1000, 1000))
    return model

def huge():
    return nn.Sequential(*(nn.Linear(50000, 50000) for _ in range(12)))

def raises():
    raise ValueError("no such\\nconfiguration")

def nothing():
    return None

def mismatch():
    return nn.Sequential(nn.Linear(32, 8), nn.Linear(9, 4))

def own():
    return nn.Sequential(nn.Linear(32, 32), Fails())

def pretrained():
    torch.hub.load_state_dict_from_url("https://example.org/weights.pth")

number = 3
"""


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "factories.py"
    path.write_text(FACTORIES)
    monkeypatch.delitem(sys.modules, "factories", raising=False)
    return str(path)


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    gpulint_probe.gpulint_commands(parser.add_subparsers(required=True))
    args = parser.parse_args(["estimate", *words])
    return int(args.run(args))


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    command(*words, "--output-format", "json")
    loaded: dict[str, Any] = json.loads(capsys.readouterr().out)
    return loaded


def test_json_has_sizes_and_categories(factories: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, f"{factories}:build", "--input", "32", "--batch-size", "4096")
    assert found["allocated_bytes"] <= found["reserved_bytes"] <= found["device_bytes"]
    assert found["low_bytes"] < found["device_bytes"] < found["high_bytes"]
    assert sum(found["by_category"].values()) == found["allocated_bytes"]
    assert {"parameters", "activations", "optimizer state"} <= set(found["by_category"])


def test_the_table_names_the_peak(factories: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(f"{factories}:build", "--input", "32") == 0
    text = capsys.readouterr().out
    assert "reserved" in text
    assert "Peak: aten." in text


def test_factories_may_return_batch_and_optimizer(factories: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, f"{factories}:with_batch", "--batch-size", "64")["allocated_bytes"] > 0
    found = document(capsys, f"{factories}:with_optimizer")
    assert "optimizer AdamW is the factory's" in found["notes"]
    assert found["by_category"]["optimizer state"] > 0


def test_model_arguments_reach_the_factory(factories: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = document(capsys, f"{factories}:build", "--input", "32")
    large = document(capsys, f"{factories}:build", "--input", "32", "--model-arg", "width=4096")
    assert large["by_category"]["parameters"] > 10 * small["by_category"]["parameters"]


def test_parameters_made_by_the_legacy_constructor_are_counted(
    factories: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert document(capsys, f"{factories}:legacy", "--input", "32")["by_category"]["parameters"] > 4_000_000


def test_fits_or_not_is_the_exit_code(factories: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(f"{factories}:build", "--input", "32", "--gpu", "a100-40gb") == 0
    assert "Fits A100-40GB" in capsys.readouterr().out
    assert command(f"{factories}:huge", "--input", "50000", "--memory", "80GB") == 1
    text = capsys.readouterr().out
    assert "Does not fit" in text
    assert "bf16 would free" in text


def test_suggested_batches_are_in_the_json(factories: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--input", "32", "--memory", "2GiB", "--model-arg", "width=4096", "--suggest-batch")
    found = document(capsys, f"{factories}:build", *words)
    assert found["eval_batch"] > found["train_batch"] > 1000


def test_a_plot_is_written(factories: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert command(f"{factories}:build", "--input", "32", "--plot", str(tmp_path / "memory.svg")) == 0
    assert "activations" in (tmp_path / "memory.svg").read_text()
    assert command(f"{factories}:build", "--input", "32", "--plot", str(tmp_path / "memory.txt")) == 2


@pytest.mark.parametrize("method", ["horus", "deepspeed", "faketensor"])
def test_baselines_answer_in_the_same_command(factories: str, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, f"{factories}:build", "--input", "32", "--method", method)
    assert found["method"] == method
    assert found["device_bytes"] > 0


@pytest.mark.parametrize(
    ("target", "words", "message"),
    [
        ("missing.py:build", (), "no file missing.py"),
        ("{file}:absent", (), "has no 'absent'"),
        ("{file}:number", (), "not a function"),
        ("{file}:raises", (), "raises ValueError: no such"),
        ("{file}:nothing", (), "returns NoneType"),
        ("{file}:pretrained", (), "none are downloaded"),
        ("{file}:build", (), "--input"),
        ("{file}:build", ("--input", "axb"), "is not [name=]"),
        ("{file}:build", ("--input", "0x3"), "size 0"),
        ("{file}:build", ("--input", "33"), "in module '0'"),
        ("{file}:mismatch", ("--input", "32"), "in module '1'"),
        ("{file}:own", ("--input", "32"), "in module '1'"),
        ("{file}:build", ("--input", "32", "--model-arg", "width"), "NAME=VALUE"),
        ("{file}:build", ("--input", "32", "--model-arg", "nope=1"), "TypeError"),
        ("{file}:build", ("--input", "32", "--batch-size", "0"), "at least 1"),
        ("{file}:build", ("--input", "32", "--precision", "fp8"), "--precision"),
        ("{file}:build", ("--input", "32", "--optimizer", "adamx"), "--optimizer"),
        ("{file}:build", ("--input", "32", "--loss", "nll"), "--loss"),
        ("{file}:build", ("--input", "32", "--gpu", "X1"), "--gpu 'X1' is not known"),
        ("{file}:build", ("--input", "32", "--memory", "lots"), "not a memory size"),
        ("{file}:build", ("--input", "32", "--gpus", "4"), "--data-parallel"),
        ("{file}:build", ("--input", "32", "--data-parallel", "zero9", "--gpus", "2"), "not one of"),
        ("{file}:build", ("--input", "32", "--method", "guess"), "--method"),
        ("{file}:build", ("--input", "32", "--method", "gpumemnet"), "--gpumemnet-model"),
        ("{file}:build", ("--input", "32", "--suggest-batch"), "needs a card"),
        ("{file}:build", ("--input", "32", "--activation-checkpointing"), "repeated blocks"),
        ("{file}:build", ("--input", "32", "--context", "much"), "not a memory size"),
        ("build", (), "is not FILE.py:FUNCTION"),
        ("hf:nowhere/config.json", (), "nothing is downloaded"),
        ("no_such_module_x:build", (), "ModuleNotFoundError"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    factories: str, target: str, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(target.replace("{file}", factories), *words) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert len([line for line in error.splitlines() if line.startswith("gpulint: error: ")]) == 1
    assert "Traceback" not in error


def test_the_command_line_is_built_without_torch() -> None:
    program = (
        "import argparse, sys, gpulint_probe\n"
        "gpulint_probe.gpulint_commands(argparse.ArgumentParser().add_subparsers())\n"
        "import gpulint_probe.estimator\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


PARSING = """\
import argparse, sys, torch
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
args = parser.parse_args()
print(sys.argv[0])

def build():
    return torch.nn.Linear(32, args.width)
"""


def test_a_program_that_parses_its_arguments_sees_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(PARSING)
    target = f"{tmp_path / 'train.py'}:build"
    monkeypatch.setattr(sys, "argv", ["gpulint", "estimate", target])
    assert command(target, "--input", "32") == 2
    assert "pass them with --program-args" in capsys.readouterr().err
    assert command(target, "--input", "32", "--program-args", "--width 8") == 0
    assert str(tmp_path / "train.py") in capsys.readouterr().out
    assert sys.argv == ["gpulint", "estimate", target]


def test_precisions_by_pytorch_s_names(factories: str, capsys: pytest.CaptureFixture[str]) -> None:
    reports = set()
    for precision in ("bf16", "bfloat16"):
        assert command(f"{factories}:build", "--input", "32", "--precision", precision) == 0
        reports.add(capsys.readouterr().out)
    assert len(reports) == 1
