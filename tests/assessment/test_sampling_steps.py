"""Steps that draw samples from a diffusion model take seconds, whatever else they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, bases, impacts

SAMPLERS = """\
def infer(sampler, cond, options):
    with torch.no_grad():
        return sampler.sample(S=options.steps, conditioning=cond, batch_size=4, shape=[4, 64, 64], verbose=False)


def denoise(unet, scheduler, latents):
    for i, t in enumerate(tqdm(scheduler.timesteps)):
        latents = scheduler.step(unet(latents, t), t, latents).prev_sample
    return latents


def walk_back(diffusion, x, steps):
    for i in reversed(range(steps)):
        x = diffusion.p_sample(x, i)
    return x
"""
TRAINING = """\
from samplers import denoise, infer, walk_back

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for step, images in enumerate(loader):
        images = images.cuda()
        {drawn}
        loss = (model(images) - target).square().mean()
        loss.backward()
        optimizer.step()
"""
DRAWN = [
    "target = infer(sampler, images, options)",
    "target = denoise(unet, scheduler, images)",
    "target = walk_back(diffusion, images, options.steps)",
    "target = diffusion.p_sample_loop(net, images.shape)",
    "target = ddim_sampler.sample(50, images)",
    "target = pipe(prompts, num_inference_steps=50).images",
]
OTHER = [
    "target = replay.sample(32)",
    "target = sampler.sample(batch_size=32)",
    "target = sampler.sample(steps=32)",
    "target = diffusion.q_sample(images, t)",
    "target = pipe(prompts, num_inference_steps=1).images",
    "target = denoise(unet, scheduler, images) if step % 1000 == 0 else target",
    "scheduler.set_timesteps(num_inference_steps=50)",
]


def _files(drawn: str) -> dict[str, str]:
    train = HEAD + IMAGES + TRAINING.format(drawn=drawn)
    return {"net.py": "", "samplers.py": "import torch\nfrom tqdm import tqdm\n\n\n" + SAMPLERS, "train.py": train}


@pytest.mark.parametrize("drawn", DRAWN)
def test_loading_costs_little_beside_a_sampler(tmp_path: Path, drawn: str) -> None:
    (found,) = impacts(tmp_path, _files(drawn))["GPU303"]
    assert str(found.level) == "low"
    assert "each step samples from a diffusion model" in found.basis


@pytest.mark.parametrize("drawn", OTHER)
def test_other_steps_are_of_usual_length(tmp_path: Path, drawn: str) -> None:
    (found,) = impacts(tmp_path, _files(drawn))["GPU303"]
    assert str(found.level) == "high"


def test_videos_take_as_long_as_a_sampler(tmp_path: Path) -> None:
    files = _files(DRAWN[0])
    files["train.py"] = (
        files["train.py"]
        .replace("Image.open(", "decord.VideoReader(")
        .replace("from PIL import Image", "import decord")
    )
    (found,) = impacts(tmp_path, files)["GPU303"]
    assert str(found.level) == "high"


@pytest.mark.parametrize(("drawn", "beside"), [(DRAWN[1], True), (OTHER[0], False)])
def test_waits_cost_little_beside_a_sampler(tmp_path: Path, drawn: str, beside: bool) -> None:
    files = _files(drawn)
    reads = "        for name in names:\n            scores[name] += model.scores[name].mean().item()\n"
    files["train.py"] += reads
    found = bases(tmp_path, files, "GPU305")
    assert all(("each step samples from a diffusion model" in one) is beside for one in found)
    assert all(one.startswith("low") is beside for one in found)
