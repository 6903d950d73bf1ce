"""Lines of a script that say how a variable is set which a fix removes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix, Safety

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch

net = torch.nn.Linear(3, 8).cuda()
for x, y in loader:
    net(x.cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "goes", "safe"),
    [
        ('echo "CUDA_LAUNCH_BLOCKING set to 1"', True, True),
        ('echo "CUDA_LAUNCH_BLOCKING is enabled"', True, True),
        ("echo CUDA_LAUNCH_BLOCKING=1", True, True),
        ("printf 'CUDA_LAUNCH_BLOCKING: 1\\n'", True, True),
        ('echo "CUDA_LAUNCH_BLOCKING=1 NCCL_DEBUG=INFO"', False, False),
        ('echo "CUDA_LAUNCH_BLOCKING=1" >> run.log', False, False),
        ('if [ -t 1 ]; then\n  echo "CUDA_LAUNCH_BLOCKING=1"\nfi', False, False),
        ('echo "set CUDA_LAUNCH_BLOCKING=1 when you debug"', False, True),
        ("# echo CUDA_LAUNCH_BLOCKING=1", False, True),
        ('echo "the job starts"', False, True),
    ],
)
def test_lines_that_print_a_removed_variable(job: MakeJob, line: str, goes: bool, safe: bool) -> None:
    script = f"#!/bin/bash\n#SBATCH --gres=gpu:1\nexport CUDA_LAUNCH_BLOCKING=1\ndate\n{line}\npython train.py\n"
    (found,) = job({"train.py": PROGRAM, "job.sh": script}).scan("GPU414")
    assert isinstance(found.fix, Fix)
    assert (found.fix.safety is Safety.SAFE) is safe
    assert any(edit.span.line == 5 for edit in found.fix.edits) is goes
    assert ("still say" in found.fix.description) is not safe


def test_a_block_keeps_a_command(job: MakeJob) -> None:
    block = '{\n  export CUDA_LAUNCH_BLOCKING=1\n  echo "CUDA_LAUNCH_BLOCKING=1"\n}\n'
    (found,) = job({"train.py": PROGRAM, "job.sh": f"#SBATCH --gres=gpu:1\n{block}python train.py\n"}).scan("GPU414")
    assert isinstance(found.fix, Fix)
    assert found.fix.safety is Safety.UNSAFE and len(found.fix.edits) == 1
