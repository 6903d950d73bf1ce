"""What findings tell to do is code in the program's own names where it can be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.project import Project
from gpulint.selection import select

LOADED = plugins.load()

CHECKPOINT = """\
import torch

for epoch in range(90):
    for images in train_loader:
        net(images.cuda()).backward()
        optimizer.step()
    torch.save(net.state_dict(), f"{out}/{epoch}.pt")
"""
IMAGES = """\
import torch
from PIL import Image


class Birds(torch.utils.data.Dataset):
    def __getitem__(self, at):
        name = self.files[at]
        photo = Image.open(name).convert("RGB").resize((224, 224))
        return photo, kind


for photos in torch.utils.data.DataLoader(Birds()):
    model(photos.cuda()).backward()
    optimizer.step()
"""
ACCUMULATION = """\
from torch.nn.parallel import DistributedDataParallel as DDP

net = DDP(net)
for index, batch in enumerate(loader):
    scaler.scale(net(batch)).backward()
    if (index + 1) % accumulate_steps == 0:
        scaler.step(optimizer)
"""
HUB = """\
from transformers import AutoModel

model = AutoModel.from_pretrained("org/large").cuda()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("code", "program", "parts"),
    [
        ("GPU211", CHECKPOINT, ["async_save({'model': net.state_dict()}, checkpoint_id=f'{out}/{epoch}.pt')"]),
        ("GPU311", IMAGES, ["def birds_pipeline():", "files=dataset.files", "['photo', 'kind']"]),
        ("GPU353", ACCUMULATION, ["if (index + 1) % accumulate_steps == 0 else net.no_sync():"]),
        ("GPU331", HUB, ["hf download org/large", "export HF_HUB_OFFLINE=1"]),
    ],
)
def test_help_speaks_of_the_program(tmp_path: Path, code: str, program: str, parts: list[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(program)
    project = Project(tmp_path, [path], Config(base=tmp_path))
    report = engine.run(project, [path], select(LOADED.rules, [code], (), ()))
    (advice,) = [result.finding.help for result in report.results]
    _, *snippet = advice.splitlines()
    assert snippet
    for part in parts:
        assert part.replace("'", '"') in advice.replace("'", '"')
    if code != "GPU331":
        ast.parse("\n".join(snippet))
