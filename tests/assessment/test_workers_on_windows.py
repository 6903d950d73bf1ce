"""What a loader without workers costs in a tree that keeps them off on Windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, scan

RESOLVED = """\
import os

def pick_workers(asked):
    if os.name == "nt" and asked > 0:
        return 0
    return asked
"""


def found(folder: Path, files: dict[str, str]) -> str:
    """The level and basis of the only loader without workers of ``train.py``."""
    report = scan(folder, {"net.py": "", "train.py": HEAD + IMAGES + TRAINING, **files})
    results = [one.finding for one in report.results if one.finding.rule.code == "GPU303"]
    (impact,) = (one.impact for one in results if one.path.name == "train.py")
    return f"{impact.level}, {impact.basis}"


@pytest.mark.parametrize(
    "guard",
    [
        RESOLVED,
        "import sys\n\nnum_workers = 0 if sys.platform == 'win32' else 8\n",
        "import platform\n\nif platform.system() == 'Windows':\n    cfg.num_workers = 0\n",
        "import sys\n\nif sys.platform.startswith('win'):\n    options['num_workers'] = 0\n",
        "import os\n\nON_WINDOWS = os.name == 'nt'\noptions = {'num_workers': 0 if ON_WINDOWS else 4}\n",
        "import os\n\ndef count_workers():\n    if os.name != 'nt':\n        return 4\n    return 0\n",
        "import os\n\nloader = make(data, num_workers=0 if os.name == 'nt' else 4)\n",
        "import sys\n\nif sys.platform != 'linux':\n    num_workers: int = 0\n",
    ],
)
def test_a_tree_without_workers_on_windows_has_none_by_choice(tmp_path: Path, guard: str) -> None:
    basis = found(tmp_path, {"tools/setup_data.py": guard})
    assert basis.startswith("low")
    assert "the tree keeps 0 workers on Windows" in basis


@pytest.mark.parametrize(
    "guard",
    [
        "import os\n\nif os.name == 'nt':\n    rank = 0\nnum_workers = 0\n",
        "import os\n\nnum_workers = 4 if os.name == 'nt' else 0\n",
        "import os\n\nif os.name == 'nt':\n    num_workers = 2\n",
        "import os\n\ndef pick_port(workers):\n    if os.name == 'nt':\n        return 0\n    return workers\n",
        "import sys\n\nnum_workers = 0 if sys.platform == 'darwin' else 8\n",
        "import os\n\ndef first(workers):\n    return workers[0] if os.name == 'nt' else None\n",
    ],
)
def test_what_says_nothing_of_workers_on_windows_counts_for_nothing(tmp_path: Path, guard: str) -> None:
    assert not found(tmp_path, {"tools/setup_data.py": guard}).startswith("low")


@pytest.mark.parametrize(
    "files",
    [
        {"job.sbatch": "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n"},
        {"tools/paths.py": "ROOT = '/scratch/group/photos'\n"},
        {"train.py": HEAD + IMAGES + "model_path = '/data/models/first.pt'\n" + TRAINING},
        {"tests/test_workers.py": RESOLVED, "tools/setup_data.py": ""},
    ],
)
def test_programs_that_run_on_linux_have_none_by_default(tmp_path: Path, files: dict[str, str]) -> None:
    assert "Windows" not in found(tmp_path, {"tools/setup_data.py": RESOLVED, **files})
