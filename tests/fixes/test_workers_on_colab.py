"""Two workers where a tree runs on Google Colab, whose machines have two cores: PyTorch warns of more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpulint_fixers.loading.workers import worker_count

from gpulint.config import Config
from gpulint.project import Project

JOB = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n"


def _notebook(line: str) -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": [line]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


@pytest.mark.parametrize(
    ("files", "workers"),
    [
        ({"train.py": "root = '/content/data'\n"}, "2"),
        ({"train.py": "from google.colab import drive\n"}, "2"),
        ({"train.py": "", "run.ipynb": _notebook("!python /content/tree/train.py")}, "2"),
        ({"train.py": "", "run.ipynb": _notebook("from google.colab import files")}, "2"),
        ({"train.py": "", "run.ipynb": _notebook("from google.colab import files"), "job.sh": JOB}, "4"),
        ({"train.py": "root = '/data/content'  # or /content/data\n"}, "4"),
        ({"train.py": "", "run.ipynb": _notebook("!python train.py")}, "4"),
    ],
)
def test_two_workers_on_colab(tmp_path: Path, files: dict[str, str], workers: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    project = Project(tmp_path, sorted(tmp_path / name for name in files), Config(base=tmp_path))
    assert worker_count(project, tmp_path / "train.py")[0] == workers
