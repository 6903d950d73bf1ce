"""A classifier in the manner of GPUMemNet: from layer counts and sizes of a network to a class of memory.

After "GPUMemNet" (itu-rad; chapter 5 of the thesis that Table 6.2 is from): a small multi-layer perceptron over
features of a model summary; classes are 1 or 8 GiB wide and the estimate is the upper edge of the class. Its weights
come from ``benchmarks/estimator/train_gpumemnet.py``; none are shipped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.features import model_features
from gpulint_probe.estimator.job import Job

MIB = 1 << 20
ACTIVATIONS = ("ReLU", "LeakyReLU", "PReLU", "ELU", "SELU", "GELU", "Tanh", "SiLU", "Softplus", "Mish", "Identity")


def feature_vector(activations: float, parameters: float, batch_size: int, layers: Mapping[str, int]) -> list[float]:
    """Ten numbers: sizes as logarithms, counts of ``layers`` (by class name), the activation function as an angle."""

    def count(*prefixes: str) -> int:
        return sum(number for name, number in layers.items() if name.startswith(prefixes))

    used = max(ACTIVATIONS, key=lambda name: layers.get(name, 0))
    angle = 2 * math.pi * ACTIVATIONS.index(used) / len(ACTIVATIONS)
    sizes = [activations, activations * batch_size, parameters, batch_size]
    counts = [count("Conv"), count("Linear"), count("BatchNorm"), count("Dropout")]
    return [*(math.log1p(size) for size in sizes), *map(float, counts), math.sin(angle), math.cos(angle)]


def network(classes: int, features: int = 10, width: int = 64) -> nn.Sequential:
    """The classifier: features -> width -> width -> classes, without normalisation of its input."""
    return nn.Sequential(
        nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes)
    )


def predict(path: str, job: Job) -> int:
    """Upper edge in bytes of the class of ``job``, by the trained classifier in ``path``. Raises EstimateError."""
    try:
        document = json.loads(Path(path).read_text())
        model = network(document["classes"])
        model.load_state_dict({name: torch.tensor(value) for name, value in document["weights"].items()})
        mean, deviation, width = (
            torch.tensor(document["mean"]),
            torch.tensor(document["deviation"]),
            document["class_mib"],
        )
    except OSError as error:
        raise EstimateError(f"--gpumemnet-model {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise EstimateError(f"--gpumemnet-model {path} is no classifier of train_gpumemnet.py") from error
    features = model_features(job)
    vector = torch.tensor(feature_vector(features.activations, features.parameters, job.batch_size, features.layers))
    with torch.no_grad():
        chosen = int(model((vector - mean) / deviation).argmax())
    return (chosen + 1) * int(width) * MIB
