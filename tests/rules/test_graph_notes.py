"""What findings on evaluation with gradients say of the graphs that stay, and of other places of the function."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.impact import Level
from gpulint.impact_causes import BESIDE, fold_causes
from gpulint.project import Project
from gpulint.report import Result
from gpulint.selection import select

LOADED = plugins.load()
SAMPLER = """\
import torch

unet = torch.load("unet.pt").cuda()


def sample(unet, scheduler, text):
    unet.eval()
    latents = torch.randn(1, 4, 64, 64, device="cuda")
    for t in scheduler.timesteps:
        {}
    return latents


sample(unet, scheduler, text)
"""
STEP = "noise = unet(latents, t, text)\n        latents = scheduler.step(noise, t, latents).prev_sample"
TOKENS = "best = unet(latents).argmax(-1)\n        latents = torch.cat([latents, best], 1)"


def results(folder: Path, text: str) -> list[Result]:
    path = folder / "train.py"
    path.write_text(text)
    project = Project(folder, [path], Config(base=folder))
    report = engine.run(project, [path], select(LOADED.rules, ["GPU203"], (), ()), fixers=LOADED.fixers)
    return fold_causes(report.results, project)


@pytest.mark.parametrize(
    ("step", "chained"),
    [
        (STEP, True),
        ("latents = latents - 0.1 * unet(latents, t)", True),
        (
            "pair, _ = unet(torch.cat([latents, latents]), t)\n        a, b = pair.chunk(2)\n        latents = a + b",
            True,
        ),
        (
            "for x in rows:\n            x = x.cuda()\n            for k in range(9):\n                x = unet(x, k)",
            True,
        ),
        ("for x in rows:\n            x = x.cuda()\n            out = unet(x, t)\n            x = out", False),
        (STEP + ".detach()", False),
        (TOKENS, False),
        ("noise = unet(latents, t)\n        latents = torch.randn_like(latents)", False),
        ("best = unet(latents, t)\n        kept.append(best)", False),
        ("best = unet(latents, t)\n        latents, reward, done, _ = env.step(best)", False),
    ],
)
def test_rounds_that_get_what_the_one_before_made_keep_all_graphs(tmp_path: Path, step: str, chained: bool) -> None:
    (found,) = results(tmp_path, SAMPLER.format(step))
    assert ("the graphs of all its rounds stay" in found.finding.impact.basis) is chained
    assert ("what the call before made" in found.finding.related[0].message) is chained


POLICY = """\
import torch


class Policy(torch.nn.Module):
    def forward(self, state):
        return self.head(state)

    def act(self, state):
        chosen = torch.distributions.Categorical(logits=self.forward(state.cuda()))
        action = chosen.sample()
        return {}, chosen.log_prob(action)


def play(world):
    policy = Policy().cuda()
    policy.load_state_dict(torch.load("policy.pth"))
    policy.eval()
    for episode in range(50):
        state = world.start()
        while not world.ended:
            action, _ = policy.act(state)
            state = world.move(action)


play(World())
"""


@pytest.mark.parametrize(("action", "chained"), [("action.item()", False), ("self.scale * chosen.mean", True)])
def test_numbers_that_a_method_returns_keep_no_graph(tmp_path: Path, action: str, chained: bool) -> None:
    (found,) = results(tmp_path, POLICY.format(action))
    assert ("what the call before made" in found.finding.related[0].message) is chained


TRAINING = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2-large").cuda()
optimizer = torch.optim.Adam(model.parameters())


def fit(train_loader, val_loader):
    losses = []
    model.eval()
    for x in val_loader:
        losses.append(model(x.cuda(), labels=x.cuda()).loss.item())
    for epoch in range(10):
        model.train()
        for x in train_loader:
            loss = model(x.cuda(), labels=x.cuda()).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        for x in val_loader:
            losses.append(model(x.cuda(), labels=x.cuda()).loss.item())
{}    return losses


fit(DataLoader(train_texts, batch_size=16, shuffle=True), DataLoader(val_texts, batch_size=16))
"""


def test_a_finding_names_those_of_low_impact_in_its_function(tmp_path: Path) -> None:
    found = results(tmp_path, TRAINING.format(""))
    (shown,) = (one.finding for one in found if one.finding.impact.level > Level.LOW)
    (hidden,) = (one.finding for one in found if one.finding.impact.level == Level.LOW)
    assert (shown.span.line, hidden.span.line) == (22, 12)
    assert [place.span.line for place in shown.related if place.message == BESIDE] == [12]


def test_a_finding_does_not_name_those_that_are_shown_as_well(tmp_path: Path) -> None:
    again = "        for x in val_loader:\n            losses.append(model(x.cuda(), labels=x.cuda()).loss.item())\n"
    found = results(tmp_path, TRAINING.format(again))
    levels = {one.finding.span.line: one.finding.impact.level for one in found}
    assert levels[22] > Level.LOW and levels[24] > Level.LOW
    for one in found:
        if one.finding.impact.level > Level.LOW:
            assert [place.span.line for place in one.finding.related if place.message == BESIDE] == [12]
