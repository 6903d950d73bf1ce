"""What batches are for, and whether their size may be small on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.workload.batch_sources import BatchSources
from gpulint.workload.data_split import Split, split_of
from gpulint.workload.small_batches import accumulated_elsewhere, is_batch_size, is_small, names_large_model
from tests.trees import Tree


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train_loader", Split.TRAIN),
        ("trainloader", Split.TRAIN),
        ("per_device_train_batch_size", Split.TRAIN),
        ("testLoader", Split.EVAL),
        ("valid_dl", Split.EVAL),
        ("valset", Split.EVAL),
        ("val_dataloader", Split.EVAL),
        ("loader", None),
        ("latest", None),
        ("value", None),
        ("device", None),
        ("train_val_split", None),
    ],
)
def test_a_name_says_what_its_batches_are_for(name: str, split: Split | None) -> None:
    assert split_of(name) is split


def sources(tmp_path: Path, code: str) -> list[tuple[Split, str]]:
    made = Tree(tmp_path, {"main.py": "from torch.utils.data import DataLoader\nimport tensorflow as tf\n" + code})
    return [(source.split, source.text) for source in made.project.fact(BatchSources).in_module(made.module())]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("train_loader = DataLoader(data, 16)", [(Split.TRAIN, "16")]),
        ("loader = DataLoader(val_set, batch_size=n)", [(Split.EVAL, "n")]),
        ("kw = {'batch_size': 8}\ntest = DataLoader(data, **kw)", [(Split.EVAL, "8")]),
        ("fit(train_loader=make(data, batch_size=4))", [(Split.TRAIN, "4")]),
        ("loaders = {'train': DataLoader(a, 4), 'val': DataLoader(b, 2)}", [(Split.TRAIN, "4"), (Split.EVAL, "2")]),
        ("train, val = split(batch_size=4)", [(Split.BOTH, "4")]),
        ("val = tf.data.Dataset.from_tensors(x).batch(64)", [(Split.EVAL, "64")]),
        ("def load(data, bsz): ...\nval_data = load(data, 10)", [(Split.EVAL, "10")]),
        ("Arguments(per_device_eval_batch_size=8)", [(Split.EVAL, "8")]),
        ("loader = DataLoader(data, 16)", []),
        ("train_set = make_dataset(data, batch_size=4)", []),
        ("train_loader = DataLoader(data, batch_sampler=s)", []),
    ],
)
def test_the_batch_sources_of_a_module(tmp_path: Path, code: str, expected: list[tuple[Split, str]]) -> None:
    assert sources(tmp_path, code) == expected


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("--batch-size", True),
        ("batch_size", True),
        ("--per_device_train_batch_size", True),
        ("TRAIN_BATCH_SIZE", True),
        ("--batch-size-per-replica", True),
        ("--test-batch-size", False),
        ("--global-batch-size", False),
        ("--batch-size-warmup", False),
    ],
)
def test_names_of_the_batch_size(name: str, known: bool) -> None:
    assert is_batch_size(name) is known


@pytest.mark.parametrize(
    ("options", "size", "made_up"),
    [
        ({}, 4, False),
        ({"--gradient_accumulation_steps": "1"}, 4, False),
        ({"--gradient_accumulation_steps": "4"}, 4, True),
        ({"GRADIENT_ACCUMULATION_STEPS": "2"}, 1, False),
        ({"--gradient_accumulation_steps": None}, 4, True),
        ({"--global-batch-size": "32"}, 4, False),
        ({"--global-batch-size": "1024"}, 4, True),
    ],
)
def test_accumulation_makes_up_for_a_small_batch(options: dict[str, str | None], size: int, made_up: bool) -> None:
    assert accumulated_elsewhere(options, size) is made_up


@pytest.mark.parametrize("text", ["meta-llama/Llama-2-7b-hf", "falcon", "model-13B", "stabilityai/stable-diffusion-2"])
def test_large_models(text: str) -> None:
    assert names_large_model(text)


@pytest.mark.parametrize("text", ["bert-base-cased", "google/gemma-2b", "yolov5s", "resnet50", "128 bytes", "340m"])
def test_other_models(text: str) -> None:
    assert not names_large_model(text)


def test_how_small_depends_on_the_model() -> None:
    assert is_small(32, "ResNet")
    assert not is_small(64, "ResNet")
    assert is_small(64, "datasets.MNIST")
    assert not is_small(0, "MNIST")
