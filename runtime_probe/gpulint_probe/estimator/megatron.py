"""Transformers as Megatron-LM trains them: ``megatron:hidden=1024,layers=24,heads=16,seq=1024,tensor=2,...``.

One rank's part of the model (its share of the heads and of the inner layers, its pipeline stage) is built and traced as
any other model; micro batches, the pipeline's bubble and the communication are added by parallel_time.py.
"""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.simulate import simulate
from gpulint_probe.estimator.trace import Trace

_ALIASES = {"tp": "tensor", "dp": "data", "pp": "pipeline", "sequence": "seq", "mbs": "micro", "gbs": "batch"}


@dataclass(frozen=True, slots=True)
class Layout:
    """A transformer and how it is spread: ``tensor`` x ``data`` x ``pipeline`` GPUs, ``micro`` samples at a time.

    ``batch`` is the global batch of one step (0: one micro batch on each data-parallel rank). ``attention`` is
    "matrices" (scores are written, as Megatron does by default) or "flash". ``train`` 0 asks for a forward pass only.
    """

    hidden: int = 1024
    layers: int = 24
    heads: int = 16
    seq: int = 1024
    vocab: int = 51200
    ffn: int = 0
    tensor: int = 1
    data: int = 1
    pipeline: int = 1
    micro: int = 1
    batch: int = 0
    flash: int = 0

    @property
    def gpus(self) -> int:
        return self.tensor * self.data * self.pipeline

    @property
    def micro_batches(self) -> int:
        """Micro batches that one rank computes in a step."""
        return max(1, (self.batch or self.data * self.micro) // (self.data * self.micro))


def parse_layout(text: str) -> Layout:
    """Read ``hidden=1024,layers=24,...``; short names are tp, dp, pp, mbs, gbs. Raises EstimateError."""
    known = {field.name for field in fields(Layout)}
    values: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        name = _ALIASES.get(name, name)
        if name not in known or not value.isdigit():
            raise EstimateError(f"megatron: {part.strip()!r} is not NAME=NUMBER; names: {', '.join(sorted(known))}")
        values[name] = int(value)
    layout = Layout(**values)
    if layout.hidden % layout.heads or layout.heads % layout.tensor or layout.layers % layout.pipeline:
        raise EstimateError("megatron: hidden, heads and layers must divide by heads, tensor and pipeline")
    if min(layout.tensor, layout.data, layout.pipeline, layout.micro, layout.layers, layout.seq) < 1:
        raise EstimateError("megatron: numbers must be at least 1")
    return layout


class Stage(nn.Module):
    """One rank's layers and, as the slowest stage has it, the output layer over its share of the vocabulary."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.layout = layout
        vocab = -(-layout.vocab // layout.tensor)
        self.words = nn.Embedding(vocab, layout.hidden)
        self.positions = nn.Embedding(layout.seq, layout.hidden)
        self.layers = nn.ModuleList(Layer(layout) for _ in range(layout.layers // layout.pipeline))
        self.norm = nn.LayerNorm(layout.hidden)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.positions.weight
        x = F.dropout(x, 0.1, self.training)
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.words.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), tokens.reshape(-1))


class Layer(nn.Module):
    """Attention and feed-forward layer of a rank; what tensor parallelism sums up is not part of it."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        hidden, share = layout.hidden, layout.hidden // layout.tensor
        ffn = (layout.ffn or 4 * hidden) // layout.tensor
        self.heads = layout.heads // layout.tensor
        self.flash = bool(layout.flash)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * share), nn.Linear(share, hidden)
        self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.flash:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = torch.matmul(q, k.transpose(-2, -1))
            mixed = torch.matmul(F.dropout(torch.softmax(scores, -1), 0.1, self.training), v)
        mixed = mixed.transpose(1, 2).reshape(batch, length, -1)
        x = x + F.dropout(self.out(mixed), 0.1, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1, self.training)


def hold_in_flight(trace: Trace, layout: Layout) -> None:
    """Add the activations of the micro batches that the first stage has started and not yet gone backward through."""
    more = min(layout.pipeline, layout.micro_batches) - 1
    if more < 1:
        return
    held = simulate(trace).by_category.get("activations", 0)
    start = next((i for i, (_, _, call) in enumerate(trace.events) if trace.calls[call].phase != "setup"), 0)
    call = trace.events[start][2]
    trace.events[start:start] = [(2 * 10**9 + i, held, call) for i in range(more)]
    trace.categories |= {2 * 10**9 + i: "activations" for i in range(more)}


class MainParameters(torch.optim.AdamW):
    """AdamW on float32 copies of half-precision weights, as mixed-precision training by Megatron or DeepSpeed keeps."""

    def __init__(self, model: nn.Module) -> None:
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.main = [nn.Parameter(parameter.detach().float()) for parameter in self.trained]
        super().__init__(self.main, foreach=True)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in (*self.trained, *self.main):
            parameter.grad = None

    def step(self, closure: Any = None) -> Any:  # type: ignore[override, unused-ignore]
        for parameter, main in zip(self.trained, self.main, strict=True):
            main.grad = None if parameter.grad is None else parameter.grad.float()
        super().step()
        with torch.no_grad():
            torch._foreach_copy_([p.detach() for p in self.trained], [m.detach() for m in self.main])
        for main in self.main:
            main.grad = None
        return None
