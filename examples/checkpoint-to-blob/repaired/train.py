"""Train a click-through model with large embedding tables and keep a checkpoint of every epoch."""

import argparse
from pathlib import Path

import torch
from background import BackgroundCheckpoints
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIELDS = 24
IDS_PER_FIELD = 4096


class Impressions(Dataset):
    """Shown advertisements and whether they were clicked. They are drawn here; a real job reads its logs."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(0, IDS_PER_FIELD, (FIELDS,), generator=generator)
        clicked = (ids[0] + ids[1] < IDS_PER_FIELD // 2).float()
        return ids + IDS_PER_FIELD * torch.arange(FIELDS), clicked


class ClickModel(nn.Module):
    def __init__(self, width: int = 16):
        super().__init__()
        self.embed = nn.Embedding(FIELDS * IDS_PER_FIELD, width)
        self.top = nn.Sequential(
            nn.Linear(FIELDS * width, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.top(self.embed(ids).flatten(1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="/mnt/blob/runs/click-model", help="checkpoints go here")
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps per epoch; 0 for the whole set")
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    output = Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    loader = DataLoader(
        Impressions(args.impressions),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        persistent_workers=args.workers > 0,
    )
    model = ClickModel().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    with BackgroundCheckpoints() as checkpoints:
        for epoch in range(args.epochs):
            for step, (ids, clicked) in enumerate(loader, start=1):
                ids = ids.to(device, non_blocking=True)
                clicked = clicked.to(device, non_blocking=True)
                with torch.autocast(device.type, dtype=torch.bfloat16):
                    logits = model(ids)
                loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), clicked)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                if step == args.steps:
                    break
            print(f"epoch {epoch} loss {loss.item():.6f}", flush=True)
            state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            checkpoints.save(state, output / f"epoch-{epoch}.pt")


if __name__ == "__main__":
    main()
