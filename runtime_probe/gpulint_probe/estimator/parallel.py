"""What data parallelism adds to and takes from the memory of one GPU: DDP, ZeRO stages 1 to 3, FSDP.

The trace of one replica is rewritten. Sharding follows "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models" (Rajbhandari et al., SC 2020): stage 1 splits the optimizer state over the GPUs, stage 2 the gradients too,
stage 3 and fully sharded FSDP the parameters too.
"""

from __future__ import annotations

import torch

from gpulint_probe.estimator.checkpointing import repeated_blocks
from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.trace import Trace

STRATEGIES = ("ddp", "fsdp", "zero1", "zero2", "zero3")
_SHARDED: dict[str, frozenset[str]] = {
    "ddp": frozenset(),
    "zero1": frozenset({"optimizer state"}),
    "zero2": frozenset({"optimizer state", "gradients"}),
    "zero3": frozenset({"optimizer state", "gradients", "parameters"}),
    "fsdp": frozenset({"optimizer state", "gradients", "parameters"}),
}
# DDP copies gradients into buckets that together are as large as the gradients (gradient_as_bucket_view=False).
# Stage 2 keeps one bucket of DeepSpeed's default reduce_bucket_size elements at most, in the type of the gradients.
_ZERO_BUCKET_ELEMENTS = 500_000_000


def parallelise(trace: Trace, model: torch.nn.Module, strategy: str, gpus: int) -> Trace:
    """The trace of one of ``gpus`` ranks. Raises EstimateError for an unknown strategy or number."""
    if strategy not in _SHARDED:
        raise EstimateError(f"--data-parallel {strategy!r} is not one of {', '.join(STRATEGIES)}")
    if gpus < 1:
        raise EstimateError("--gpus must be at least 1")
    if gpus == 1:
        return trace
    sharded = _SHARDED[strategy]
    result = Trace([], trace.calls, trace.workspaces, dict(trace.categories), list(trace.notes), trace.work, trace.steps)
    result.note(f"{strategy} over {gpus} GPUs: shards and communication buffers are computed, not traced")
    start = next((i for i, (_, _, call) in enumerate(trace.events) if trace.calls[call].phase != "setup"), 0)
    for index, (key, size, call) in enumerate(trace.events):
        if index == start:
            _communication(result, model, strategy, call)
        state = trace.calls[call].phase == "optimizer" and "optimizer state" in sharded
        if size > 0 and (state or trace.categories.get(key) in sharded):
            size = -(-size // gpus)
        result.events.append((key, size, call))
    return result


def _communication(trace: Trace, model: torch.nn.Module, strategy: str, call: int) -> None:
    """Allocate, for good, the buffers that the strategy communicates through."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = sum(parameter.numel() * parameter.element_size() for parameter in trained)
    itemsize = trained[0].element_size() if trained else 4
    if strategy in ("ddp", "zero1"):
        sizes = [gradients]
    elif strategy == "zero2":
        sizes = [min(gradients, _ZERO_BUCKET_ELEMENTS * itemsize)]
    else:  # the block being computed and the one gathered ahead of it, and the gradient of one before it is scattered
        sizes = [_largest_unit(model)] * 3
    for offset, size in enumerate(sizes):
        key = 10**9 + offset
        trace.categories[key] = "communication"
        trace.events.append((key, size, call))


def _largest_unit(model: torch.nn.Module) -> int:
    """Bytes of the largest piece that is gathered at once: a repeated block, or all that stands outside of them."""
    blocks = list(repeated_blocks(model))
    sizes = [sum(p.numel() * p.element_size() for p in block.parameters()) for block in blocks]
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    return int(max([*sizes, total - sum(sizes)]))
