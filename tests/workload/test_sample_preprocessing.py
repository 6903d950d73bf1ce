"""Heavy work on the CPU for every item of a data set."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpulint.workload.sample_preprocessing import SamplePreprocessing, is_held_out
from tests.trees import Tree

MakeTree = Callable[..., Tree]
IMAGES = "from PIL import Image\nclass {name}:\n    def __getitem__(self, i):\n        {body}\n"


def found(made: Tree) -> list[tuple[str, str]]:
    return [(heavy.function.name, heavy.work) for heavy in SamplePreprocessing(made.project).per_item(made.module())]


@pytest.mark.parametrize(
    ("code", "function", "work"),
    [
        (IMAGES.format(name="Train", body="return self.transform(Image.open(f))"), "__getitem__", "decodes and transforms images"),
        ("import librosa\nclass A:\n    def __getitem__(self, i):\n        return librosa.load(f)", "__getitem__", "computes on audio"),
        ("def collate_fn(items):\n    return tokenizer(items)", "collate_fn", "tokenises text"),
        ("class A:\n    def __getitem__(self, i):\n        return self.tokenizer.encode(t)", "__getitem__", "tokenises text"),
        ("import torchaudio\n@takes('wav')\ndef pipeline(wav):\n    return torchaudio.functional.resample(wav, 8, 16)", "pipeline", "computes on audio"),
        ("import cv2\nclass A:\n    def __getitem__(self, i):\n        return cv2.resize(read(f), (9, 9))\ndef read(f):\n    return cv2.imread(f)", "__getitem__", "decodes and transforms images"),
    ],
)  # fmt: skip
def test_work_for_every_item(tree: MakeTree, code: str, function: str, work: str) -> None:
    assert found(tree(code)) == [(function, work)]


@pytest.mark.parametrize(
    "code",
    [
        IMAGES.format(name="Train", body="return Image.open(f)"),
        IMAGES.format(name="TestSet", body="return self.transform(Image.open(f))"),
        "import librosa\ndef prepare(f):\n    return librosa.load(f)",
        "def val_collate(items):\n    return tokenizer(items)",
        "class A:\n    def __getitem__(self, i):\n        return self.encoder.encode(t)",
    ],
)
def test_light_work_held_out_data_and_single_passes(tree: MakeTree, code: str) -> None:
    assert found(tree(code)) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("val_collate", True),
        ("TestSet", True),
        ("CocoVal", True),
        ("testset", True),
        ("COCOTest2017", True),
        ("Latest", False),
        ("evaluator", False),
        ("Values", False),
    ],
)
def test_names_of_held_out_data(name: str, expected: bool) -> None:
    assert is_held_out(name) is expected
