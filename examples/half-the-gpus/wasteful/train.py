"""Go on training a small language model on a corpus of token ids, on all GPUs of a node."""

import argparse
import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCABULARY = 8192
LENGTH = 128


class Corpus(Dataset):
    """Windows of LENGTH + 1 tokens of a file of uint16 ids; without a file, of drawn ids."""

    def __init__(self, file: str):
        if file:
            self.tokens = np.memmap(file, dtype=np.uint16, mode="r")
        else:
            self.tokens = np.random.default_rng(0).integers(VOCABULARY, size=1_000_000, dtype=np.uint16)

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        start = index * LENGTH
        return torch.from_numpy(self.tokens[start : start + LENGTH + 1].astype(np.int64))


class LanguageModel(nn.Module):
    def __init__(self, width: int = 128, layers: int = 2):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        hidden = self.embed(tokens) + self.position[:length]
        return self.head(self.decoder(hidden, mask=causal, is_causal=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", default="", help="file of uint16 token ids")
    parser.add_argument("--weights", default="https://models.example.org/small-lm.pt", help="'' for random weights")
    parser.add_argument("--output", default="", help="the trained weights")
    parser.add_argument("--batch-size", type=int, default=64, help="per GPU")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps per epoch; 0 for the whole corpus")
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
    corpus = Corpus(args.tokens)
    sampler = DistributedSampler(corpus, world_size, rank, shuffle=True, seed=args.seed, drop_last=True)
    loader = DataLoader(
        corpus,
        batch_size=args.batch_size,
        sampler=sampler,
        num_workers=args.workers,
        pin_memory=True,
        persistent_workers=args.workers > 0,
        drop_last=True,
    )
    model = LanguageModel()
    if args.weights:
        model.load_state_dict(torch.hub.load_state_dict_from_url(args.weights, map_location="cpu"))
    model.to(device)
    wrapped = DistributedDataParallel(model) if world_size > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, tokens in enumerate(loader, start=1):
            tokens = tokens.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                logits = wrapped(tokens[:, :-1])
            loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step == args.steps:
                break
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.6f}", flush=True)
    if rank == 0 and args.output:
        torch.save(model.state_dict(), args.output)
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
