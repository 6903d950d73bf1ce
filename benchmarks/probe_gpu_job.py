"""A training job with switches for the habits that probe_gpu.py compares. Models are built from their configurations.

Prints what training programs print, and writes when it worked, how much and at what CPU time to ``--result``.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

POOL = 256
"""Samples that are drawn once; the set repeats them."""
SIZES = {"tiny": (2, 32, 32), "base": (12, 768, 224)}
"""Layers, width and image size."""


def bert(size: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A classifier like BERT, and a pool of samples of 128 tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    layers, width, _ = SIZES[size]
    config = BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 16 if size == "tiny" else width // 64,
        intermediate_size=4 * width, num_labels=2, vocab_size=1000 if size == "tiny" else 30522,
    )  # fmt: skip
    tokens = torch.randint(0, config.vocab_size, (POOL, 128))
    return BertForSequenceClassification(config), {"input_ids": tokens, "labels": torch.randint(0, 2, (POOL,))}


def swin(size: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A classifier like Swin, and a pool of images in float32."""
    from transformers import SwinConfig, SwinForImageClassification

    pixels = SIZES[size][2]
    small = {"embed_dim": 16, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4} if size == "tiny" else {}
    config = SwinConfig(image_size=pixels, num_labels=10, **small)
    images = torch.randn(POOL, 3, pixels, pixels)
    return SwinForImageClassification(config), {"pixel_values": images, "labels": torch.randint(0, 10, (POOL,))}


class Pool(Dataset[dict[str, torch.Tensor]]):
    """``count`` samples from a pool."""

    def __init__(self, pool: dict[str, torch.Tensor], count: int) -> None:
        self.pool, self.count = pool, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: values[index % POOL] for name, values in self.pool.items()}


class Storage:
    """Storage behind a network: takes ``rate`` bytes a second, whoever writes."""

    def __init__(self, folder: Path, rate: float) -> None:
        self.folder, self.rate = folder, rate

    def save(self, state: dict[str, Any], name: str) -> None:
        """Write a checkpoint and wait for as long as the storage would take."""
        begin, path = time.monotonic(), self.folder / name
        torch.save(state, path)
        time.sleep(max(0.0, path.stat().st_size / self.rate - (time.monotonic() - begin)))
        path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("bert", "swin"), default="bert")
    parser.add_argument("--size", choices=tuple(SIZES), default="base")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--samples", type=int, default=2048, help="to train on (or evaluate)")
    parser.add_argument("--evaluate", action="store_true", help="forward passes alone, without gradients")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--pinned", action="store_true", help="page-locked batches, copied without blocking")
    parser.add_argument("--checkpoint", choices=("none", "blocking", "background"), default="none")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--rate", type=float, default=200e6, help="bytes per second that the storage takes")
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--result", type=Path, required=True)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, pool = {"bert": bert, "swin": swin}[args.model](args.size)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device.type == "cuda")
    warm_up = 3 * args.batch_size
    loader = DataLoader(
        Pool(pool, warm_up + args.samples), batch_size=args.batch_size, num_workers=args.workers,
        pin_memory=args.pinned and device.type == "cuda", drop_last=True,
    )  # fmt: skip
    storage = Storage(args.folder, args.rate)
    began = ended = 0.0
    samples = 0
    with ThreadPoolExecutor(1) as background:
        pending: Future[None] | None = None
        for step, batch in enumerate(loader):
            if step == 3:  # kernels are loaded and the allocator has grown
                _wait(device)
                began = time.time()
                print("starting training", flush=True)
            _step(model, optimizer, {name: value.to(device, non_blocking=args.pinned) for name, value in batch.items()},
                  device, args.evaluate)  # fmt: skip
            samples += args.batch_size if step >= 3 else 0
            if step % 20 == 0:
                print(f"step {step}", flush=True)
            if args.checkpoint != "none" and step > 3 and step % args.every == 0:
                print(f"saving checkpoint {step}", flush=True)
                name = f"checkpoint-{step}.pt"
                if args.checkpoint == "blocking":
                    storage.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, name)
                else:
                    if pending is not None:
                        pending.result()
                    pending = background.submit(storage.save, _on_host(model, optimizer), name)
        _wait(device)
        if pending is not None:
            pending.result()
        ended = time.time()
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    result = {
        "began": began, "ended": ended, "samples": samples,
        "cpu_s": sum(one.ru_utime + one.ru_stime for one in usage),
    }  # fmt: skip
    args.result.write_text(json.dumps(result), encoding="utf-8")
    print(f"{samples / (ended - began):.2f} samples/s", flush=True)


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor], device: torch.device,
    evaluate: bool,
) -> None:  # fmt: skip
    with torch.set_grad_enabled(not evaluate), torch.autocast(device.type, torch.bfloat16):
        loss = model(**batch).loss
    if not evaluate:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def _on_host(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """A copy of the state in host memory, which the next step does not change."""
    moved = torch.utils._pytree.tree_map_only(
        torch.Tensor,
        lambda tensor: tensor.detach().to("cpu", copy=True),
        {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
    )
    return dict(moved)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
