"""Train a small U-Net that names the land cover of every pixel of satellite tiles."""

import argparse

import torch
from tiles import BANDS, CLASSES, Tiles
from torch import nn
from torch.utils.data import DataLoader


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, width: int = 16):
        super().__init__()
        self.down = block(BANDS, width)
        self.bottom = block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.merge = block(2 * width, width)
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        fine = self.down(images)
        coarse = self.bottom(nn.functional.max_pool2d(fine, 2))
        return self.head(self.merge(torch.cat([fine, self.up(coarse)], dim=1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps per epoch; 0 for the whole set")
    parser.add_argument("--tiles", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(Tiles(args.tiles), batch_size=args.batch_size, shuffle=True)

    model = UNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for step, (images, cover) in enumerate(train_loader, start=1):
            images = images.to(device)
            cover = cover.to(device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(images), cover)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step == args.steps:
                break
        print(f"epoch {epoch} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
