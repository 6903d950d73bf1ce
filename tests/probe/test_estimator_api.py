"""The functions behind the command: data parallelism, batch search, inputs, precision, published formulas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpulint_probe.estimator import (  # noqa: E402
    EstimateError,
    baselines,
    estimate,
    suggest_batch,
)
from gpulint_probe.estimator.api import Request, build_job, trace_job  # noqa: E402
from gpulint_probe.estimator.cards import parse_size  # noqa: E402
from gpulint_probe.estimator.features import Features, model_features  # noqa: E402
from gpulint_probe.estimator.inputs import batch_from_example, parse_input  # noqa: E402
from gpulint_probe.estimator.simulate import simulate  # noqa: E402
from torch import nn  # noqa: E402

MIB = 1 << 20
FACTORY = """
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.outer(nn.functional.gelu(self.inner(x)))

def build(width=512, depth=8):
    return nn.Sequential(nn.Sequential(*(Block(width) for _ in range(depth))), nn.Linear(width, 10))

def convnet(width=32):
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
        nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
"""


@pytest.fixture
def blocks(tmp_path: Path) -> str:
    path = tmp_path / "block_factory.py"
    path.write_text(FACTORY)
    return f"{path}:build"


def held(target: str, **options: Any) -> dict[str, int]:
    return estimate(target, inputs=("512",), **options).by_category


@pytest.mark.parametrize(
    ("strategy", "sharded"),
    [
        ("ddp", set()),
        ("zero1", {"optimizer state"}),
        ("zero2", {"optimizer state", "gradients"}),
        ("zero3", {"optimizer state", "gradients", "parameters"}),
        ("fsdp", {"optimizer state", "gradients", "parameters"}),
    ],
)
def test_each_strategy_shards_what_it_says(blocks: str, strategy: str, sharded: set[str]) -> None:
    request = Request(blocks, ("512",), 4)
    one = trace_job(build_job(request), 4)
    four = trace_job(build_job(Request(blocks, ("512",), 4, data_parallel=strategy, gpus=4)), 4)

    def total(trace: Any, category: str) -> int:
        return sum(size for key, size, _ in trace.events if size > 0 and trace.categories.get(key) == category)

    for category in ("optimizer state", "gradients", "parameters"):
        share = total(four, category) / total(one, category)
        assert share == pytest.approx(0.25 if category in sharded else 1, rel=0.01)
    assert total(four, "communication") > 0
    assert any("computed" in note for note in four.notes)


def test_one_gpu_needs_no_communication(blocks: str) -> None:
    assert "communication" not in held(blocks, data_parallel="ddp", gpus=1)


def test_bf16_autocast_halves_activations_and_keeps_the_state(blocks: str) -> None:
    full = held(blocks, batch_size=2048)
    half = held(blocks, batch_size=2048, precision="bf16")
    assert half["activations"] < 0.75 * full["activations"]
    assert half["parameters"] == full["parameters"]
    assert half["optimizer state"] == full["optimizer state"]
    true = held(blocks, batch_size=2048, precision="bf16-true")
    assert true["parameters"] == pytest.approx(full["parameters"] / 2, rel=0.01)


def test_tf32_takes_the_memory_of_fp32(blocks: str) -> None:
    assert held(blocks, precision="tf32") == held(blocks, precision="fp32")


def test_the_suggested_batch_fits_and_the_next_does_not(tmp_path: Path, blocks: str) -> None:
    target = blocks.replace(":build", ":convnet")
    options: dict[str, Any] = {"inputs": ("3x64x64",), "memory": 4 << 30, "context": 500 * MIB}
    found = suggest_batch(target, **options)
    limit = 0.9 * (4 << 30)
    assert estimate(target, batch_size=found.train_batch, **options).device_bytes <= limit
    assert estimate(target, batch_size=found.train_batch + 1, **options).device_bytes > limit
    assert found.eval_batch > found.train_batch
    assert found.probes <= 24


def test_no_batch_is_suggested_where_the_model_alone_is_too_large(blocks: str) -> None:
    found = suggest_batch(blocks, inputs=("4096",), memory=1 << 30, context=600 * MIB, model_args={"width": 4096})
    assert (found.train_batch, found.eval_batch) == (0, 0)


def test_a_job_that_only_fits_by_returning_cached_memory_still_fits(blocks: str) -> None:
    target = blocks.replace(":build", ":convnet")
    free = estimate(target, inputs=("3x64x64",), batch_size=64)
    allocated, reserved = free.allocated_bytes, free.reserved_bytes
    assert allocated < reserved
    tight = estimate(
        target, inputs=("3x64x64",), batch_size=64, memory=reserved - 2 * MIB + 100 * MIB, context=100 * MIB
    )
    assert tight.reserved_bytes < reserved or tight.fits is False


def test_the_interval_is_wider_while_the_context_is_not_known(blocks: str) -> None:
    unknown = estimate(blocks, inputs=("512",))
    known = estimate(blocks, inputs=("512",), context=unknown.context_bytes)
    assert known.device_bytes == unknown.device_bytes
    assert unknown.high_bytes - unknown.low_bytes > known.high_bytes - known.low_bytes


def test_inputs_are_parsed() -> None:
    image = parse_input("3x224x224")
    assert (image.shape, image.dtype, image.name) == ((3, 224, 224), torch.float32, "")
    named = parse_input("mask=bool:512")
    assert (named.shape, named.dtype, named.name) == ((512,), torch.bool, "mask")


def test_an_example_batch_is_resized_in_its_batch_dimension_only() -> None:
    make = batch_from_example({"x": torch.zeros(4, 7), "weights": torch.zeros(3), "flag": True})
    _, batch, _ = make(32)
    assert batch["x"].shape == (32, 7)
    assert batch["weights"].shape == (3,)
    assert batch["flag"] is True
    with pytest.raises(EstimateError):
        batch_from_example({"flag": True})


@pytest.mark.parametrize(
    ("text", "size"), [("24GiB", 24 << 30), ("40960MiB", 40960 * MIB), ("80GB", 80 * 10**9), ("1.5gib", 3 << 29)]
)
def test_memory_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_formulas_of_the_neighbours() -> None:
    features = Features(activations=1000, parameters=50, largest_layer=20)
    assert baselines.horus(features, 8) == 4 * (8 * 1000 + 50 + 8 * 50)
    assert baselines.deepspeed(features) == 20 * 50
    assert baselines.deepspeed(features, "zero2", 4) == 4 * 50 + 16 * 50 // 4
    assert baselines.deepspeed(features, "zero3", 4) == 4 * 20 + 18 * 50 // 4
    assert baselines.accelerate(features) == 16 * 50
    assert baselines.torchinfo(features, 8) == 4 * (50 + 2 * 8 * 1000)


def test_features_count_leaf_modules_per_sample(blocks: str) -> None:
    features = model_features(build_job(Request(blocks.replace(":build", ":convnet"), ("3x8x8",))))
    assert features.layers["Conv2d"] == 2
    assert features.activations == 6 * 32 * 64 + 2 * 32 + 10
    assert (
        features.parameters
        == sum(p.numel() for p in nn.Conv2d(3, 32, 3).parameters()) + 32 * 32 * 9 + 32 + 4 * 32 + 330
    )


def test_a_trained_classifier_answers_with_the_upper_edge_of_its_class(tmp_path: Path, blocks: str) -> None:
    from gpulint_probe.estimator.gpumemnet import network

    weights = {name: torch.zeros_like(value) for name, value in network(3).state_dict().items()}
    weights["4.bias"][1] = 1.0  # always the second class
    document = {"classes": 3, "class_mib": 1024, "mean": [0.0] * 10, "deviation": [1.0] * 10}
    path = tmp_path / "classifier.json"
    path.write_text(json.dumps(document | {"weights": {name: value.tolist() for name, value in weights.items()}}))
    found = estimate(blocks, inputs=("512",), method="gpumemnet", gpumemnet_model=str(path))
    assert found.device_bytes == 2 << 30
    path.write_text("{}")
    with pytest.raises(EstimateError, match="no classifier"):
        estimate(blocks, inputs=("512",), method="gpumemnet", gpumemnet_model=str(path))


def test_names_of_libraries(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    config = {
        "model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 1000, "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = estimate(f"hf:{tmp_path}/config.json", batch_size=16)
    assert any(note.startswith("built ") and note.endswith(" from the configuration") for note in found.notes)
    logits = 16 * 64 * 1000 * 4
    assert found.by_category["activations"] > logits
    with pytest.raises(EstimateError, match="in module"):
        estimate(f"hf:{tmp_path}", inputs=("tokens:128",))


def test_timm_names_bring_their_input(tmp_path: Path) -> None:
    pytest.importorskip("timm")
    found = estimate("timm:resnet18", batch_size=2, model_args={"num_classes": 10})
    assert "no --input given: assuming 3x224x224" in found.notes
    with pytest.raises(EstimateError, match="timm has no model"):
        estimate("timm:resnet19")


def test_a_step_that_was_traced_twice_gives_the_same_answer(blocks: str) -> None:
    job = build_job(Request(blocks, ("512",), 16))
    assert simulate(trace_job(job, 16)) == simulate(trace_job(job, 16))
