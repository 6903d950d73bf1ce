"""The verdict on jobs whose waste is known, each a real program on a GPU that it plays itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("psutil")
pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
pytest.importorskip("torch")
if not os.environ.get("GPULINT_SCENARIOS"):
    pytest.skip("programs that run in real time; set GPULINT_SCENARIOS=1 on a quiet machine", allow_module_level=True)
if shutil.which("gcc") is None:
    pytest.skip("gcc, which builds the fake NVML, is not installed", allow_module_level=True)

from tests.probe.scenarios.running import HERE, Scenario, answer, run, scenarios
from tests.probe.scripted import build_nvml

OTHERS = (
    "blind.toml",
    "blind2.toml",
    "blind3.toml",
    "blind4.toml",
    "blind5.toml",
    "blind6.toml",
    "further.toml",
    "further2.toml",
)
ALL = [*scenarios(), *(scenario for name in OTHERS for scenario in scenarios(HERE / name))]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_the_verdict_is_the_truth(scenario: Scenario, library: Path, tmp_path: Path) -> None:
    analysis = run(scenario, library, tmp_path)
    assert answer(analysis) == (scenario.missed or scenario.truth), [loss.sentence for loss in analysis.losses]
