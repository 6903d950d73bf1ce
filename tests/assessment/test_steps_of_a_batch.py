"""Loops over a loader of which each round takes many steps on its batch: loading is not a part of each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, impacts, scan

OPTIONS = "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--steps', type=int)\nargs = parser.parse_args()\n"
ROUND = """\
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for images in loader:
    images = images.cuda()
    {made}
    {around}
        loss = model({part}).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    {after}
"""
MADE = "code = torch.zeros(8, device='cuda', requires_grad=True); optimizer = torch.optim.Adam([code], lr=0.1)"
KEPT = "rows.append(images.mean())"


def _frequency(folder: Path, program: str) -> str:
    found = impacts(folder, {"net.py": "", "train.py": HEAD + OPTIONS + IMAGES + program})["GPU303"]
    assert len(found) == 1
    return found[0].basis.partition(",")[0]


@pytest.mark.parametrize(
    ("made", "around", "part", "after", "expected"),
    [
        (MADE, "for step in range(args.steps):", "code", KEPT, "not in every step"),
        (MADE, "while not converged(loss):", "code", KEPT, "not in every step"),
        (MADE, "for step in range(300):", "code", KEPT, "every 300 steps"),
        (KEPT, "for again in range(4):", "images", KEPT, "every 4 steps"),
        # One round, an unknown number with one optimizer, parts of the batch, and steps beside the inner loop.
        (MADE, "for step in range(1):", "code", KEPT, "every step"),
        (KEPT, "for again in range(args.steps):", "images", KEPT, "every step"),
        (KEPT, "for part in images.chunk(4):", "part", KEPT, "every step"),
        (KEPT, "for at in range(4):", "images[at]", KEPT, "every step"),
        (KEPT, "for again in range(4):", "images", "optimizer.step()", "every step"),
    ],
)
def test_a_loader_is_read_once_for_all_steps_on_its_batch(
    tmp_path: Path, made: str, around: str, part: str, after: str, expected: str
) -> None:
    program = ROUND.format(made=made, around=around, part=part, after=after)
    assert _frequency(tmp_path, program) == expected


@pytest.mark.parametrize(("source", "expected"), [("range(args.steps)", "not in every step"), ("parts", "every step")])
def test_a_function_may_take_the_steps_of_a_batch(tmp_path: Path, source: str, expected: str) -> None:
    program = f"""\
def invert(images, parts):
    code = torch.zeros(8, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([code], lr=0.1)
    for part in {source}:
        (model(code) - images).square().mean().backward()
        optimizer.step()
    return code


model = Net().cuda()
for images in loader:
    code = invert(images.cuda(), images.chunk(2))
"""
    assert _frequency(tmp_path, program) == expected


def test_waits_between_the_steps_of_two_batches_are_not_of_each_step(tmp_path: Path) -> None:
    program = ROUND.format(
        made=MADE, around="for step in range(300):", part="code", after="print(code.mean().item())"
    ).replace("optimizer.step()", "optimizer.step()\n        total += loss.item()")
    results = scan(tmp_path, {"net.py": "", "train.py": HEAD + OPTIONS + IMAGES + program}).results
    found = [one.finding.message for one in results if one.finding.rule.code == "GPU305"]
    assert len(found) == 1
    assert "loss.item()" in found[0]


ATTACK = """\
def attack(model, images):
    delta = torch.zeros_like(images, requires_grad=True)
    {around}
        loss = model(images + delta).square().mean()
        delta = delta + torch.autograd.grad(loss, [delta])[0].sign()
    return images + delta.detach()

model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for epoch in range(90):
    for images in loader:
        loss = model(attack(model, images.cuda())).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("around", "level"), [("for again in range(40):", "medium"), ("for again in range(1):", "high")]
)
def test_loading_costs_less_beside_an_attack_on_each_batch(tmp_path: Path, around: str, level: str) -> None:
    (found,) = impacts(tmp_path, {"net.py": "", "train.py": HEAD + IMAGES + ATTACK.format(around=around)})["GPU303"]
    assert found.level.name.lower() == level
    assert found.basis.endswith(", many passes for each batch") == (level == "medium")


REPEATED = """\
rounds = int(input())
noise = iter(range(90000000))
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for epoch in range(90):
    for images in loader:
        images = images.cuda()
        optimizer.zero_grad()
        {around}
            model({taken}).square().mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("around", "taken", "level"),
    [
        ("for again in range(40):", "images + images.std()", "medium"),
        ("for again in range(2):", "images", "high"),
        ("for again in range(rounds):", "images", "high"),
        ("for part in range(40):", "images[part::40]", "high"),
        ("for again in range(40):", "next(noise)", "high"),
    ],
)
def test_loading_costs_less_beside_many_passes_for_each_batch(
    tmp_path: Path, around: str, taken: str, level: str
) -> None:
    program = REPEATED.format(around=around, taken=taken)
    (found,) = impacts(tmp_path, {"net.py": "", "train.py": HEAD + IMAGES + program})["GPU303"]
    assert found.level.name.lower() == level
    assert found.basis.endswith(", many passes for each batch") == (level == "medium")
