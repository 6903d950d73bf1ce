"""Programs for TensorFlow of authors who work on Windows, where it finds no GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.assessment.scans import bases

SAYS = "TensorFlow on Windows, where it finds no GPU"
PROGRAM = """\
import tensorflow as tf
from tensorflow.keras.preprocessing.image import ImageDataGenerator

generator = ImageDataGenerator(rescale=1 / 255, rotation_range=20, zoom_range=0.2)
train = generator.flow_from_directory("photos", target_size=(224, 224), batch_size=32)
model = tf.keras.applications.ResNet50(weights=None)
model.compile(optimizer="adam", loss="categorical_crossentropy")
model.fit(train, epochs=50)
"""
DRIVE = 'print(model.predict(read(r"C:\\Users\\ann\\photos\\1.png")))\n'
SHOWN = {"output_type": "stream", "name": "stdout", "text": ["already there: c:\\users\\ann\\python312\\lib (4.6)"]}


def _notebook(source: str) -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [SHOWN], "source": source}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": PROGRAM + DRIVE},
        {"train.py": PROGRAM, "show.py": "import cv2\n\nphoto = cv2.imread('D:/photos/1.png')\n"},
        {"train.py": PROGRAM, "look.ipynb": _notebook("!pip install opencv-python")},
        {"train.py": PROGRAM + DRIVE, "requirements.txt": "tensorflow>=2.12\nnumpy\n"},
        {"train.py": PROGRAM + DRIVE, "README.md": "# Photos\n\nRun `python train.py`.\n"},
        {"train.py": PROGRAM, "requirements.txt": "tensorflow==2.19.0\npywin32==308\n"},
        {"train.py": PROGRAM, "requirements.txt": "tensorflow-intel==2.13.0\ntensorflow\n"},
        {"train.py": PROGRAM, "environment.yml": "dependencies:\n  - vs2015_runtime=14.27\n  - tensorflow\n"},
        {
            "train.py": PROGRAM,
            "requirements.txt": "pywinpty==2.0.15\ntensorflow==2.19.0\n",
            "detect.py": "import torch\n\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'\n",
        },
    ],
)
def test_programs_of_windows_cost_no_gpu_time(tmp_path: Path, files: dict[str, str]) -> None:
    (found,) = bases(tmp_path, files, "GPU311")
    assert found.startswith("low") and SAYS in found


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": PROGRAM},
        {"train.py": PROGRAM + "# C:\\Users\\ann\\photos\n"},
        {"train.py": PROGRAM + DRIVE, "README.md": "Trained in WSL2.\n"},
        {"train.py": PROGRAM + DRIVE, "README.md": "Trained on an RTX 3060.\n"},
        {"train.py": PROGRAM + DRIVE, "requirements.txt": "tensorflow==2.10.1\n"},
        {"train.py": PROGRAM + DRIVE, "requirements.txt": "tensorflow-gpu\n"},
        {"train.py": PROGRAM + DRIVE, "requirements.txt": "tensorflow-directml-plugin\n"},
        {"train.py": PROGRAM + DRIVE, "other.py": "root = '/home/ann/photos'\n"},
        {"train.py": PROGRAM + "print(tf.config.list_physical_devices('GPU'))\n" + DRIVE},
        {"train.py": PROGRAM + DRIVE + "session = tf.compat.v1.Session()\n"},
        {"train.py": PROGRAM, "requirements.txt": "tensorflow\npywin32==308; sys_platform == 'win32'\n"},
        {"train.py": PROGRAM, "requirements.txt": "tensorflow==2.10.0\npywin32==308\n"},
        {
            "train.py": PROGRAM,
            "requirements.txt": "tensorflow\npywin32==308\n",
            "detect.py": "import torch\n\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'\n",
        },
    ],
)
def test_another_machine_or_version_may_have_one(tmp_path: Path, files: dict[str, str]) -> None:
    assert all(SAYS not in found for found in bases(tmp_path, files, "GPU311"))
    assert bases(tmp_path, files, "GPU311")


def test_requirements_may_be_written_by_powershell(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow==2.19.0\r\npywin32==308\r\n", encoding="utf-16")
    (found,) = bases(tmp_path, {"train.py": PROGRAM}, "GPU311")
    assert found.startswith("low") and SAYS in found
