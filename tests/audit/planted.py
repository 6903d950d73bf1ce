"""Jobs with planted series: every definition met, missed, and met or missed by a hair; gaps, MIG, resets."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

START = 1_760_000_000
CARD = 80e9
MORE = (
    "sm_activity power_w memory_bytes memory_total_bytes pcie_rx_bytes_s nvlink_tx_bytes_s xid throttle_reasons".split()
)
"""Columns that only some jobs have."""
Row = dict[str, Any]
Level = Callable[[float], float | None]


class Maker:
    """Makes jobs one after the other, each of the next kind."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.jobs: list[Row] = []
        self.samples: dict[str, list[Row]] = {}
        self.kinds: dict[str, str] = {}

    def job(self, what: str, gpus: float, seconds: float, **fields: Any) -> Row:
        number = len(self.jobs)
        start = START + 1000 * number
        job = {"job": f"j{number}", "user": f"user{number % 17}", "queue": f"q{number % 5}", "submit": start - 30,
               "start": start, "end": start + seconds, "gpus": gpus, "kind": "train", "state": "COMPLETED",
               "command": "python train.py", "workdir": "", "image": "", **fields}  # fmt: skip
        self.jobs.append(job)
        self.samples[job["job"]] = []
        self.kinds[job["job"]] = what
        return job

    def series(
        self, job: Row, gpu: str, used: Level, held: Level = lambda _: 20e9, *, every: float = 15.0, node: str = "n0",
        cpu: Level = lambda _: 0.3, jitter: float = 0.0, total: float | None = CARD, gaps: list[tuple[float, float]] = [],  # noqa: B006
        offset: float = 0.0, **more: Level,
    ) -> None:  # fmt: skip
        """Samples of one GPU; levels are functions of the seconds since the start of the job, ``more`` of other columns."""
        at, life = offset, job["end"] - job["start"]
        while at < life:
            if not any(begin <= at < end for begin, end in gaps):
                self.samples[job["job"]].append(
                    {"timestamp": round(job["start"] + at, 3), "job": job["job"], "gpu": gpu, "gpu_utilization": used(at),
                     "gpu_memory_bytes": held(at), "gpu_memory_total_bytes": total, "cpu_utilization": cpu(at),
                     "node": f"{job['job']}-{node}", **{name: level(at) for name, level in more.items()}}
                )  # fmt: skip
            at += every + (self.random.uniform(-jitter, jitter) * every if jitter else 0.0)


def busy(level: float) -> Level:
    return lambda _: level


def idle_between(*slots: tuple[float, float], level: float) -> Level:
    return lambda at: 0.0 if any(begin <= at < end for begin, end in slots) else level


def _kinds(maker: Maker, number: int) -> Iterator[None]:
    r = maker.random
    every = (15.0, 30.0, 60.0)[number % 3]
    life = float(r.randrange(20, 60) * 120)
    level = r.uniform(0.05, 1.0)

    job = maker.job("busy", r.choice((1, 2, 4, 8)), life)
    for gpu in range(int(job["gpus"])):
        maker.series(job, str(gpu), busy(r.uniform(0.0, 1.0) if gpu else level), every=every)
    yield

    length = (45.0, 60.0, 75.0, 300.0, 59.0)[number % 5]
    job = maker.job("idle slots", 2, life)
    slots = [(300.0, 300.0 + length), (900.0, 900.0 + 2 * length)]
    empty = idle_between(*slots, level=10e9)
    maker.series(job, "0", idle_between(*slots, level=level), empty, every=(15.0, 1.0)[number % 2])
    maker.series(job, "1", idle_between(*slots, level=level), busy(10e9), every=15.0)
    yield

    job = maker.job("idle at the end", 2, life, kind="debug")
    stop = life - r.randrange(1, 8) * 120
    for gpu in "01":
        maker.series(
            job, gpu, lambda at: level if at < stop else 0.0, lambda at: 5e9 if at < stop else 0.0, every=every
        )
    yield

    job = maker.job("idle at the start", 1, life)
    begin = r.randrange(1, 8) * 120
    maker.series(job, "0", lambda at: level if at >= begin else 0.0, every=every)
    yield

    wanted = r.choice((2, 4, 8, 16))
    job = maker.job("some never used", wanted, life)
    for gpu in range(wanted):
        maker.series(
            job, str(gpu), busy(level if gpu < wanted // 2 else 0.0), busy(5e9 if gpu % 3 else 0.0), every=every
        )
    yield

    job = maker.job("none ever used", r.choice((1, 2)), life)
    for gpu in range(job["gpus"]):
        maker.series(job, str(gpu), busy(0.0), busy((0.0, 3e9)[number % 2]), every=every)
    yield

    windows = int(life // 120)
    floating = {0: windows, 1: windows * 3 // 4, 2: windows * 3 // 4 + 1, 3: windows // 2}[number % 4]
    swing = 0.9 if number % 7 == 3 else 0.95

    def shaky(at: float) -> float:
        return (0.02 + swing if int(at // every) % 2 else 0.02) if at // 120 < floating else 0.5

    job = maker.job("fluctuating", 2, life)
    maker.series(job, "0", shaky, every=every)
    maker.series(job, "1", busy(0.5), every=every)
    yield

    job = maker.job("fluctuating CPU", 1, life)
    maker.series(job, "0", busy(0.5), cpu=shaky, every=every)
    yield

    gpu_level, cpu_level = ((0.9, 0.1), (0.1, 0.9), (0.9, 0.5), (0.79, 0.1), (0.9, 0.21))[number % 5]
    job = maker.job("mismatch", 1, life)
    maker.series(job, "0", busy(gpu_level), busy(40e9), cpu=busy(cpu_level), every=every)
    yield

    job = maker.job("gaps", 2, life)
    lost = [(600.0, 600.0 + r.randrange(5, 15) * 60), (life - 300.0, life)]
    maker.series(job, "0", busy(level), gaps=lost, every=every)
    maker.series(job, "1", busy(0.0), busy(0.0), gaps=[(0.0, 240.0), *lost[:1]], every=every)
    yield

    job = maker.job("slot cut by a gap", 1, life)
    slot = (600.0, 840.0)
    maker.series(job, "0", idle_between(slot, level=level), idle_between(slot, level=1e9), gaps=[(645.0, 795.0)])
    yield

    job = maker.job("a GPU without samples", 4, life)
    for gpu in "012":
        maker.series(job, gpu, busy(level if gpu != "2" else 0.0), busy(0.0), every=every)
    yield

    maker.job("no samples", 2, life)
    yield

    job = maker.job("irregular", 2, life)
    maker.series(
        job, "0", lambda at: 1.0 if int(at) % 7 < 4 else 0.0, lambda at: 0.0 if int(at) % 3 else 2e9, jitter=0.8
    )
    maker.series(job, "1", lambda at: r.choice((0.0, 0.0, 0.0, 1.0)), lambda _: 0.0, jitter=0.9)
    yield

    profiles = r.choice((["1g.10gb", "3g.40gb"], ["1g.6gb", "2g.12gb"], ["7g.80gb"]))
    job = maker.job("MIG", len(profiles), life)
    for place, profile in enumerate(profiles):
        maker.series(
            job, f"GPU-7/{place} {profile}", busy((level, 0.0)[place]), busy((5e9, 0.0)[place]), every=every, total=10e9
        )
    yield

    job = maker.job("half a GPU", 0.5, life)
    maker.series(job, "0", idle_between((240.0, 480.0), level=level), busy(0.0), every=every)
    yield

    job = maker.job("nodes", 4, life)
    for node in ("n0", "n1"):
        for gpu in "01":
            maker.series(job, gpu, busy(level if node == "n0" else 0.2), node=node, every=every)
    yield

    job = maker.job("values that are missing", 1, life)
    maker.series(
        job, "0", lambda at: None if 500 <= at < 900 or at % 240 == 0 else level, lambda at: None if at < 300 else 0.0
    )
    yield

    job = maker.job("doubled samples", 1, life)
    maker.series(
        job, "0", idle_between((300.0, 600.0), level=level), idle_between((300.0, 600.0), level=1e9), every=every
    )
    maker.samples[job["job"]] += [dict(row) for row in maker.samples[job["job"]][3:20]]
    yield

    job = maker.job("samples around its life", 1, life)
    late = {**job, "start": job["start"] - 100, "end": job["end"] + 100}
    maker.series(late, "0", busy(0.0 if number % 2 else level), busy(0.0), every=every)
    yield

    job = maker.job("one sample", 2, life)
    maker.samples[job["job"]].append(
        {"timestamp": job["start"] + 60, "job": job["job"], "gpu": "0", "gpu_utilization": 0.0, "gpu_memory_bytes": 0.0}
    )
    maker.series(job, "1", busy(level), every=every)
    yield

    job = maker.job("stable phases", 1, life)
    steps = [r.uniform(60e9, 80e9) for _ in range(50)]
    maker.series(job, "0", busy(level), lambda at: steps[int(at // 180) % 50], every=every)
    yield

    job = maker.job("memory of unknown size", 1, life)
    maker.series(job, "0", busy(level), every=every, total=None)
    yield

    turn = (30.0, 120.0, 240.0, 480.0)[number % 4]
    job = maker.job("ranks in turn", 4, life, kind="")
    for rank in range(4):
        awake = lambda at, rank=rank: level if int(at // turn) % 2 == rank % 2 else 0.1 * rank  # noqa: E731
        lost = [(480.0, 960.0)] if rank == number % 4 else []
        maker.series(job, str(rank % 2), awake, node=f"n{rank // 2}", every=every, gaps=lost)
    yield

    job = maker.job("hardware", 2, life, kind="", command=("jupyter lab", "python train.py --epochs 3")[number % 2])
    for gpu in "01":
        maker.series(
            job, gpu, idle_between((300.0, 600.0), level=level), every=every, cpu=busy(0.2),
            sm_activity=busy(0.3 * level), power_w=lambda at: 90.0 if 300 <= at < 600 else 400.0,
            memory_bytes=lambda at: 5e10 + at * 1e6, memory_total_bytes=busy(1e12), pcie_rx_bytes_s=lambda at: at * 1e6,
            nvlink_tx_bytes_s=busy(4e9), xid=lambda at, failing=gpu == "1": (0.0, 63.0, 79.0)[failing * ((at > 200) + (at > 900))],
            throttle_reasons=lambda at: (0.0, 0x04, 0x24, 0x01, 0x88)[int(at // 120) % 5],
        )  # fmt: skip
    yield

    job = maker.job("sudden drops", 1, life)
    dips = [(600.0 * place, 600.0 * place + (15.0, 30.0, 90.0)[number % 3]) for place in range(1, 4)]
    maker.series(
        job, "0", lambda at: 0.2 if any(begin <= at < end for begin, end in dips) else 0.9 - 0.01 * (int(at) % 5)
    )
    yield

    job = maker.job("levels of memory", 2, life)
    maker.series(job, "0", busy(level), lambda at: 10e9 + 20e9 * (at // 300 % 3), every=every, gaps=[(450.0, 750.0)])
    maker.series(job, "1", busy(level), lambda at: 10e9 + 0.09e9 * (at // 15 % 4), every=every)
    yield


def plant(count: int, seed: int = 1) -> Maker:
    """At least ``count`` jobs, of all kinds in turn."""
    maker = Maker(seed)
    number = 0
    while len(maker.jobs) < count:
        for _ in _kinds(maker, number):
            pass
        number += 1
    return maker


def write(maker: Maker, folder: Path, *, shuffle: bool = True) -> None:
    """jobs.csv and samples.csv, the samples in any order."""
    with (folder / "jobs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(maker.jobs[0]))
        writer.writeheader()
        writer.writerows(maker.jobs)
    rows = [row for found in maker.samples.values() for row in found]
    if shuffle:
        maker.random.shuffle(rows)
    names = ["timestamp", "job", "gpu", "gpu_utilization", "gpu_memory_bytes", "gpu_memory_total_bytes",
             "cpu_utilization", "node", *MORE]  # fmt: skip
    with (folder / "samples.csv").open("w", newline="", encoding="utf-8") as file:
        samples = csv.DictWriter(file, names)
        samples.writeheader()
        samples.writerows(rows)
