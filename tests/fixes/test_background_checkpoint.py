"""GPU211's repair: checkpoints travel in the background, and what has arrived can always be loaded."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]

PROGRAM = """\
import sys

import torch

CHECKPOINT = "{remote}/last.pt"


def train(model, loader, optimizer, epochs):
    for epoch in range(1, epochs + 1):
        for batch in loader:
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            model.weight.fill_(epoch)
        torch.save({{"epoch": epoch, "model": model.state_dict()}}, CHECKPOINT)
        with torch.no_grad():
            model.weight.fill_(-1)
        print(epoch, flush=True)


model = torch.nn.Linear(1000, 3000)
train(model, [torch.zeros(1, 1000)], torch.optim.SGD(model.parameters(), lr=0.1), int(sys.argv[1]))
"""

SLOW = """
import shutil
import time

copyfile = shutil.copyfile


def crawl(source, target, **options):
    with open(source, "rb") as read, open(target, "wb") as write:
        while part := read.read(500_000):
            write.write(part)
            time.sleep(0.002)


shutil.copyfile = crawl
"""
"""Storage that needs its time for a file, so that training overtakes it."""
SLOWLY = ("-c", "import runpy, slow_storage; runpy.run_path('train.py', run_name='__main__')")


def repaired(job: MakeJob, tmp_path: Path) -> Any:
    made = job({"train.py": PROGRAM.format(remote=tmp_path / "blob"), "slow_storage.py": SLOW}, remote="blob")
    assert made.repair("GPU211") == 1
    assert "save_in_background({" in made.text("train.py")
    return made


def epoch_of(path: Path) -> int:
    """The epoch that a checkpoint says it is of, and holds the weights of."""
    torch = pytest.importorskip("torch")
    state = torch.load(path)
    assert (state["model"]["weight"] == state["epoch"]).all()
    epoch: int = state["epoch"]
    return epoch


def test_everything_arrives_before_the_program_ends(job: MakeJob, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    made = repaired(job, tmp_path)
    (tmp_path / "blob").mkdir()
    out, err = made.train(*SLOWLY, "4", TMPDIR=str(tmp_path))
    assert out.split() == ["1", "2", "3", "4"]
    assert err == ""
    assert epoch_of(tmp_path / "blob/last.pt") == 4
    assert [path.name for path in (tmp_path / "blob").iterdir()] == ["last.pt"]
    assert list(tmp_path.glob("background-uploads-*")) == []


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_the_last_file_loads_and_never_goes_back(job: MakeJob, tmp_path: Path, seed: int) -> None:
    pytest.importorskip("torch")
    made = repaired(job, tmp_path)
    (tmp_path / "blob").mkdir()
    checkpoint = tmp_path / "blob/last.pt"
    moment = random.Random(seed)
    process = made.start_training(*SLOWLY, "100000", TMPDIR=str(tmp_path))
    seen, saved = 0, 0
    for _ in range(moment.randint(3, 12)):
        saved = int(process.stdout.readline())
        if checkpoint.exists():
            epoch = epoch_of(checkpoint)
            assert seen <= epoch
            seen = epoch
    time.sleep(moment.random() / 50)
    os.kill(process.pid, signal.SIGKILL)
    code, rest, _ = process.communicate()
    started = saved + len(rest.split()) + 1
    assert code == -signal.SIGKILL
    assert max(seen, started - 3) <= epoch_of(checkpoint) <= started


def test_a_failing_upload_is_reported_and_training_goes_on(job: MakeJob, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    made = repaired(job, tmp_path)
    out, err = made.train("train.py", "3", TMPDIR=str(tmp_path))
    assert out.split() == ["1", "2", "3"]
    assert err.count(f"upload of {tmp_path}/blob/last.pt failed: FileNotFoundError") == 3
    assert list(tmp_path.glob("background-uploads-*")) == []


BEFORE = """\
import torch
import shutil, os

def train(model, loader, optimizer, epochs):
    {before}
    for epoch in range(epochs):
        for batch in loader:
            model(batch).backward()
            optimizer.step()
        {save}
        {inside}
    {after}
"""


def offer(job: MakeJob, save: str, *, before: str = "", inside: str = "", after: str = "", **files: str) -> str:
    """Why nothing is offered; empty if a fix is."""
    text = BEFORE.format(save=save, before=before or "pass", inside=inside or "pass", after=after or "pass")
    made = job({"train.py": text, **{name.replace("_py", ".py"): content for name, content in files.items()}})
    (fix,) = [result.fix for result in made.scan("GPU211")]
    return fix.reason if isinstance(fix, Declined) else ""


SAVE = "torch.save(model.state_dict(), '/mnt/blob/last.pt')"


def test_it_is_offered_where_the_file_is_only_written(job: MakeJob) -> None:
    assert offer(job, SAVE) == ""
    assert offer(job, SAVE, before="model.load_state_dict(torch.load('/mnt/blob/last.pt'))") == ""
    assert offer(job, SAVE, inside="print('saved', '/mnt/blob/last.pt')") == ""


@pytest.mark.parametrize(
    ("places", "user"),
    [
        ({"inside": "shutil.copy('/mnt/blob/last.pt', '/mnt/blob/best.pt')"}, "`shutil.copy`"),
        ({"inside": "os.remove(f'/mnt/blob/{epoch - 3}.pt')"}, "`os.remove`"),
        ({"inside": "publish('/mnt/blob/last.pt')"}, "`publish`"),
        ({"after": "model.load_state_dict(torch.load('/mnt/blob/last.pt'))"}, "`torch.load`"),
        ({"after": "name = '/mnt/blob/last.pt'; model.load_state_dict(torch.load(name))"}, "`torch.load`"),
    ],
)
def test_a_file_that_is_needed_again_is_still_waited_for(job: MakeJob, places: dict[str, str], user: str) -> None:
    assert user in offer(job, SAVE, **places)


@pytest.mark.parametrize(
    ("save", "reason"),
    [
        ("torch.save(model, 'last.pt')", "remote-paths"),
        ("torch.save(model, 's3://bucket/last.pt')", "URL"),
        ("torch.save(model, open('/mnt/blob/last.pt', 'wb'))", "not a path"),
        ("done = torch.save(model, '/mnt/blob/last.pt')", "value is used"),
        ("model.save_pretrained('/mnt/blob/model')", "only `torch.save`"),
    ],
)
def test_what_cannot_be_handed_over_is_left_alone(job: MakeJob, save: str, reason: str) -> None:
    assert reason in offer(job, save)


def test_a_hosted_notebook_has_no_files_beside_it(job: MakeJob) -> None:
    text = BEFORE.format(save=SAVE, before="pass", inside="pass", after="pass")
    for first, offered in (("import os", True), ("from google.colab import drive", False)):
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": f"{first}\n{text}"}
        notebook = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        (fix,) = [result.fix for result in job({"train.ipynb": notebook}).scan("GPU211")]
        assert isinstance(fix, Declined) is not offered


def test_a_module_of_that_name_is_never_overwritten(job: MakeJob) -> None:
    assert "a different module" in offer(job, SAVE, background_uploads_py="mine = 1\n")


def test_the_module_is_brought_once(job: MakeJob, tmp_path: Path) -> None:
    text = BEFORE.format(save=SAVE, before="pass", inside="pass", after="pass")
    made = job({"a.py": text, "b.py": text})
    assert made.repair("GPU211") == 2
    assert made.scan("GPU211") == []
    assert made.text("a.py").count("from background_uploads import save_in_background") == 1
