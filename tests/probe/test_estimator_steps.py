"""Step times: what makes a step longer on which card, and what a megatron layout adds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main

torch = pytest.importorskip("torch")


@pytest.fixture
def blocks(tmp_path: Path) -> str:
    path = tmp_path / "blocks.py"
    path.write_text(
        "from torch import nn\n"
        "def mish(): return nn.Sequential(nn.Linear(512, 512), nn.Mish(), nn.Linear(512, 512))\n"
        "def silu(): return nn.Sequential(nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 512))\n"
        "def wide(): return nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(6)))\n"
        "def pair(): return nn.Linear(16, 1024), nn.Linear(64, 2048)\n"
        "def compiled():\n    import torch\n    return torch.compile(nn.Linear(16, 16))\n"
    )
    return str(path)


def estimated(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["estimate", *arguments, "--output-format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_mish_needs_the_memory_of_other_activations(blocks: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--input", "512x512", "--batch-size", "64", "--loss", "mean")
    mish, silu = (estimated(capsys, f"{blocks}:{name}", *options) for name in ("mish", "silu"))
    assert mish["allocated_bytes"] == silu["allocated_bytes"]


def test_faster_cards_and_lower_types_take_shorter_steps(blocks: str, capsys: pytest.CaptureFixture[str]) -> None:
    def step(gpu: str, precision: str = "fp32") -> float:
        options = ("--input", "2048", "--batch-size", "4096", "--loss", "mean", "--precision", precision)
        return float(estimated(capsys, f"{blocks}:wide", "--gpu", gpu, *options)["step_seconds"]["mid"])

    assert step("T4") > step("A100-40GB") > step("H100")
    assert step("A100-40GB", "bf16") < step("A100-40GB")


def test_small_batches_leave_the_gpu_waiting_for_launches(blocks: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = (f"{blocks}:wide", "--gpu", "H100", "--input", "2048", "--loss", "mean", "--precision", "bf16-true")
    small, large = (estimated(capsys, *options, "--batch-size", size) for size in ("4", "16384"))
    assert small["gpu_busy"] < large["gpu_busy"]
    assert small["sm_activity"] < large["sm_activity"]


def test_a_card_of_which_only_the_memory_is_known_has_no_step_time(
    blocks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = estimated(capsys, f"{blocks}:wide", "--memory", "24GiB", "--input", "2048", "--loss", "mean")
    assert found["step_seconds"] is None


def test_pipelines_have_bubbles_and_hold_more_micro_batches(capsys: pytest.CaptureFixture[str]) -> None:
    shape = "megatron:hidden=512,layers=4,heads=8,seq=256,vocab=1024,pp=2,mbs=4"
    one = estimated(capsys, f"{shape},gbs=4", "--gpu", "A100", "--precision", "fp16-amp")
    eight = estimated(capsys, f"{shape},gbs=32", "--gpu", "A100", "--precision", "fp16-amp")
    assert eight["samples_per_second"] > one["samples_per_second"]
    assert eight["by_category"]["activations"] > one["by_category"]["activations"]


def test_a_wrong_layout_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "megatron:hidden=100,heads=3"]) == 2
    assert "must divide" in capsys.readouterr().err


def test_several_models_are_added_up(blocks: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = estimated(capsys, f"{blocks}:pair", "--input", "16", "--input", "64")
    assert found["by_category"]["parameters"] == 4 * (17 * 1024 + 65 * 2048)


def test_compiled_models_are_said_to_be_estimated_as_eager(blocks: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = estimated(capsys, f"{blocks}:compiled", "--input", "16", "--loss", "mean")
    assert any(note.startswith("torch.compile") for note in found["notes"])


def test_the_context_follows_the_cuda_version(blocks: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = (f"{blocks}:wide", "--input", "2048", "--loss", "mean", "--gpu", "A100")
    old, new = (estimated(capsys, *options, "--cuda", version) for version in ("11.3", "12.4"))
    assert old["context_bytes"] > new["context_bytes"]
    assert old["peak_bytes"] == new["peak_bytes"]
    assert "lazy loading" in new["context_source"]
