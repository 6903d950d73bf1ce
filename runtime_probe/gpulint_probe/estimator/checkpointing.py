"""Switch activation checkpointing on: the model's own way where it has one, else around its repeated blocks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from gpulint_probe.estimator.errors import EstimateError


def enable_checkpointing(model: torch.nn.Module) -> None:
    """Recompute the activations of each repeated block in the backward pass. Raises EstimateError if there is none."""
    transformers_switch: Any = getattr(model, "gradient_checkpointing_enable", None)
    timm_switch: Any = getattr(model, "set_grad_checkpointing", None)
    if transformers_switch is not None:
        transformers_switch(gradient_checkpointing_kwargs={"use_reentrant": False})
        return
    if timm_switch is not None:
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
    for block in blocks:
        block.__dict__["forward"] = functools.partial(_checkpointed, block.forward)


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


def _checkpointed(forward: Any, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)
