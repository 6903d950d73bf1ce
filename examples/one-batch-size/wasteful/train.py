"""Train a sentiment classifier on tokenised reviews and evaluate it after every epoch."""

import argparse

import torch
from reviews import PADDING, VOCABULARY, Reviews
from torch import nn
from torch.utils.data import DataLoader


class Classifier(nn.Module):
    def __init__(self, width: int = 128, layers: int = 2):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width, padding_idx=PADDING)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        padding = tokens == PADDING
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=padding)
        words = (~padding).unsqueeze(-1)
        return self.head((hidden * words).sum(dim=1) / words.sum(dim=1))


def train_epoch(model, loader, optimizer, device, args):
    model.train()
    for step, (tokens, labels) in enumerate(loader, start=1):
        tokens = tokens.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(tokens), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step == args.steps:
            break
    return loss.item()


def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros((), dtype=torch.long, device=device)
    for tokens, labels in loader:
        tokens = tokens.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(tokens)
        correct += (logits.argmax(dim=1) == labels).sum()
    return correct.item() / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps per epoch; 0 for the whole set")
    parser.add_argument("--reviews", type=int, default=25_000, help="size of the training set")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    common = {"num_workers": args.workers, "pin_memory": True, "persistent_workers": args.workers > 0}
    train_set = Reviews(args.reviews, seed=1)
    val_set = Reviews(max(args.reviews // 50, 1), seed=10_000_000)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, **common)
    val_loader = DataLoader(val_set, batch_size=args.batch_size, **common)

    model = Classifier().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(args.epochs):
        loss = train_epoch(model, train_loader, optimizer, device, args)
        accuracy = evaluate(model, val_loader, device)
        print(f"epoch {epoch} loss {loss:.6f} accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
