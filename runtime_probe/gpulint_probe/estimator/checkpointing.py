"""Switch activation checkpointing on: the model's own way where it has one, else around its repeated blocks."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from gpulint_probe.estimator.errors import EstimateError

aten = torch.ops.aten
MODES = ("", "full", "selective")
# What selective checkpointing by operator keeps (torchtitan's list): attention, and every second matrix product.
_KEPT = frozenset(
    {
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_efficient_attention.default,
    }
)
_EVERY_SECOND = frozenset({aten.mm.default, aten.addmm.default})


def enable_checkpointing(model: torch.nn.Module, mode: str = "full") -> None:
    """Recompute the activations of each repeated block in the backward pass. Raises EstimateError if there is none.

    ``mode`` is full, selective (keeps the outputs of attention and of every second matrix product) or a number N: every
    N-th block is recomputed.
    """
    if mode not in MODES and not (mode.isdigit() and int(mode) > 0):
        raise EstimateError(f"--activation-checkpointing {mode!r} is not full, selective or a number of blocks")
    transformers_switch: Any = getattr(model, "gradient_checkpointing_enable", None)
    timm_switch: Any = getattr(model, "set_grad_checkpointing", None)
    if mode == "full" and transformers_switch is not None:
        transformers_switch(gradient_checkpointing_kwargs={"use_reentrant": False})
        return
    if mode == "full" and timm_switch is not None:
        try:
            timm_switch(True)
        except AssertionError as error:
            raise EstimateError(f"--activation-checkpointing: {type(model).__name__} says: {error}") from error
        return
    blocks = list(repeated_blocks(model))
    if not blocks:
        raise EstimateError(
            f"--activation-checkpointing: {type(model).__name__} has no list of repeated blocks to recompute"
        )
    config: Any = getattr(model, "config", None)
    if getattr(config, "use_cache", False):  # a second forward would append to the keys of the first
        config.use_cache = False
    for block in blocks[:: int(mode)] if mode.isdigit() else blocks:
        block.__dict__["forward"] = functools.partial(_checkpointed, _Body(block.forward), mode == "selective")


def repeated_blocks(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The outermost blocks that stand at least twice, as one class, in a list or sequence of modules."""
    if isinstance(module, torch.nn.ModuleList | torch.nn.Sequential):
        kinds = [type(child) for child in module]
        blocks = [child for child in module if kinds.count(type(child)) > 1 and any(True for _ in child.children())]
        if blocks:
            yield from blocks
            return
    for child in module.children():
        yield from repeated_blocks(child)


class _Body(torch.nn.Module):
    """The forward of a block as a module, so that its recomputation is seen to begin and to end (see CudaPaths)."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.__dict__["body"] = body

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["body"](*args, **kwargs)


def _checkpointed(forward: Any, selective: bool, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    options: dict[str, Any] = {"context_fn": _selective_contexts} if selective else {}
    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **options, **kwargs)


def _selective_contexts() -> Any:
    products = {"forward": 0, "recomputation": 0}

    def policy(context: Any, func: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        keep = func in _KEPT
        if func in _EVERY_SECOND:
            side = "recomputation" if context.is_recompute else "forward"
            products[side] += 1
            keep = products[side] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)
