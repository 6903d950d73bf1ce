"""Loaders whose workers are spawned, on whatever system, or would start for each client and round of a federation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset
from torch_geometric.datasets import QM9
from torchvision import transforms
from torchvision.datasets import ImageFolder


def decoded(graph):
    return [encode(atom) for atom in graph.pos]


class Molecules(Dataset):
    def __init__(self, root, transform=None):
        self.graphs = QM9(root)

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, index):
        return torch.stack(decoded(self.graphs[index]))


def main(model):
    loader = DataLoader(DATA, batch_size=64OPTIONS)
    for epoch in range(20):
        for images in loader:
            model(images.cuda()).mean().backward()


if __name__ == "__main__":
    START
    main(torch.load("model.pt"))
"""
LAMBDA = "ImageFolder('data', transforms.Lambda(lambda image: image.rotate(90)))"
NAMED = "ImageFolder('data', transforms.ToTensor())"
MOLECULES = "Molecules('data')"
SPAWN = "mp.set_start_method('spawn', force=True)"


def program(data: str, start: str = "pass", options: str = "") -> str:
    return PROGRAM.replace("DATA", data).replace("START", start).replace("OPTIONS", options)


@pytest.mark.parametrize(
    ("data", "start", "options", "reason"),
    [
        (LAMBDA, SPAWN, "", "`dataset` holds a lambda"),
        (LAMBDA, "pass", ", multiprocessing_context='spawn'", "`dataset` holds a lambda"),
        (
            MOLECULES,
            SPAWN,
            "",
            "`self.graphs`), and each worker would be sent a copy of all of them where processes are",
        ),
        (MOLECULES, "pass", ", multiprocessing_context='forkserver'", "as `multiprocessing_context` says"),
    ],
)
def test_what_spawned_workers_are_sent_counts_on_linux_too(
    job: MakeJob, data: str, start: str, options: str, reason: str
) -> None:
    assert reason in job({"train.py": program(data, start, options)}).refusal("GPU303")


@pytest.mark.parametrize(("data", "start"), [(LAMBDA, "pass"), (NAMED, SPAWN), (MOLECULES, "pass")])
def test_forked_workers_and_what_can_be_sent(job: MakeJob, data: str, start: str) -> None:
    assert job({"train.py": program(data, start)}).offer("GPU303").changes


@pytest.mark.parametrize(
    ("packages", "is_windows"),
    [
        ("numpy==2.1.0\npyreadline3==3.5.4\ntorch==2.6.0\n", True),
        ("numpy==2.1.0\nwin32_setctime==1.2.0\n", True),
        ("\ufeffnumpy==2.1.0\ntorch==2.6.0\n", True),
        ("numpy==2.1.0\npyreadline3==3.5.4; sys_platform == 'win32'\n", False),
        ("colorama==0.4.6\nnumpy==2.1.0\ntorch==2.6.0\n", False),
    ],
)
def test_packages_tell_that_a_program_is_run_on_windows(job: MakeJob, packages: str, is_windows: bool) -> None:
    made = job({"train.py": program(LAMBDA), "requirements.txt": packages})
    assert made.refusal("GPU303").startswith("`dataset` holds a lambda") if is_windows else made.offer("GPU303").changes


FEDERATED = """\
import flwr
from data import client_loader


def make_client(cid):
    return Client(torch.load("model.pt").cuda(), client_loader(int(cid)))


CALL
"""
CLIENT_DATA = """\
from torch.utils.data import DataLoader, Subset
from torchvision.datasets import ImageFolder


def client_loader(number):
    return DataLoader(Subset(ImageFolder("data"), rows(number)), batch_size=32, shuffle=True, num_workers=0)


def train(model, number):
    for epoch in range(3):
        for images, labels in client_loader(number):
            criterion(model(images.cuda()), labels.cuda()).backward()
"""


@pytest.mark.parametrize(
    ("call", "is_client"),
    [
        ("flwr.simulation.start_simulation(client_fn=make_client, num_clients=3)", True),
        ("app = flwr.client.ClientApp(make_client)", True),
        ("make_client(0).fit()", False),
    ],
)
def test_functions_that_make_clients_get_no_workers(job: MakeJob, call: str, is_client: bool) -> None:
    made = job({"simulate.py": FEDERATED.replace("CALL", call), "data.py": CLIENT_DATA})
    if is_client:
        assert "each client of a federated training" in made.refusal("GPU303")
    else:
        assert made.offer("GPU303").changes


SET_THERE = """\
import torch
import yaml
from PIL import Image
from torch.utils.data import DataLoader, Dataset


def jitter():
    factor = torch.rand(1)

    def _jitter(image):
        return image * factor

    return _jitter


class Jitter:
    def __call__(self, image):
        return image * torch.rand(1)


class Photos(Dataset):
    def __init__(self, root, transform):
        if transform is None:
            transform = MADE
        self.paths = sorted(root)
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]))


def main(model):
    settings = yaml.safe_load(open("settings.yaml"))
    loader = DataLoader(Photos(settings["root"], None), batch_size=64, num_workers=settings["num_workers"])
    for epoch in range(20):
        for images in loader:
            model(images.cuda()).mean().backward()


if __name__ == "__main__":
    main(torch.load("model.pt"))
"""
SETTINGS = "root: ROOT\nnum_workers: 0\nbatch_size: 64\nepochs: 20\n"
MAC = "/Users/me/photos"


@pytest.mark.parametrize(
    ("made", "root", "offered"),
    [
        ("jitter()", MAC, False),
        ("jitter()", "C:\\photos", False),
        ("jitter()", "/home/me/photos", True),
        ("Jitter()", MAC, True),
    ],
)
def test_settings_that_name_folders_of_a_mac(job: MakeJob, made: str, root: str, offered: bool) -> None:
    files = {"train.py": SET_THERE.replace("MADE", made), "settings.yaml": SETTINGS.replace("ROOT", root)}
    results = [one for one in job(files).scan("GPU303") if one.finding.path.name == "settings.yaml"]
    (fix,) = [one.fix for one in results]
    assert isinstance(fix, Fix) is offered, fix
    if not offered:
        assert isinstance(fix, Declined) and "folders of Windows or macOS" in fix.reason


def test_settings_of_a_mac_for_a_data_set_that_is_not_seen(job: MakeJob) -> None:
    program = SET_THERE.replace("Photos(settings", "photos.Photos(settings").replace("MADE", "Jitter()")
    files = {"train.py": program, "settings.yaml": SETTINGS.replace("ROOT", MAC)}
    results = [one for one in job(files).scan("GPU303") if one.finding.path.name == "settings.yaml"]
    assert results and all(isinstance(one.fix, Declined) for one in results)


NOTEBOOK = """\
{"cells": [{"cell_type": "code", "execution_count": 1, "metadata": {}, "source": ["from train import main\\n", "main"],
 "outputs": [{"name": "stdout", "output_type": "stream", "text": ["found: torch in FOLDER/torch (2.9.0)\\n"]}]}],
 "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
"""


@pytest.mark.parametrize(
    ("folder", "beside", "is_mac"),
    [
        ("/opt/anaconda3/lib/python3.12/site-packages", ".DS_Store", True),
        ("/opt/anaconda3/lib/python3.12/site-packages", "notes.txt", False),
        ("/opt/homebrew/lib/python3.12/site-packages", "notes.txt", True),
        ("/usr/local/lib/python3.12/dist-packages", ".DS_Store", False),
    ],
)
@pytest.mark.parametrize("data", [LAMBDA, NAMED])
def test_the_output_of_a_notebook_tells_that_the_loader_is_drawn_from_on_macos(
    job: MakeJob, folder: str, beside: str, is_mac: bool, data: str
) -> None:
    made = job({"train.py": program(data), "look.ipynb": NOTEBOOK.replace("FOLDER", folder), beside: "\n"})
    if is_mac and data == LAMBDA:
        assert made.refusal("GPU303").startswith("`dataset` holds a lambda")
    else:
        assert made.offer("GPU303").changes
