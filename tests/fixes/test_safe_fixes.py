"""Safe fixes change nothing that is computed: real programs run before and after, and every bit is the same.

The programs run on the CPU, so they choose their device by a test, as many do. That a fixed program runs and computes
the same *with* a GPU (page-locked memory, copies that do not wait) is argued in each rule's section on safety; what is
shown here is that the edit is right for the program, and harmless where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint import plugins
from gpulint.fix import Safety

MakeJob = Callable[..., Any]

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
inputs = torch.randn(96, 16)
targets = (inputs[:, 0] > 0).long()
"""
NET = """\
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
"""
TAIL = """\
print(*(value.item().hex() for parameter in model.parameters() for value in parameter.detach().flatten()))
"""
LOADER = "loader = DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True, pin_memory={pin})\n"
PINNED = LOADER.format(pin="torch.cuda.is_available()")

LOOP = """\
for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item().hex())
"""
FAST = LOOP.replace(".to(device)", ".to(device, non_blocking=True)")


def waste(old: str, new: str) -> str:
    """A program whose only waste is ``new`` in its loop, in the place of ``old``."""
    assert old in FAST
    return HEAD + PINNED + NET + FAST.replace(old, new) + TAIL


PROGRAMS = {
    "GPU102": waste("        optimizer.zero_grad()\n", "        breakpoint()\n        optimizer.zero_grad()\n"),
    "GPU203": HEAD
    + PINNED
    + NET
    + """\


def evaluate(model, loader):
    model.eval()
    correct, total = 0, 0.0
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        output = model(x)
        total += criterion(output, y).item()
        correct += (output.argmax(1) == y).sum().item()
    return correct, total.hex()


test_loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, pin_memory=torch.cuda.is_available())
for epoch in range(3):
    model.train()
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(evaluate(model, test_loader))
"""
    + TAIL,
    "GPU204": HEAD
    + PINNED
    + NET
    + """\
for epoch in range(3):
    total = 0.0
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
    print(total.item().hex())
"""
    + TAIL,
    "GPU301": HEAD
    + "loader = DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True)\n"
    + NET
    + LOOP
    + TAIL,
    "GPU302": HEAD + LOADER.replace(", pin_memory={pin}", "") + NET + LOOP + TAIL,
    "GPU305": HEAD
    + PINNED
    + NET
    + """\


def train(epoch):
    running, total, correct, seen, losses = 0.0, 0.0, 0, 0, []
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * x.size(0)
        running += loss.item()
        correct += (output.argmax(1) == y).sum().item()
        seen += len(y)
        losses.append(loss.item())
        if step % 2 == 1:
            print(epoch, step, (running / 2).hex(), f"{running:.17g}")
            running = 0.0
    print(type(correct), correct / seen, correct)
    return total / seen, [value.hex() for value in losses], sum(losses) / len(losses)


def fit():
    history = []
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        print(len(history), sum(history[-3:]).hex(), history[-1].hex())
    return history


for epoch in range(3):
    total, losses, mean = train(epoch)
    print(total.hex(), losses, mean.hex())
print(*(value.hex() for value in fit()))
"""
    + TAIL,
    "GPU306": waste(
        "        loss = criterion(model(x), y)\n",
        "        bias = torch.arange(2, dtype=torch.float32).to(device)\n"
        "        places = torch.arange(2).unsqueeze(0).expand(len(x), -1).float().to(device)\n"
        "        loss = criterion(model(x) + 0.1 * bias + 0.3 * places, y)\n",
    ),
    "GPU414": waste("for epoch in", "torch.autograd.set_detect_anomaly(True)\nfor epoch in"),
}

TENSORFLOW = """\
# needs no newer release than tensorflow==2.8
import tensorflow as tf

tf.keras.utils.set_random_seed(3)
inputs = tf.random.normal((96, 16))
data = tf.data.Dataset.from_tensor_slices((inputs, inputs[:, 0] > 0)).shuffle(96, seed=1).batch(16)
model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=2, verbose=0)
print(*(value.hex() for weights in model.get_weights() for value in weights.flatten().tolist()))
"""


def test_every_safe_fixer_has_a_program() -> None:
    safe = {rule.code for rule in plugins.load().rules if rule.fix is Safety.SAFE}
    assert safe == {*PROGRAMS, "GPU307"}


TOGETHER = (
    PROGRAMS["GPU203"]
    .replace("pin_memory=torch.cuda.is_available()", "num_workers=0")
    .replace(", non_blocking=True", "")
    .replace(
        "for epoch in range(3):\n", "torch.autograd.set_detect_anomaly(True)\nfor epoch in range(3):\n    seen = 0.0\n"
    )
    .replace(
        "        optimizer.step()\n",
        "        optimizer.step()\n        seen += loss\n        breakpoint()\n",
    )
    .replace("    print(evaluate", "    print(seen.item().hex())\n    print(evaluate")
    .replace("criterion(model(x), y)", "criterion(model(x) + torch.arange(2.0).to(device), y)")
)
"""Every waste at once, so that fixes touch the same lines."""


def repaired(job: MakeJob, program: str, *codes: str) -> str:
    """A program after the safe fixes of some rules, each of which has one."""
    made = job({"train.py": program})
    assert {result.finding.rule.code for result in made.scan(*codes)} >= set(codes)
    assert made.repair(*codes, unsafe=False) >= len(codes)
    text: str = made.text("train.py")
    (made.root / "train.py").unlink()
    return text


def test_losses_and_parameters_are_the_same_to_the_last_bit(job: MakeJob) -> None:
    """Each fixer on its own program, and all of them on one that has every waste."""
    pytest.importorskip("torch")
    programs = {}
    for code, before in PROGRAMS.items():
        programs |= {f"{code}.py": before, f"{code}_fixed.py": repaired(job, before, code)}
    together = ("GPU102", "GPU203", "GPU204", "GPU302", "GPU306", "GPU414")
    programs |= {"all.py": TOGETHER, "all_fixed.py": repaired(job, TOGETHER, *together)}
    found = job({}).outputs(programs, PYTHONBREAKPOINT="0")
    for name in (*PROGRAMS, "all"):
        assert len(found[f"{name}.py"].splitlines()) >= 4
        assert found[f"{name}_fixed.py"] == found[f"{name}.py"], programs[f"{name}_fixed.py"]


def test_tensorflow_trains_the_same(job: MakeJob) -> None:
    pytest.importorskip("tensorflow")
    fixed = repaired(job, TENSORFLOW, "GPU307")
    found = job({}).outputs({"before.py": TENSORFLOW, "after.py": fixed}, torch=False)
    assert found["before.py"] == found["after.py"] != ""
