"""Findings stand under the jobs whose programs get to them, and not under all that import their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main

_LIBRARY = """\
import torch


class Trainer:
    def run(self, loader, model):
        for images in loader:
            loss = model(images.cuda()).mean()
            loss.backward()
            torch.cuda.empty_cache()


def load(path):
    return torch.load(path).cuda()
"""
_OTHER = "import torch\nfrom library import load{more}\n\nmodel = load('model.pt').cuda()\n{then}\n"
_JOB = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython {program}\n"


@pytest.mark.parametrize(
    ("more", "then", "headed"),
    [
        ("", "print(model(torch.zeros(8, 8).cuda()))", False),
        (", Trainer", "print(model(torch.zeros(8, 8).cuda()))", False),
        (", Trainer", "Trainer().run(batches, model)", True),
        (", Trainer as Fit", "Fit().run(batches, model)", True),
        ("", "import library\ngetattr(library, name)().run(batches, model)", True),
        ("", "size = getattr(model, 'size', 8)", False),
    ],
)
def test_a_job_that_imports_a_file_for_something_else_is_not_named(
    tmp_path: Path, capsys: Any, more: str, then: str, headed: bool
) -> None:
    (tmp_path / "library.py").write_text(_LIBRARY)
    (tmp_path / "convert.py").write_text(_OTHER.format(more=more, then=then))
    (tmp_path / "convert.sh").write_text(_JOB.format(program="convert.py"))
    for _ in range(2):  # the second time from the cache
        main(["scan", "--isolated", "--impact", "low", "--select", "GPU207", str(tmp_path)])
        out = capsys.readouterr().out
        assert "GPU207" in out and ("==> Job 'convert.sh'" in out) is headed


def test_a_job_that_runs_the_code_is_named_instead(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "library.py").write_text(_LIBRARY)
    (tmp_path / "convert.py").write_text(_OTHER.format(more="", then="print(model(torch.zeros(8, 8).cuda()))"))
    (tmp_path / "train.py").write_text("from library import Trainer\n\nTrainer().run(batches, net.cuda())\n")
    for name in ("convert", "train"):
        (tmp_path / f"{name}.sh").write_text(_JOB.format(program=f"{name}.py"))
    main(["scan", "--isolated", "--impact", "low", "--select", "GPU207", str(tmp_path)])
    out = capsys.readouterr().out
    assert "==> Job 'train.sh'" in out and "convert.sh" not in out
