"""Scripts that no scheduler runs: a stage before one only helps where it holds GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main
from gpulint.fix import Declined

MakeJob = Callable[..., Any]

PROGRAM = "import torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\nmodel(x).backward()\n"
STEPS = {
    "GPU331": "gdown --id 1abc -O set.zip\nunzip set.zip -d data\n",
    "GPU332": "aws s3 sync s3://bucket/set set\n",
    "GPU401": "pip install -r requirements.txt\n",
}


def _offers(job: MakeJob, code: str, script: str, **others: str) -> list[object]:
    named = {name.replace("_", "."): text for name, text in others.items()}
    made = job({"train.py": PROGRAM, "requirements.txt": "einops\n", "run.sh": script, **named})
    return [result.fix for result in made.scan(code) if result.finding.path.name == "run.sh"]


@pytest.mark.parametrize("code", STEPS)
@pytest.mark.parametrize("start", ["python", "CUDA_VISIBLE_DEVICES=0 python", "torchrun --nproc_per_node=4"])
def test_a_script_of_a_machine_that_is_always_there_stays_whole(job: MakeJob, code: str, start: str) -> None:
    offers = _offers(job, code, f"#!/bin/bash\n{STEPS[code]}{start} train.py\n")
    assert all(isinstance(offer, Declined) for offer in offers), offers
    assert code == "GPU401" or all("nothing says that GPUs are held" in offer.reason for offer in offers)  # type: ignore[attr-defined]


@pytest.mark.parametrize("submit", ["sbatch --gres=gpu:4 run.sh", "sbatch -G 1 run.sh"])
def test_a_script_that_another_one_submits_is_split(job: MakeJob, submit: str) -> None:
    script = f"#!/bin/bash\n{STEPS['GPU331']}python train.py\n"
    (offer,) = _offers(job, "GPU331", script, submit_sh=f"#!/bin/bash\n{submit}\n")
    assert not isinstance(offer, Declined), offer.reason
    assert "run_prepare.sh" in [new.path.name for new in offer.files]  # type: ignore[attr-defined]


def test_settings_that_state_gpus_count(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{STEPS['GPU331']}python train.py\n")
    for settings, kept in (("", False), ("gpus-per-node = 4\n", True)):
        (tmp_path / "gpulint.toml").write_text(settings)
        main(["fix", "--diff", "--unsafe-fixes", "--impact", "low", "--select", "GPU331", str(tmp_path)])
        assert ("run_prepare.sh" in capfd.readouterr().out) is kept
