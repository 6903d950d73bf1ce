"""``gpulint estimate -- python train.py``: scripts that know nothing of the estimator."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gpulint.cli import main

pytest.importorskip("torch")

TRAIN = """
    import argparse, torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = torch.utils.data.TensorDataset(torch.randn(512, 64), torch.randint(0, 10, (512,)))
    loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    while True:
        for x, y in loader:
            x, y = x.to(device), y.cuda()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            print("loss", loss.item())
        torch.save(model.state_dict(), "model.pt")
"""


def write(folder: Path, text: str) -> str:
    path = folder / "train.py"
    path.write_text(dedent(text))
    return str(path)


def estimated(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["estimate", "--gpu", "A100-40GB", "--output-format", "json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_script_is_stopped_after_its_steps_and_its_output_is_not_in_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = estimated(capsys, "--", "python", write(tmp_path, TRAIN), "--batch-size", "32")
    assert found["batch_size"] == 32
    parameters = 4 * (64 * 256 + 256 + 256 * 10 + 10)
    assert parameters <= found["by_category"]["parameters"] <= parameters + 4 * 512
    assert found["step_seconds"]["low"] < found["step_seconds"]["mid"] < found["step_seconds"]["high"]
    assert any("train.py:20" in note for note in found["notes"])
    assert not (tmp_path / "model.pt").exists()


def test_a_script_needs_what_its_factory_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factory = tmp_path / "factory.py"
    factory.write_text(
        "from torch import nn\ndef build():\n"
        "    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))\n"
    )
    script = estimated(capsys, "--", "python", write(tmp_path, TRAIN), "--batch-size", "64")
    built = estimated(capsys, f"{factory}:build", "--input", "64", "--batch-size", "64")
    assert script["reserved_bytes"] == built["reserved_bytes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ValueError('no such model')", "train.py:1): ValueError: no such model"),
        ("print('nothing')", "ended without an optimizer step"),
        ("open('missing.csv')", "FileNotFoundError"),
        ("import os; os._exit(7)", "ended its process with exit code 7"),
    ],
)
def test_what_keeps_a_script_from_training_is_one_line(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", "--", "python", write(tmp_path, text)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_script_that_never_steps_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--time-limit", "8", "--", "python", write(tmp_path, "while True: pass")]) == 2
    assert "within 8 s" in capsys.readouterr().err
