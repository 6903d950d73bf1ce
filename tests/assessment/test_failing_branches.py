"""Programs that raise an error in each branch of an ``if`` before they train."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.assessment.scans import IMAGES, levels

MODULE = """\
from torch import nn


class {name}(nn.Module):
    def __init__(self, {parameters}):
        super().__init__()
        self.layer = nn.Linear(width, 2)
"""
PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from models.plain.net import Plain
from models.wide.net import Wide

{choice}

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{images}
for epoch in range(90):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        total += loss.item()
"""
FILES = {
    "models/plain/net.py": MODULE.format(name="Plain", parameters="width=8"),
    "models/wide/net.py": MODULE.format(name="Wide", parameters="width, depth"),
}
BOTH = (
    "if kind == 'plain':\n    model = Plain(prox=True).cuda()\nelif kind == 'wide':\n    model = Wide(width=8).cuda()"
)


@pytest.mark.parametrize(
    ("choice", "fails"),
    [
        (BOTH, True),
        (f"{BOTH}\nelse:\n    raise ValueError(kind)", True),
        ("if kind != 'plain':\n    raise ValueError(kind)\nmodel = Plain()", False),
        (f"{BOTH}\nelse:\n    model = Wide(8)", True),
        ("if kind == 'plain':\n    print(kind)\n    model = Plain(prox=True)", True),
        (f"{BOTH}\nelse:\n    model = Plain(8)", False),
        (BOTH.replace("prox=True", "8"), False),
        (BOTH.replace("Wide(width=8)", "Wide(8, 2)"), False),
        (f"model = Plain(8)\n{BOTH}", False),
        ("for kind in kinds:\n" + indent(BOTH, "    "), False),
        (f"try:\n{indent(BOTH, '    ')}\nexcept TypeError:\n    model = Plain()", False),
        (BOTH.replace("    model = Wide", "    run(kind)\n    exit()\n    model = Wide"), True),
        (BOTH.replace("    model = Wide", "    while run(kind):\n        pass\n    model = Wide"), False),
    ],
)
def test_a_program_ends_that_fails_in_each_branch(tmp_path: Path, choice: str, fails: bool) -> None:
    program = PROGRAM.format(choice=choice, images=IMAGES)
    (level,) = levels(tmp_path, {**FILES, "train.py": program}, "GPU303")
    assert (level == "low") is fails


@pytest.mark.parametrize(("folder", "fails"), [("old", True), ("networks", True), ("other/models", False)])
def test_a_copy_in_another_package_is_not_imported(tmp_path: Path, folder: str, fails: bool) -> None:
    """Only a package of the same name may be found where the program is started."""
    copy = MODULE.format(name="Plain", parameters="width=8, prox=True")
    program = PROGRAM.format(choice="model = Plain(prox=True).cuda()", images=IMAGES)
    files = {**FILES, f"{folder}/plain/net.py": copy, "train.py": program}
    (level,) = levels(tmp_path, files, "GPU303")
    assert (level == "low") is fails
