"""Train a convolutional network that names the kind of a heart beat, on all GPUs of a node.

``torchrun`` starts one process per GPU; ``python train.py`` alone trains in one process.
"""

import argparse
import os

import torch
import torch.distributed as dist
from beats import KINDS, LEADS, Beats
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def layer(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, 9, stride=4, padding=4, bias=False),
        nn.BatchNorm1d(outputs),
        nn.ReLU(inplace=True),
    )


def build(width: int = 64) -> nn.Module:
    return nn.Sequential(
        layer(LEADS, width),
        layer(width, 2 * width),
        layer(2 * width, 4 * width),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(4 * width, KINDS),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=256, help="over all GPUs")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps per epoch; 0 for the whole set")
    parser.add_argument("--beats", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=4, help="per process")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    rank = int(os.environ.get("RANK", 0))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        device = torch.device("cuda", local_rank)
    else:
        device = torch.device("cpu")
    if world_size > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    torch.manual_seed(args.seed)
    beats = Beats(args.beats)
    sampler = DistributedSampler(beats, world_size, rank, shuffle=True, seed=args.seed, drop_last=True)
    loader = DataLoader(
        beats,
        batch_size=args.batch_size // world_size,
        sampler=sampler,
        num_workers=args.workers,
        pin_memory=True,
        persistent_workers=args.workers > 0,
        drop_last=True,
    )
    model = build().to(device)
    if world_size > 1:
        model = DistributedDataParallel(model, device_ids=[local_rank] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, (signals, kinds) in enumerate(loader, start=1):
            signals = signals.to(device, non_blocking=True)
            kinds = kinds.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(signals), kinds)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step == args.steps:
                break
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.6f}", flush=True)
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
