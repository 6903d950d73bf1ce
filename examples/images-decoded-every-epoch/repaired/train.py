"""Train a small residual network on photographs."""

import argparse
from pathlib import Path

import torch
from photos import Photos
from torch import nn
from torch.utils.data import DataLoader


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip = nn.Conv2d(inputs, outputs, 1, stride=2, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(images) + self.skip(images))


class Classifier(nn.Module):
    def __init__(self, classes: int, width: int = 32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            Residual(width, 2 * width),
            Residual(2 * width, 4 * width),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4 * width, classes),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.body(images)


def augment(pixels: torch.Tensor) -> torch.Tensor:
    """Scale to [-1, 1] and mirror half of the batches, on the device of the pixels."""
    images = pixels.float() / 127.5 - 1
    return images.flip(-1) if torch.rand(()) < 0.5 else images


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pixels", type=Path, default=Path("pixels"), help="what preprocess.py wrote")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps per epoch; 0 for the whole set")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    photos = Photos(args.pixels)
    loader = DataLoader(
        photos,
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        persistent_workers=args.workers > 0,
    )
    model = Classifier(len(photos.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        for step, (pixels, labels) in enumerate(loader, start=1):
            pixels = pixels.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(augment(pixels)), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step == args.steps:
                break
        print(f"epoch {epoch} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
