"""A loop that unpacks batches to another number of values than samples have stops at its first step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, bases, levels

DATA = """\
class Pairs(Dataset):
    def __getitem__(self, index):
        if self.shape[index] is None:
            return self.blank, self.none
        return self.images[index], self.labels[index]

"""
TRAIN = """\
loader = DataLoader(Pairs(), {options})
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    total = 0
    for {loop}
        loss = model(images.cuda()).mean()
        loss.backward()
        optimizer.step()
        total += loss
    print(total)
"""
OPTIONS = "batch_size=8, num_workers=4"


@pytest.mark.parametrize(
    ("loop", "options", "level"),
    [
        ("images, labels in loader:", OPTIONS, "medium"),
        ("images, labels, names in loader:", OPTIONS, "low"),
        ("step, (images, labels, names) in enumerate(loader):", OPTIONS, "low"),
        ("step, (images, labels) in enumerate(loader):", OPTIONS, "medium"),
        ("batch in loader:\n        images, labels, names = batch", OPTIONS, "low"),
        ("batch in loader:\n        images, labels = batch", OPTIONS, "medium"),
        ("images, *others in loader:", OPTIONS, "medium"),
        ("images, labels, names in loader:", f"{OPTIONS}, collate_fn=collate", "medium"),
        ("images, labels, names in loader:", "**options", "medium"),
    ],
)
def test_a_loop_that_unpacks_other_batches_stops(tmp_path: Path, loop: str, options: str, level: str) -> None:
    files = {
        "net.py": "from torch.nn import Linear as Net\n",
        "train.py": HEAD + DATA + TRAIN.format(loop=loop, options=options),
    }
    assert levels(tmp_path, files, "GPU204") == [level]


WHOLE_RUN = """\
torch.backends.cudnn.enabled = False


def train(model, loader, optimizer):
    for step, batch in enumerate(loader):
        {unpacked} = batch
        loss = model(images.cuda()).mean()
        loss.backward()
        optimizer.step()


def main():
    loader = DataLoader(Pairs(), batch_size=64, num_workers=4)
    model = nn.Conv2d(3, 8, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        train(model, loader, optimizer)


def finetune(model, loader, optimizer):
    for images in loader:
        model(images.cuda()).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    {started}
"""


@pytest.mark.parametrize(
    ("unpacked", "started", "fails"),
    [
        ("images, labels, names", "main()", True),
        ("images, labels", "main()", False),
        ("images, labels, names", "main()\n    finetune(Net(), other, optimizer)", False),
        ("images, labels, names", "if args.train:\n        main()", False),
    ],
)
def test_a_setting_of_the_whole_run_is_for_nothing_where_its_only_training_stops(
    tmp_path: Path, unpacked: str, started: str, fails: bool
) -> None:
    program = HEAD + DATA + WHOLE_RUN.format(unpacked=unpacked, started=started)
    if "finetune(Net" not in started:
        program = program.replace("model(images.cuda()).mean().backward()", "print(images)")
    files = {"net.py": "from torch.nn import Linear as Net\n", "train.py": program}
    found = bases(tmp_path, files, "GPU414")
    assert len(found) == 1
    assert ("raises an error" in found[0]) is fails


PART = """\
class Pairs(Dataset):
    def __getitem__(self, index):
        image = Image.open(self.names[index])
        if self.plain:
            return image, {first}
        return image, {second}

"""


@pytest.mark.parametrize(
    ("first", "second", "options", "fails"),
    [
        ("None", "None", OPTIONS, True),
        ("self.labels[index]", "None", OPTIONS, False),
        ("self.labels[index]", "self.labels[index]", OPTIONS, False),
        ("None", "None", f"{OPTIONS}, collate_fn=collate", False),
        ("None", "None", "batch_size=None, num_workers=4", False),
    ],
)
def test_a_sample_with_none_cannot_be_collated(
    tmp_path: Path, first: str, second: str, options: str, fails: bool
) -> None:
    data = "from PIL import Image\n\n" + PART.format(first=first, second=second)
    program = HEAD + data + TRAIN.format(loop="images, labels in loader:", options=options)
    files = {"net.py": "from torch.nn import Linear as Net\n", "train.py": program}
    assert levels(tmp_path, files, "GPU204") == ["low" if fails else "medium"]


MODULES = """\
import pytorch_lightning as pl
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Subset


class Photos(Dataset):
    def __getitem__(self, index):
        image = transform(Image.open(self.names[index]))
        return {returned}


class Data(pl.LightningDataModule):
    def setup(self, stage=None):
        self.photos = Photos()
        self.train_data, self.val_data = self.split()

    def split(self):
        return Subset(self.photos, range(90000)), Subset(self.photos, range(90000, 99999))

    def train_dataloader(self):
        return DataLoader(self.train_data, batch_size=512, num_workers=8)


class Model(pl.LightningModule):
    def training_step(self, batch, batch_idx):
        {step}
        return torch.nn.functional.cross_entropy(self.net(x.float()), y)


data = Data()
trainer = pl.Trainer(accelerator="gpu", devices=1)
trainer.fit(Model(), {given})
"""


@pytest.mark.parametrize(
    ("returned", "step", "given", "level"),
    [
        ("image, self.labels[index], self.names[index]", "x, y = batch", "datamodule=data", "low"),
        ("image, self.labels[index], self.names[index]", "x, y = batch", "data", "low"),
        ("image, self.labels[index], self.names[index]", "x, y, names = batch", "datamodule=data", "medium"),
        ("image, self.labels[index]", "x, y = batch", "datamodule=data", "medium"),
        ("image, self.labels[index], self.names[index]", "x, y = batch[:2]", "datamodule=data", "medium"),
        ("image, self.labels[index], self.names[index]", "x, y = batch", "datamodule=other", "medium"),
    ],
)
def test_a_step_that_unpacks_other_batches_stops(
    tmp_path: Path, returned: str, step: str, given: str, level: str
) -> None:
    files = {"train.py": MODULES.format(returned=returned, step=step, given=given)}
    assert levels(tmp_path, files, "GPU301") == [level]


VALIDATION = """\
import nibabel as nib
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset


class Volumes(Dataset):
    def __getitem__(self, index):
        return torch.from_numpy(nib.load(self.names[index]).get_fdata()).float(), self.labels[index]


class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Volumes(), batch_size=64, num_workers=8, pin_memory=True)

    def val_dataloader(self):
        return DataLoader(Volumes(), batch_size=64, num_workers=8)


class Model({base}):
    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x.float()), y)
{step}

trainer = pl.Trainer(accelerator="gpu", devices=1)
trainer.fit(Model(), datamodule=Data())
"""


@pytest.mark.parametrize(
    ("base", "step", "says"),
    [
        ("pl.LightningModule", "", True),
        (
            "pl.LightningModule",
            "    def validation_step(self, batch, batch_idx):\n        self.log('x', self.net(batch[0]))\n",
            False,
        ),
        ("Steps", "", False),
    ],
)
def test_lightning_draws_no_batches_for_a_model_without_their_step(
    tmp_path: Path, base: str, step: str, says: bool
) -> None:
    files = {"train.py": VALIDATION.format(base=base, step=step)}
    found = bases(tmp_path, files, "GPU301")
    assert any("no step of its model takes these batches" in one for one in found) is says
