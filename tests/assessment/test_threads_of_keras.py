"""What it costs that Keras has one thread of Python make the batches, by who sets workers and what a batch takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import levels

GENERATOR = """\
import tensorflow as tf
from tensorflow.keras.preprocessing.image import ImageDataGenerator

print(tf.config.list_physical_devices("GPU"))
generator = ImageDataGenerator(rescale=1 / 255, {augments})
train = generator.flow_from_directory("photos", target_size=(224, 224), batch_size=32)
model = tf.keras.applications.ResNet50(weights=None)
model.compile(optimizer="adam", loss="categorical_crossentropy")
model.fit(train, epochs=50{given})
"""

SEQUENCE = """\
import cv2
import numpy as np
import tensorflow as tf

class Batches(tf.keras.utils.{base}):
    def __init__(self, paths, size):
        super().__init__({passed})
        self.paths, self.size = paths, size

    def __len__(self):
        return len(self.paths) // self.size

    def __getitem__(self, index):
        paths = self.paths[index * self.size : (index + 1) * self.size]
        return np.stack([cv2.resize(cv2.imread(path), (224, 224)) for path in paths])

print(tf.config.list_physical_devices("GPU"))
model = tf.keras.applications.ResNet50(weights=None)
model.compile(optimizer="adam", loss="mse")
model.fit({batches}, epochs=50)
"""


@pytest.mark.parametrize(
    ("augments", "given", "level"),
    [
        ("rotation_range=20, zoom_range=0.2", "", "medium"),
        ("shear_range=0.2", "", "medium"),
        ("rotation_range=20, zoom_range=0.2", ", workers=8, use_multiprocessing=True", "low"),
        ("horizontal_flip=True", "", "low"),
        ("rotation_range=0, horizontal_flip=True", "", "low"),
    ],
)
def test_a_generator_resamples_images_in_one_thread(tmp_path: Path, augments: str, given: str, level: str) -> None:
    """Images that are flipped only are decoded and no more; other threads or processes share the work."""
    text = GENERATOR.replace("{augments}", augments).replace("{given}", given)
    assert levels(tmp_path, {"train.py": text}, "GPU311") == [level]


@pytest.mark.parametrize(
    ("base", "passed", "batches", "level"),
    [
        ("Sequence", "", "Batches(paths, 32)", "medium"),
        ("PyDataset", "", "Batches(paths, 32)", "medium"),
        ("PyDataset", "workers=8, use_multiprocessing=True", "Batches(paths, 32)", "low"),
        ("Sequence", "", "tf.data.Dataset.from_generator(Batches(paths, 32)).prefetch(4)", "low"),
    ],
)
def test_a_sequence_makes_its_batches_in_one_thread(
    tmp_path: Path, base: str, passed: str, batches: str, level: str
) -> None:
    text = SEQUENCE.replace("{base}", base).replace("{passed}", passed).replace("", "")
    assert levels(tmp_path, {"train.py": text.replace("{batches}", batches)}, "GPU311") == [level]


def test_a_program_elsewhere_sets_the_workers(tmp_path: Path) -> None:
    module, program = SEQUENCE.replace("{base}", "Sequence").replace("{passed}", "").split("print(")
    module = module.replace("", "")
    program = "import tensorflow as tf\nfrom batches import Batches\n\nprint(" + program
    for given, level in (("Batches(paths, 32)", "medium"), ("Batches(paths, 32), workers=8", "low")):
        files = {"batches.py": module, "train.py": program.replace("{batches}", given)}
        assert levels(tmp_path / level, files, "GPU311") == [level]


HELD = """\
import cv2
import numpy as np
import tensorflow as tf

class Batches(tf.keras.utils.Sequence):
    def __init__(self, paths, size):
        self.paths, self.size, self.cache = paths, size, {}
        self.images = [cv2.imread(path) for path in paths]

    def __len__(self):
        return len(self.paths) // self.size

    def __getitem__(self, index):
        numbers = range(index * self.size, (index + 1) * self.size)
        return np.stack([self.draw(number) for number in numbers])

    def draw(self, number):
        {draw}

print(tf.config.list_physical_devices("GPU"))
model = tf.keras.applications.ResNet50(weights=None)
model.compile(optimizer="adam", loss="mse")
model.fit(Batches(paths, 32), epochs=50)
"""
MISSING = """\
if number not in self.cache:
            self.cache[number] = cv2.imread(self.paths[number])
        return cv2.resize(self.cache[number], (64, 64))"""


@pytest.mark.parametrize(
    ("draw", "level"),
    [
        ("return cv2.resize(self.images[number], (64, 64))", "low"),
        ("return cv2.warpPerspective(self.images[number], self.matrix, (32, 32))", "low"),
        (MISSING, "low"),
        ("return cv2.resize(cv2.imread(self.paths[number]), (64, 64))", "medium"),
    ],
)
def test_images_in_memory_are_not_decoded(tmp_path: Path, draw: str, level: str) -> None:
    assert levels(tmp_path, {"train.py": HELD.replace("{draw}", draw)}, "GPU311")[-1] == level
