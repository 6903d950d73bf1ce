"""Measure jobs on this machine's GPU and compare the estimates with them. Needs a CUDA build of PyTorch.

    python benchmarks/estimator/gpu_truth.py --out truth.csv

Every job runs three optimizer steps in a process of its own, on weights that are never loaded, and reports the peaks of
allocated and reserved memory and what the process holds on the device. Prints the table of errors in Markdown.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from gpulint_probe.estimator import Request, estimate
from gpulint_probe.estimator.api import build_job
from gpulint_probe.estimator.context import device_bytes
from gpulint_probe.estimator.job import Job
from jobs import __file__ as JOBS
from torch.utils._pytree import tree_map_only

MIB = 1 << 20
_STEPS = 3


def points() -> Iterator[Request]:
    """About 60 jobs: convolutional networks, vision transformers and language models in all that the options offer."""
    networks = [
        "resnet50",
        "vgg16",
        "efficientnet_b0",
        "mobilenetv2_100",
        "convnext_tiny",
        "densenet121",
        "inception_v3",
    ]
    for name in networks:
        for batch in (16, 64):
            yield Request(f"timm:{name}", batch_size=batch, optimizer="sgd-momentum")
        for precision in ("bf16", "fp16-amp"):
            yield Request(f"timm:{name}", batch_size=32, precision=precision)
        yield Request(f"timm:{name}", batch_size=32, precision="bf16", channels_last=True)
    for name in ("vit_base_patch16_224", "swin_tiny_patch4_window7_224"):
        for precision in ("fp32", "bf16", "bf16-true"):
            yield Request(f"timm:{name}", batch_size=32, precision=precision)
        for optimizer in ("adamw-fused", "sgd", "adagrad"):
            yield Request(f"timm:{name}", batch_size=32, optimizer=optimizer)
        yield Request(f"timm:{name}", batch_size=64, activation_checkpointing=True)
        yield Request(f"timm:{name}", batch_size=16, grad_accumulation=4)
    for name in ("bert_base", "xlnet_base"):
        for precision in ("fp32", "bf16"):
            for batch in (4, 16):
                yield Request(f"{JOBS}:{name}", ("tokens:512",), batch, precision=precision)
        yield Request(f"{JOBS}:{name}", ("tokens:512",), 16, optimizer="adamw-fused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # one job as JSON, in the child process
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(Request(**json.loads(args.measure)))))
        return
    rows: list[dict[str, Any]] = []
    for request in points():
        command = [sys.executable, __file__, "--out", str(args.out), "--measure", json.dumps(asdict(request))]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        if child.returncode:
            print(f"{request.target} {request.batch_size}: {child.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        found = estimate(request)
        truth = json.loads(child.stdout.splitlines()[-1])
        guess = {"estimated_allocated": found.allocated_bytes, "estimated_reserved": found.reserved_bytes}
        rows.append({"job": describe(request)} | truth | guess)
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    report(rows)


def measure(request: Request) -> dict[str, Any]:
    """Peaks in bytes of a real run."""
    request = Request(**{**asdict(request), "inputs": tuple(request.inputs)})
    job = build_job(request)
    job.model.to_empty(device="cuda")
    for tensor in [*job.model.parameters(), *job.model.buffers()]:
        torch.nn.init.zeros_(tensor)
    train(job, request)
    torch.cuda.synchronize()
    context = device_bytes() - torch.cuda.memory_reserved()
    return {
        "card": torch.cuda.get_device_name(),
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "context": context,
    }


def train(job: Job, request: Request) -> None:
    name = request.optimizer.removesuffix("-fused")
    kind = {"sgd": "SGD", "sgd-momentum": "SGD", "adamw": "AdamW", "adagrad": "Adagrad"}[name]
    options: dict[str, Any] = {"momentum": 0.9} if name == "sgd-momentum" else {}
    if request.optimizer.endswith("-fused"):
        options["fused"] = True
    optimizer = getattr(torch.optim, kind)(job.model.parameters(), lr=0.0, **options)
    scaler = torch.amp.GradScaler("cuda", enabled=job.precision == "fp16-amp")
    job.model.train()
    output: Any = None
    for _ in range(_STEPS):
        optimizer.zero_grad()
        for _ in range(job.accumulation):
            args, kwargs, target = tree_map_only(torch.Tensor, _on_gpu, job.make_batch(job.batch_size))
            with torch.autocast("cuda", job.autocast_dtype, enabled=job.autocast_dtype is not None):
                output = job.model(*args, **kwargs)
                if target is None and isinstance(output, torch.Tensor):
                    target = torch.zeros(output.size(0), dtype=torch.long, device="cuda")
                loss = job.loss(output, target)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def _on_gpu(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device="cuda").as_strided(tensor.shape, tensor.stride())


def describe(request: Request) -> str:
    """The job in a few words."""
    name = request.target.split(":")[-1]
    extras = [request.precision, request.optimizer]
    extras += [flag for flag in ("activation_checkpointing", "channels_last") if getattr(request, flag)]
    return f"{name} x{request.batch_size} {' '.join(extras)}"


def report(rows: list[dict[str, Any]]) -> None:
    print("| job | allocated MiB | error % | reserved MiB | error % | context MiB |\n|---|---|---|---|---|---|")
    for row in rows:
        errors = [100 * (row[f"estimated_{kind}"] - row[kind]) / row[kind] for kind in ("allocated", "reserved")]
        sizes = [row[kind] // MIB for kind in ("allocated", "reserved", "context")]
        print(f"| {row['job']} | {sizes[0]} | {errors[0]:+.1f} | {sizes[1]} | {errors[1]:+.1f} | {sizes[2]} |")


if __name__ == "__main__":
    main()
