"""Programs whose requirements name a build of PyTorch for the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, bases

SAYS = "its requirements name PyTorch for the CPU"


@pytest.mark.parametrize(
    ("files", "low"),
    [
        ({"requirements.txt": "numpy\ntorch==2.1.0+cpu\n"}, True),
        ({"requirements.txt": "--extra-index-url https://download.pytorch.org/whl/cpu\ntorch\n"}, True),
        ({"environment.yml": "dependencies:\n  - pytorch=2.1\n  - cpuonly\n"}, True),
        ({"environment.yml": "dependencies:\n  - pip:\n      - torch==2.1.0+cpu\n"}, True),
        ({"requirements.txt": "torch==2.1.0\n"}, False),
        ({"requirements.txt": "# torch==2.1.0+cpu\ntorch\n"}, False),
        ({"requirements.txt": "torch==2.1.0+cpu; sys_platform == 'darwin'\ntorch==2.1.0\n"}, False),
        ({"requirements.txt": "torch==2.1.0+cpu\nstreamlit\n"}, False),
        ({"requirements-cpu.txt": "torch==2.1.0+cpu\n"}, False),
        ({"requirements.txt": "torch==2.1.0+cpu\n", "requirements-gpu.txt": "torch\n"}, False),
        ({"requirements.txt": "torch==2.1.0+cpu\n", "README.md": "Trained on an RTX 3090.\n"}, False),
        ({"requirements.txt": "torch==2.1.0+cpu\n", "job.sh": "#SBATCH --gres=gpu:1\npython train.py\n"}, False),
    ],
)
def test_a_build_for_the_cpu_leaves_no_gpu_idle(tmp_path: Path, files: dict[str, str], low: bool) -> None:
    (found,) = bases(tmp_path, {"train.py": HEAD + IMAGES + TRAINING, **files}, "GPU303")
    assert (SAYS in found) is low and found.startswith("low") is low
