"""Train a convolutional network that names the kind of a heart beat."""

import argparse

import torch
from beats import KINDS, LEADS, Beats
from torch import nn
from torch.utils.data import DataLoader


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
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps per epoch; 0 for the whole set")
    parser.add_argument("--beats", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"{torch.cuda.device_count()} GPUs", flush=True)
    loader = DataLoader(
        Beats(args.beats),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        persistent_workers=args.workers > 0,
        drop_last=True,
    )
    model = build().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
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
        print(f"epoch {epoch} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
