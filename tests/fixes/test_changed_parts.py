"""Workers that should not outlive a pass, as the program changes what their samples are made of, and samplers that a
loop follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

PHOTOS = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision.transforms.functional import to_tensor

SIZE = 96


class Collate:
    def __init__(self):
        self.size = 224

    def __call__(self, batch):
        return torch.nn.functional.interpolate(torch.stack(batch), self.size)


class Photos(Dataset):
    def __init__(self, files, cfg, targets):
        self.files, self.cfg, self.targets = files, cfg, targets

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        side = min(SIZE, self.cfg.side)
        return to_tensor(Image.open(self.files[index]).resize((side, side))) * self.targets[index]


def main(files):
    global SIZE
    cfg, targets, collate = Settings(), make_targets(files), Collate()
    loader = DataLoader(Photos(files, cfg, targets), batch_size=64, pin_memory=True, collate_fn=collate)
    model = make_model().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(90):
        {before}
        for step, images in enumerate(loader):
            loss = model(images.cuda(non_blocking=True)).mean()
            loss.backward()
            optimizer.step()
            {after}


if __name__ == "__main__":
    main(open("files.txt").read().split())
"""


NAMED = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor

side = 96


class Photos(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        {name} = to_tensor(Image.open(self.files[index]).resize((side, side)))
        return {name}


loader = DataLoader(Photos(open("files.txt").read().split()), batch_size=64, pin_memory=True)
model = make_model().cuda()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(90):
    for x in loader:
        {change}
        loss = model(x.cuda(non_blocking=True)).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("name", "change", "kept"),
    [
        pytest.param("x", "x = x.float()", True, id="a variable of the loop with the name of one of the data set"),
        pytest.param("x", "side = 192", False, id="a variable of the module that samples are made with"),
        pytest.param("image", "x = x.float()", True, id="another name"),
    ],
)
def test_variables_of_a_script_are_not_those_of_its_data_set(job: MakeJob, name: str, change: str, kept: bool) -> None:
    made = job({"train.py": NAMED.format(name=name, change=change)})
    assert made.repair("GPU303")
    assert "num_workers=" in made.text("train.py")
    assert ("persistent_workers=True" in made.text("train.py")) is kept


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        pytest.param("SIZE = 96 + epoch", "pass", False, id="a variable of the module"),
        pytest.param("cfg.side = 96 + epoch", "pass", False, id="a setting that samples are made with"),
        pytest.param("collate.size = 192", "pass", False, id="an attribute of what puts batches together"),
        pytest.param("pass", "targets[step] = 0.5", False, id="elements of an array"),
        pytest.param("size = 96 + epoch", "pass", True, id="a variable of the function"),
        pytest.param("cfg.lr = 0.1 / (epoch + 1)", "pass", True, id="a setting that samples do not need"),
        pytest.param("pass", "print(targets[step])", True, id="nothing is changed"),
    ],
)
def test_workers_see_what_their_samples_are_made_of(job: MakeJob, before: str, after: str, kept: bool) -> None:
    made = job({"train.py": PHOTOS.format(before=before, after=after)})
    assert made.repair("GPU303")
    assert "num_workers=" in made.text("train.py")
    assert ("persistent_workers=True" in made.text("train.py")) is kept


SCRIPT = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor

side = 224


class Photos(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        images = Image.open(self.files[index]).resize((side, side))
        return to_tensor(images)


loader = DataLoader(Photos(open("files.txt").read().split()), batch_size=64, pin_memory=True)
model = make_model().cuda()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(90):
    for images in loader:
        images = images.cuda(non_blocking=True)
        {inside}
        loss = model(images).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("inside", "kept"),
    [
        pytest.param("pass", True, id="the name of a variable of the method that makes samples"),
        pytest.param("side = 96 + epoch", False, id="a variable of the module that the method reads"),
    ],
)
def test_a_variable_of_a_method_is_not_that_of_its_module(job: MakeJob, inside: str, kept: bool) -> None:
    made = job({"train.py": SCRIPT.format(inside=inside)})
    (result,) = made.scan("GPU303")
    assert ("persistent_workers=True" in result.finding.help) is kept
    assert made.repair("GPU303")
    assert ("persistent_workers=True" in made.text("train.py")) is kept


SAMPLED = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision.transforms.functional import to_tensor


class Photos(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return to_tensor(Image.open(self.files[index]).resize((224, 224)))


class ByLoss(Sampler):
    def __init__(self, count):
        self.weights, self.position, self.epoch = torch.ones(count), 0, 0

    def __iter__(self):
        for index in torch.multinomial(self.weights, len(self.weights), True).tolist():
            self.position += 1
            yield index

    def __len__(self):
        return len(self.weights)

    def update(self, losses):
        self.weights[: len(losses)] = losses


def main(files):
    sampler = ByLoss(len(files))
    loader = DataLoader(Photos(files), batch_size=64, pin_memory=True, sampler=sampler)
    model = make_model().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(90):
        for images in loader:
            losses = model(images.cuda(non_blocking=True)).mean(1)
            losses.mean().backward()
            optimizer.step()
            {inside}
        {outside}


if __name__ == "__main__":
    main(open("files.txt").read().split())
"""


@pytest.mark.parametrize("inside", ["sampler.update(losses.detach().cpu())", "save(model, sampler.position)"])
def test_a_sampler_that_a_loop_follows_keeps_its_place(job: MakeJob, inside: str) -> None:
    files = {"train.py": SAMPLED.format(inside=inside, outside="pass")}
    check_declined(job, "GPU303", files, "the loop follows the state of `sampler`")


@pytest.mark.parametrize(
    ("inside", "outside"),
    [("pass", "sampler.update(losses.detach().cpu())"), ("print(len(sampler))", "save(model, sampler.position)")],
)
def test_a_sampler_may_be_told_between_passes(job: MakeJob, inside: str, outside: str) -> None:
    made = job({"train.py": SAMPLED.format(inside=inside, outside=outside)})
    assert made.repair("GPU303")
    assert "num_workers=4" in made.text("train.py")
