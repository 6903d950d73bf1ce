"""What GPU414 says of a variable is what its fix removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.fix import Fix
from gpulint.project import Project
from gpulint.selection import select

LOADED = plugins.load()
TRAINING = "for images in train_loader:\n    model(images.cuda()).sum().backward()\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("before", "named"),
    [
        ("export TORCH_DISTRIBUTED_DEBUG=INFO\n", "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
        ("export TORCH_DISTRIBUTED_DEBUG=OFF\n", "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
        ("export NCCL_DEBUG=INFO\n", "TORCH_DISTRIBUTED_DEBUG"),
        ("", "TORCH_DISTRIBUTED_DEBUG"),
    ],
)
def test_help_and_fix_name_what_goes(tmp_path: Path, before: str, named: str) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"{before}export TORCH_DISTRIBUTED_DEBUG=DETAIL\ntorchrun --nproc_per_node=4 train.py\n")
    (tmp_path / "train.py").write_text(f"import torch\n\ntorch.distributed.init_process_group('nccl')\n{TRAINING}")
    project = Project(tmp_path, [script, tmp_path / "train.py"], Config(base=tmp_path))
    report = engine.run(project, [script], select(LOADED.rules, ["GPU414"], (), ()), fixers=LOADED.fixers)
    (found,) = report.results
    assert found.finding.help.startswith(f"remove `{named}`,")
    assert isinstance(found.fix, Fix)
    assert found.fix.description == f"remove {named}"
