import numpy as np
import stage
from plain_job import forward

rng = np.random.default_rng(0)


def random_crop(images, size):
    top, left = rng.integers(0, images.shape[1] - size, 2)
    return images[:, top : top + size, left : left + size]


def color_jitter(images, strength):
    images = images * rng.uniform(1 - strength, 1 + strength, (len(images), 1, 1, 3))
    return images + rng.normal(0, strength, images.shape)


def augment(images):
    images = random_crop(images.astype(np.float32) / 255, 88)
    images = np.where(rng.random((len(images), 1, 1, 1)) < 0.5, images[:, :, ::-1], images)
    return np.clip(color_jitter(images, 0.2), 0, 1)


dataset = rng.integers(0, 255, (512, 96, 96, 3), dtype=np.uint8)
stage.kernel(0)
for step in stage.steps(6):
    batch = augment(dataset[rng.permutation(len(dataset))[:64]])
    forward(0.002)
    stage.kernel(0.35)
