"""Fit what RTX 3090 steps cannot tell: other cards' shares, links and latencies; report cross-fitted errors.

    python benchmarks/estimator/fit_parallel.py TABLES ROWS.jsonl [--write]

ROWS.jsonl comes from parallel_rows.py. vTrain's rows are split by (hidden, layers), NeuSight's by workload and device.
The formulas are those of steptime.py and parallel_time.py over all rows at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from fit_steps import OUT
from gpulint_probe.estimator.cards import Card, card_by_name
from gpulint_probe.estimator.parallel_time import GPUS_PER_NODE
from gpulint_probe.estimator.steptime import NORM, family, terms
from gpulint_probe.estimator.work import Work
from parallel_rows import key, neusight, vtrain

START = {
    "half matmul": 1.0, "half bmm": 1.0, "fp32 matmul": 1.0, "fp32 bmm": 1.0, "memory": 1.0, "host": 12e-6,
    "nvlink": 0.6, "latency": 25e-6, "network": 12.0,
}  # fmt: skip
RIDGE = {"host": 0.2, "nvlink": 0.2, "latency": 0.05, "network": 0.05}
PLAIN_HOST = 9e-6
Row = tuple[str, Any, Card, float, str]
"""Source, layout, card, measured seconds and the group that is held out together."""


class Data:
    """All rows as tensors: the calls of each rank on each card, and the numbers of the communication."""

    def __init__(self, rows: list[Row], known: dict[str, Any], table: dict[str, Any]) -> None:
        ranks: dict[tuple[str, str], int] = {}
        columns: list[list[float]] = []
        gradients: list[float] = []
        self.kinds = sorted({card.kind for _, _, card, _, _ in rows})
        for source, layout, card, _, _ in rows:
            name = key(layout, "fp32" if source == "neusight" else "fp16-amp")
            if (name, card.name) in ranks:
                continue
            index = ranks[name, card.name] = len(ranks)
            gradients.append(known[name]["gradients"])
            columns += [
                [2 * index + (item[1] == "optimizer"), *_terms(item, card, table)] for item in known[name]["work"]
            ]
        data = torch.tensor(columns, dtype=torch.float64).T
        self.slot, self.group = data[0].long(), data[1].long()
        self.compute, self.memory, self.launches, self.count = data[2:]
        self.slots = 2 * len(ranks)
        self.rank = torch.tensor(
            [ranks[key(r[1], "fp32" if r[0] == "neusight" else "fp16-amp"), r[2].name] for r in rows]
        )
        self.gradients = torch.tensor(gradients, dtype=torch.float64)[self.rank]
        self.card = torch.tensor([self.kinds.index(row[2].kind) for row in rows])
        of_rank = torch.zeros(len(ranks), dtype=torch.long)
        of_rank[self.rank] = self.card
        plain = torch.zeros(len(ranks), dtype=torch.bool)
        plain[self.rank] = torch.tensor([row[0] == "neusight" for row in rows])
        self.plain = plain.repeat_interleave(2)
        self.card_of_call = of_rank[self.slot // 2]
        shapes = [[r[1].tensor, r[1].data, r[1].pipeline, r[1].micro_batches, r[1].layers, r[1].gpus] for r in rows]
        self.tp, self.dp, self.pp, self.mb, self.layers, self.gpus = torch.tensor(shapes, dtype=torch.float64).T
        message = [2.0 * r[1].micro * r[1].seq * r[1].hidden * (2 if r[0] == "neusight" else 1) for r in rows]
        self.message = torch.tensor(message, dtype=torch.float64)
        self.link = torch.tensor([row[2].nvlink or row[2].pcie for row in rows], dtype=torch.float64)
        self.steps = torch.tensor([row[0] != "neusight" for row in rows])  # NeuSight times no optimizer
        self.measured = torch.tensor([row[3] for row in rows], dtype=torch.float64)


def _terms(item: list[Any], card: Card, table: dict[str, Any]) -> list[float]:
    kind, _, itemsize, flops, moved, launches, m, n, k, batch, count = item
    found = terms(Work(kind, moved, flops, launches, itemsize, m, n, k, batch), card)
    share = table["kinds"].get(found.kind) or table["kinds"].get(family(found.kind)) or table["other"]
    size = found.n / (found.n + table["n0"]) * found.k / (found.k + table["k0"]) if found.compute else 1.0
    group = (kind == "bmm") + 2 * (itemsize > 2)
    return [group, found.compute / share["compute"] / size, found.memory / share["memory"], launches, count]


def predict(data: Data, p: dict[str, torch.Tensor], launch: float) -> torch.Tensor:
    e = {name: value.exp() for name, value in p.items()}
    factor = torch.stack([e["half matmul"], e["half bmm"], e["fp32 matmul"], e["fp32 bmm"]])
    computing = data.compute / factor[data.group] / e["card compute"][data.card_of_call]
    moving = data.memory / e["memory"] / e["card memory"][data.card_of_call]
    joined = (computing.clamp(min=1e-12) ** NORM + moving.clamp(min=1e-12) ** NORM) ** (1 / NORM)
    seconds = (joined + data.launches * launch) * data.count
    device = torch.zeros(data.slots, dtype=torch.float64).index_add_(0, data.slot, seconds)
    host = torch.zeros(data.slots, dtype=torch.float64).index_add_(0, data.slot, data.launches * data.count)
    # Megatron's own host time; NeuSight timed the kernels of plain PyTorch.
    host = host * torch.where(data.plain, torch.tensor(PLAIN_HOST, dtype=torch.float64), e["host"])
    both = (device.clamp(min=1e-9) ** NORM + host.clamp(min=1e-9) ** NORM) ** (1 / NORM)
    micro, optimizer = both[2 * data.rank], both[2 * data.rank + 1]
    inside = data.link * e["nvlink"] * 1e9
    network = e["network"] * 1e9
    far = data.gpus > GPUS_PER_NODE

    def reduce(size: torch.Tensor, ranks: torch.Tensor, link: torch.Tensor) -> torch.Tensor:
        return (ranks > 1) * (2 * (ranks - 1) / ranks * size / link + e["latency"])

    tensor = 4 * data.layers / data.pp * reduce(data.message, data.tp, inside)
    hop = (data.pp > 1) * 2 * (data.message / torch.where(far, network, inside) + e["latency"])
    turns = data.mb + data.pp - 1
    step = turns * (micro + tensor + hop) + reduce(data.gradients, data.dp, torch.where(far, network, inside))
    return step + data.steps * optimizer


def fit(data: Data, training: torch.Tensor, launch: float, steps: int) -> dict[str, torch.Tensor]:
    prior = {name: torch.tensor(value, dtype=torch.float64).log() for name, value in START.items()}
    prior |= {f"card {side}": torch.zeros(len(data.kinds), dtype=torch.float64) for side in ("compute", "memory")}
    p = {name: value.clone().requires_grad_() for name, value in prior.items()}
    optimizer = torch.optim.Adam(p.values(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    # The tables have 1080, 97 and 27 rows: each counts the same.
    weight = torch.ones(len(data.measured), dtype=torch.float64)
    weight[~data.steps] = 8.0
    weight[data.gpus > GPUS_PER_NODE] = 4.0
    for _ in range(steps):
        optimizer.zero_grad()
        error = (predict(data, p, launch).log() - data.measured.log())[training]
        distance = sum((RIDGE.get(name, 1.0) * (p[name] - prior[name]) ** 2).sum() for name in p)
        loss = torch.nn.functional.huber_loss(error, torch.zeros_like(error), delta=0.1, reduction="none") / 0.1
        (((loss * weight[training]).sum() / weight[training].sum()) + 0.002 * distance).backward()
        optimizer.step()
        schedule.step()
    return {name: value.detach() for name, value in p.items()}


def rows_of(tables: Path) -> list[Row]:
    a100 = card_by_name("A100-40GB")
    rows: list[Row] = []
    for name in ("single", "multi"):
        for layout, measured in vtrain(tables / f"vtrain_ground_truth_{name}.csv"):
            rows.append((name, layout, a100, measured, f"{layout.hidden} {layout.layers}"))
    for device, workload, layout, measured in neusight(tables / "neusight_e2e.csv"):
        card = card_by_name(
            {"NVIDIA_A100_80GB_PCIe": "A100-PCIE-80GB", "Tesla_V100-PCIE-32GB": "V100-PCIE-32GB"}.get(device, device)
        )
        rows.append(("neusight", layout, card, measured, f"{card.name} {workload.split('-')[0]}"))
    return rows


def show(rows: list[Row], predicted: torch.Tensor, label: str) -> dict[str, list[float]]:
    spread = {}
    for source in ("single", "multi", "neusight"):
        ratios = sorted(row[3] / float(p) for row, p in zip(rows, predicted, strict=True) if row[0] == source)
        mape = 100 * statistics.mean(abs(1 / ratio - 1) for ratio in ratios)
        spread[source] = [ratios[int(0.05 * len(ratios))], ratios[int(0.95 * len(ratios))]]
        print(
            f"{label} {source}: {len(ratios)} rows, MAPE {mape:.1f}, 90% of measured / predicted in {spread[source]}",
            flush=True,
        )
    return spread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--folds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    table = json.loads(OUT.read_text())
    rows = rows_of(args.tables)
    data = Data(rows, {row["key"]: row for row in map(json.loads, args.rows.open())}, table)
    everything = torch.ones(len(rows), dtype=torch.bool)
    fitted = fit(data, everything, table["launch"], args.steps)
    show(rows, predict(data, fitted, table["launch"]), "in-sample")
    for name, value in fitted.items():
        print(name, [float(f"{float(v.exp()):.3g}") for v in value.reshape(-1)], data.kinds if value.dim() else "")
    groups = {name: index % args.folds for index, name in enumerate(sorted({row[4] for row in rows}))}
    fold = torch.tensor([groups[row[4]] for row in rows])
    crossed = torch.zeros(len(rows), dtype=torch.float64)
    for index in range(args.folds):
        held = fold == index
        crossed[held] = predict(data, fit(data, ~held, table["launch"], args.steps), table["launch"])[held]
    spread = show(rows, crossed, "cross-fitted")
    if args.write:
        exact = {name: [round(float(v.exp()), 8) for v in value.reshape(-1)] for name, value in fitted.items()}
        cards = {
            kind: {"compute": exact["card compute"][i], "memory": exact["card memory"][i]}
            for i, kind in enumerate(data.kinds)
        }
        table["transformers"] = {name: exact[name][0] for name in START} | {"interval": spread["single"]}
        table["cards"] = cards
        OUT.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
