"""``gpulint fix`` says why it has more fixes than a scan shows findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main

_PROGRAM = """\
import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)
model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(100):
    for images in loader:
        optimizer.zero_grad()
        model(images.cuda()).sum().backward()
        optimizer.step()
"""
_NOTE = "shows copies, and the places of one repair, as one finding"


@pytest.mark.parametrize(("names", "told"), [(("train.py",), False), (("a/train.py", "b/train.py"), True)])
def test_copies_are_one_finding_and_several_fixes(
    tmp_path: Path, capsys: Any, names: tuple[str, ...], told: bool
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(_PROGRAM)
    options = ["--isolated", "--unsafe-fixes", "--select", "GPU414", str(tmp_path)]
    main(["fix", "--impact", "medium", *options])
    out = capsys.readouterr().out
    assert f"{len(names)} fix" in out and (_NOTE in out) is told
    main(["fix", "--impact", "low", *options])
    assert _NOTE not in capsys.readouterr().out
