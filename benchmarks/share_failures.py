"""Which pairs of Gavel's jobs could not run together: ``share_failures.py --data FOLDER [--gavel CHECKOUT]``.

FOLDER holds gavel_pairs_physical.csv. First the best precision that the data allow, then what ``learn_failures`` says
of pairs that it has not seen on any card, and of models that it has not seen at all; with --gavel also what the memory
that ``gpulint estimate`` expects of the jobs says, which nothing here is fitted to, and both together.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
from pathlib import Path

import numpy as np
from gpulint_share.prediction.failures import Filled, learn_failures

CARDS = {"v100": 16.0, "p100": 16.0, "k80": 11.17}
"""GiB."""
HEADROOM = 2.0
A3C = {"device_bytes": 0.8, "low_bytes": 0.5, "high_bytes": 1.5}
FOLDS, SEEDS = 10, 3
Row = tuple[str, str, str, bool]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--gavel", type=Path, metavar="CHECKOUT", help="estimate from its code (needs torchvision)")
    args = parser.parse_args()
    with (args.data / "gavel_pairs_physical.csv").open(newline="") as file:
        rows = [
            (row["job_a"], row["job_b"], row["card"], float(row["norm_a"]) == float(row["norm_b"]) == 0.0)
            for row in csv.DictReader(file)
        ]
    failed = np.array([row[3] for row in rows])
    print(f"{failed.sum()} of {len(rows)} pairs failed")
    show_bounds(rows)
    show_learned(rows, failed)
    if args.gavel:
        show_estimated(rows, failed, args.gavel)


def show_bounds(rows: list[Row]) -> None:
    """Pairs that ran, but that any rule calls that finds all failures and holds larger batches for no smaller."""
    failed = [row for row in rows if row[3]]
    for words, covers in (
        ("batches on the same card", lambda card, other: card == other),
        ("memory, also on cards of no more of it", lambda card, other: CARDS[other] <= CARDS[card]),
    ):
        called = [
            row for row in rows
            if not row[3] and any(covers(one[2], row[2]) and _no_smaller(row[:2], one[:2]) for one in failed)
        ]  # fmt: skip
        print(f"  a rule on {words} calls {len(called)} pairs that ran: precision at most "
              f"{len(failed) / (len(failed) + len(called)):.3f} at a recall of 1.0")  # fmt: skip
        print("    " + "; ".join(f"{card}: {one} and {other}" for one, other, card, _ in called))


def _no_smaller(pair: tuple[str, ...], than: tuple[str, ...]) -> bool:
    wanted = [_model(job) for job in than]
    return any(
        all(mine[0] == other[0] and mine[1] >= other[1] for mine, other in zip(order, wanted, strict=True))
        for order in ([_model(job) for job in pair], [_model(job) for job in pair[::-1]])
    )


def _model(job: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?) \(batch size (\d+)\)", job)
    return (found[1], int(found[2])) if found else (job, 1)


def show_learned(rows: list[Row], failed: np.ndarray, words: str = "learned", filled: Filled | None = None) -> None:
    known = learn_failures(rows, filled)
    show(f"{words}, in-sample", np.array([known.risk(*row[:3]) for row in rows]), failed)
    pairs = list(dict.fromkeys(row[:2] for row in rows))
    for seed in range(SEEDS):
        fold = dict(zip(pairs, np.random.default_rng(seed).permutation(len(pairs)) % FOLDS, strict=True))
        risk = np.zeros(len(rows))
        for number in range(FOLDS):
            known = learn_failures((row for row in rows if fold[row[:2]] != number), filled)
            for place, row in enumerate(rows):
                if fold[row[:2]] == number:
                    risk[place] = known.risk(*row[:3])
        show(f"{words}, pairs held out on all cards, seed {seed}", risk, failed)
    risks: list[list[float]] = [[] for _ in rows]
    for model in sorted({_model(job)[0] for row in rows for job in row[:2]}):
        held = [model in (_model(row[0])[0], _model(row[1])[0]) for row in rows]
        known = learn_failures((row for row, out in zip(rows, held, strict=True) if not out), filled)
        for place, out in enumerate(held):
            if out:
                risks[place].append(known.risk(*rows[place][:3]))
    show(f"{words}, each model held out", np.array([np.mean(some) for some in risks]), failed)


def show(name: str, risk: np.ndarray, failed: np.ndarray) -> None:
    cells = []
    ordered = np.sort(risk[failed])
    for least in (0.5, 0.1, ordered[len(ordered) // 10], ordered[0]):
        called = risk >= least
        cells.append(f"risk >= {least:.3f}: {_score(called, failed)}")
    print(f"  {name}: {'; '.join(cells)}")


def _score(called: np.ndarray, failed: np.ndarray) -> str:
    right = (called & failed).sum()
    return f"recall {right / failed.sum():.2f}, precision {right / max(1, called.sum()):.2f} ({called.sum()} called)"


def show_estimated(rows: list[Row], failed: np.ndarray, gavel: Path) -> None:
    from gpulint_probe.estimator import estimate

    os.environ["GAVEL"] = str(gavel.resolve())
    from share_gavel_models import JOBS

    held: dict[str, dict[str, float]] = {"A3C": A3C}
    for job in sorted({name for row in rows for name in row[:2]} - {"A3C"}):
        model, batch = _model(job)
        factory, inputs, loss, optimizer = JOBS[model]
        answer = estimate(
            f"{Path(__file__).with_name('share_gavel_models.py')}:{factory}", inputs=inputs, batch_size=batch,
            optimizer=optimizer, gpu="V100-16GB", loss=loss,
        ).to_json()  # fmt: skip
        held[job] = {name: answer[name] / (1 << 30) for name in A3C}
        print(f"  {job}: {held[job]['device_bytes']:.1f} ({held[job]['low_bytes']:.1f} to "
              f"{held[job]['high_bytes']:.1f}) GiB")  # fmt: skip
    for words, bound, spare in (
        ("estimates fill the card", "device_bytes", 0.0), ("estimates and 2 GiB do not fit", "device_bytes", HEADROOM),
        ("upper bounds and 2 GiB do not fit, as plans ask", "high_bytes", HEADROOM),
    ):  # fmt: skip
        called = np.array([held[a][bound] + held[b][bound] + spare > CARDS[card] for a, b, card, _ in rows])
        print(f"  {words}: {_score(called, failed)}")

    def share(a: str, b: str, card: str) -> float:
        return (held[a]["device_bytes"] + held[b]["device_bytes"]) / CARDS[card]

    show_learned(rows, failed, "learned, with estimates", share)
    filled = np.array([share(*row[:3]) for row in rows])
    for low, high in ((0.0, 0.5), (0.5, 0.75), (0.75, 1.0), (1.0, 9.0)):
        some = (filled >= low) & (filled < high)
        print(f"  estimates fill {low:.0%} to {high:.0%}: {(some & failed).sum()} of {some.sum()} failed")
    print("  failed with the least of the card filled: " + "; ".join(
        f"{rows[at][0]} and {rows[at][1]} on {rows[at][2]} {filled[at]:.0%}"
        for at in sorted(np.nonzero(failed)[0], key=lambda at: filled[at])[:5]))  # fmt: skip


if __name__ == "__main__":
    main()
