"""What runs only for an option that no call of the tree passes has a low impact."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main
from gpulint.config import Config
from gpulint.project import Project
from gpulint.training.passed_options import is_for_unpassed_option

MODEL = """\
import scipy.sparse
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return to_tensor(Image.open(self.paths[index]).convert("RGB").resize((224, 224)))


class Base:
    def __init__(self, network, mode="plain"):
        self.network = network.cuda()
        self.mode = mode
        self.optimizer = torch.optim.Adam(network.parameters())

    def fit(self, paths, refine=True):
        self.refine = refine
        if TEST:
            self.run(paths)

    def run(self, paths):
        for epoch in range(100):
            for images in DataLoader(Photos(paths), batch_size=64):
                self.network(images.cuda()).mean().backward()
                self.optimizer.step()


class Classifier(Base):
    def __init__(self, network, mode="plain"):
        super().__init__(network, mode)
"""
TRAIN = """\
import numpy as np
from torchvision.models import resnet18

from model import Classifier

paths = MADE
classifier = Classifier(resnet18()MODE)
classifier.fit(pathsREFINE)
"""


def basis(folder: Path, capsys: pytest.CaptureFixture[str], code: str, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / name).write_text(text)
    main(["scan", str(folder), "--no-cache", "--isolated", "--select", code, "--output-format", "json", "--impact=low"])
    findings = json.loads(capsys.readouterr().out)
    if not findings:  # another rule of the values leaves it out
        return "not the default"
    (finding,) = findings
    found = finding["impact"]["basis"]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize(
    ("test", "mode", "refine", "runs"),
    [
        ("self.refine", "", ", refine=False", False),
        ("self.refine", "", ", False", False),
        ("self.refine", "", "", True),
        ("self.refine", "", ", refine=True", True),
        ("self.refine", "", ", refine=paths.any()", True),
        ("self.refine", "", ", **options", True),
        ("not self.refine", "", "", False),
        ("refine", "", ", refine=False", False),
        ("self.mode == 'fine'", "", "", False),
        ("self.mode == 'plain'", "", "", True),
        ("self.mode != 'plain'", "", "", False),
        ("self.mode in ('fine', 'slow')", "", "", False),
        ("self.mode in ('fine', 'slow')", ", mode='slow'", "", True),
        ("self.mode == 'fine'", ", mode='fine'", "", True),
        ("scipy.sparse.issparse(paths)", "", "", False),
        ("not scipy.sparse.issparse(paths)", "", "", True),
    ],
)
def test_calls_decide_options_of_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str, mode: str, refine: str, runs: bool
) -> None:
    train = TRAIN.replace("MODE", mode).replace("REFINE", refine).replace("MADE", "np.array(open('a').readlines())")
    found = basis(tmp_path, capsys, "GPU303", {"model.py": MODEL.replace("TEST", test), "train.py": train})
    low = ("off by default", "option that no call passes", "not the default")
    assert any(reason in found for reason in low) is not runs


@pytest.mark.parametrize("made", ["scipy.sparse.load_npz('a.npz')", "scipy.sparse.vstack(parts)", "load()"])
def test_matrices_that_may_be_sparse_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str) -> None:
    train = TRAIN.replace("MODE", "").replace("REFINE", "").replace("MADE", made)
    model = MODEL.replace("TEST", "scipy.sparse.issparse(paths)")
    train = train.replace("import numpy as np", "import scipy.sparse")
    assert "no call" not in basis(tmp_path, capsys, "GPU303", {"model.py": model, "train.py": train})


def test_an_attribute_that_another_file_sets_is_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = TRAIN.replace("MODE", "").replace("REFINE", ", refine=False").replace("MADE", "[]")
    train = train.replace("classifier.fit", "classifier.refine = True\nclassifier.fit")
    files = {"model.py": MODEL.replace("TEST", "self.refine"), "train.py": train}
    assert "no call" not in basis(tmp_path, capsys, "GPU303", files)


OPTIMIZER = """\
import torch
from torch.optim import Optimizer


class Search(Optimizer):
    def __init__(self, params, lr=1, search="Wolfe"):
        super(Search, self).__init__(params, dict(lr=lr, search=search))

    def set_search(self, search):
        for group in self.param_groups:
            group["search"] = search

    def step(self, closure):
        group = self.param_groups[0]
        search = group["search"]
        loss = closure()
        if search == "Armijo":
            if loss.item() > group["lr"]:
                loss = closure()
        return loss


class Full(Search):
    def __init__(self, params, lr=1, search="Wolfe"):
        super(Full, self).__init__(params, lr, search)
"""
FITS = """\
import torch

from search import Full

latent = torch.zeros(1, 512, device="cuda", requires_grad=True)
model = torch.load("model.pt").cuda()
optimizer = Full([latent]OPTION)
MORE
for step in range(1000):
    def closure():
        optimizer.zero_grad()
        loss = model(latent).mean()
        loss.backward()
        return loss
    optimizer.step(closure)
"""


@pytest.mark.parametrize(
    ("option", "more", "runs"),
    [
        ("", "", False),
        (", search='Wolfe'", "", False),
        (", search='Armijo'", "", True),
        ("", "optimizer.set_search('Armijo')", True),
        ("", "optimizer.set_search('None')", False),
    ],
)
def test_calls_decide_options_of_optimizers(tmp_path: Path, option: str, more: str, runs: bool) -> None:
    (tmp_path / "search.py").write_text(OPTIMIZER)
    (tmp_path / "fit.py").write_text(FITS.replace("OPTION", option).replace("MORE", more))
    project = Project(tmp_path, sorted(tmp_path.glob("*.py")), Config())
    module = project.module_at(tmp_path / "search.py")
    assert module is not None
    (wait,) = module.calls_by_name["item"]
    assert is_for_unpassed_option(project, module, wait) is not runs
