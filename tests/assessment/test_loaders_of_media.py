"""Of loaders for images and for audio beside each other, neither lowers the other: the number of files decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, scan

DATA = """\
import librosa
from PIL import Image

class Photos(Dataset):
    def __getitem__(self, index):
        return transform(Image.open(self.paths[index]).convert("RGB").resize((224, 224), Image.BILINEAR)), 0

class Sounds(Dataset):
    def __getitem__(self, index):
        sound, _ = librosa.load(self.paths[index], sr=16000)
        return librosa.feature.melspectrogram(y=sound), 0

class Faces(Photos):
    pass

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def fit(loader):
    for epoch in range(90):
        for images, labels in loader:
            model(images.cuda()).mean().backward()
            optimizer.step()

first = DataLoader(Photos(), batch_size=32, shuffle=True, num_workers=0)
second = DataLoader({second}(), batch_size=32, shuffle=True, num_workers=0)
fit(first)
fit(second)
"""


@pytest.mark.parametrize(("second", "lowered"), [("Sounds", False), ("Faces", True)])
def test_another_medium_leads_no_loader(tmp_path: Path, second: str, lowered: bool) -> None:
    program = HEAD + DATA.replace("{second}", second)
    report = scan(tmp_path, {"net.py": "from torch.nn import Linear as Net\n", "train.py": program})
    bases = [one.finding.impact.basis for one in report.results if one.finding.rule.code == "GPU303"]
    assert len(bases) == 2
    assert any("set up as the loader beside it" in basis for basis in bases) == lowered
