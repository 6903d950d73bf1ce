"""Train a classifier in the manner of GPUMemNet on a table of its runs, for ``gpulint estimate --method gpumemnet``.

    python benchmarks/estimator/train_gpumemnet.py TABLES/gpumemnet_mlp.csv --class-gib 1 --out mlp.json
    python benchmarks/estimator/train_gpumemnet.py TABLES/gpumemnet_cnn.csv --class-gib 8 --out cnn.json

Prints the accuracy on a held-out fifth. The table is not part of this repository, nor are the weights.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from gpulint_probe.estimator.gpumemnet import feature_vector, network
from torch import nn

_NAMES = {
    "linear": "Linear", "conv2d": "Conv2d", "batchnorm2d": "BatchNorm2d", "batch_normalization": "BatchNorm1d",
    "dropout": "Dropout",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--class-gib", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    features, labels = read(args.table, args.class_gib * 1024)
    order = list(range(len(labels)))
    random.Random(0).shuffle(order)
    held, kept = order[: len(order) // 5], order[len(order) // 5 :]
    mean, deviation = features[kept].mean(0), features[kept].std(0).clamp(min=1e-6)
    inputs = (features - mean) / deviation
    model = network(int(labels.max()) + 1)
    train(model, inputs[kept], labels[kept], args.epochs)
    with torch.no_grad():
        accuracy = (model(inputs[held]).argmax(1) == labels[held]).float().mean()
    print(f"{len(kept)} rows, accuracy on {len(held)} held-out rows: {accuracy:.3f}")
    weights = {name: value.tolist() for name, value in model.state_dict().items()}
    document = {"classes": int(labels.max()) + 1, "class_mib": args.class_gib * 1024, "mean": mean.tolist()}
    args.out.write_text(json.dumps(document | {"deviation": deviation.tolist(), "weights": weights}))


def read(table: Path, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As vectors, of the runs in a table that ended well."""
    with table.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("Status", "SUCCESSFUL") == "SUCCESSFUL"]
    return vectors(rows, width)


def vectors(rows: Iterable[Mapping[str, str]], width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, 10) features and (rows,) classes of ``width`` MiB."""
    features, labels = [], []
    for row in rows:
        layers = Counter(_NAMES.get(kind, kind) for kind, _, _ in ast.literal_eval(row["Activations-Params"]))
        activations, parameters = float(row["Total Activations"]), float(row["Total Parameters"])
        features.append(feature_vector(activations, parameters, int(row["Batch Size"]), layers))
        labels.append(int(float(row["Max GPU Memory (MiB)"]) // width))
    return torch.tensor(features), torch.tensor(labels)


def train(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, epochs: int) -> None:
    """Cross entropy over mini-batches of 64 by Adam, the rate falling to zero."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for chosen in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen]).backward()
            optimizer.step()
        schedule.step()


if __name__ == "__main__":
    main()
