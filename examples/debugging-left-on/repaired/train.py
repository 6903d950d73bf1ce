"""Train a network that removes noise from pictures."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 64


class Pictures(Dataset):
    """A noisy picture and the clean one. They are drawn here; a real job reads its files."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        coarse = torch.rand(1, 3, 8, 8, generator=generator)
        clean = nn.functional.interpolate(coarse, size=(SIDE, SIDE), mode="bicubic")[0]
        return clean + 0.1 * torch.randn(3, SIDE, SIDE, generator=generator), clean


class Denoiser(nn.Module):
    """Predicts the noise and takes it away."""

    def __init__(self, width: int = 32, layers: int = 4):
        super().__init__()
        body = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(layers):
            body += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(inplace=True)]
        self.noise = nn.Sequential(*body, nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, noisy: torch.Tensor) -> torch.Tensor:
        return noisy - self.noise(noisy)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps per epoch; 0 for the whole set")
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--detect-anomaly", action="store_true", help="find the operation that made a NaN; slow")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.autograd.set_detect_anomaly(args.detect_anomaly)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Pictures(args.pictures),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        persistent_workers=args.workers > 0,
        drop_last=True,
    )
    model = Denoiser().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for step, (noisy, clean) in enumerate(loader, start=1):
            noisy = noisy.to(device, non_blocking=True)
            clean = clean.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(noisy), clean)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step == args.steps:
                break
        print(f"epoch {epoch} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
