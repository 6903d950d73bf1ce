"""From a job to the sentence about its line: the command as a user runs it, on a GPU that the test plays."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.probe.scripted import build_nvml
from tests.probe.test_source_nvml import HOPPER

TRAIN = """\
import torch

model, optimizer = torch.Model().cuda(), torch.Optimizer()
for epoch in range(4):
    print(f"Epoch {epoch}", flush=True)
    for x, y in torch.loader():
        loss = model(x.cuda())
        loss.backward()
        optimizer.step()
    print("Saving checkpoint", flush=True)
    torch.save(model.state_dict(), "/mnt/blob/model.pt")
"""
STUB = """\
import os, time

class Anything:
    def __call__(self, *args): return self
    def __getattr__(self, name): return self

Model = Optimizer = Anything

def say(text):
    with open(os.environ["FAKE_NVML"], "a") as file:
        file.write(text + "\\n")

def wait(samples):
    taken = os.environ["FAKE_NVML"] + ".samples"
    end = os.path.getsize(taken) + samples
    while os.path.getsize(taken) < end:
        time.sleep(0.01)

def loader():
    say("0.sm 90")
    for _ in range(10):
        wait(1)
        yield Anything(), Anything()

def save(state, path):
    say("0.sm 0\\n0.util 0")
    wait(10)
    say("0.util 100")
"""
"""Works and pauses for a number of the probe's samples each: a busy machine delays them."""


def test_a_run_names_the_line_that_its_gpu_waited_for(tmp_path: Path) -> None:
    job, stubs = tmp_path / "job", tmp_path / "stubs"
    for folder in (job, stubs):
        folder.mkdir()
    (job / "train.py").write_text(TRAIN)
    (stubs / "torch.py").write_text(STUB)
    answers = tmp_path / "answers"
    answers.write_text(HOPPER)
    (tmp_path / "answers.samples").touch()
    environment = {
        **os.environ, "LD_LIBRARY_PATH": str(build_nvml(tmp_path)), "FAKE_NVML": str(answers),
        "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(stubs)]), "NO_COLOR": "1", "COLUMNS": "100",
    }  # fmt: skip
    # The job alone has the stub first on its path; the probe must not import it.
    command = ["env", f"PYTHONPATH={stubs}", sys.executable, "train.py"]
    done = subprocess.run(
        [sys.executable, "-m", "gpulint", "probe", "--interval", "0.15", "--html", "report.html", "--json",
         str(tmp_path / "report.json"), "--", *command],
        cwd=job, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Saving checkpoint") == 4
    sentence = r"\d+% of GPU time lost in .+? pauses .+?: train\.py:11: torch\.save writes a checkpoint .+? \(GPU211\)"
    assert re.search(sentence, " ".join(done.stderr.split())), done.stderr
    figures = json.loads((tmp_path / "report.json").read_text())
    loss = next(loss for loss in figures["losses"] if loss["cause"] == "checkpoint pauses")
    assert loss["certain"]
    assert loss["rhythm"]["count"] >= 3
    assert "train.py:11: torch.save" in (job / "report.html").read_text("utf-8")
