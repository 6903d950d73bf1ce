"""Layer counts and sizes of a model, as summaries print them: the input of the published estimators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from gpulint_probe.estimator.cuda_paths import CudaPaths
from gpulint_probe.estimator.job import Job


@dataclass(slots=True)
class Features:
    """``activations``: output elements of all leaf modules for one sample. ``layers``: leaf modules by class name.

    ``largest_layer``: parameters of the largest leaf module.
    """

    activations: int = 0
    parameters: int = 0
    largest_layer: int = 0
    layers: dict[str, int] = field(default_factory=dict)


def model_features(job: Job) -> Features:
    """Run one forward pass on meta tensors of batch 2 and count."""
    features = Features(parameters=sum(parameter.numel() for parameter in job.model.parameters()))
    hooks: list[Any] = []

    def count(module: torch.nn.Module, _: Any, output: Any) -> None:
        tensors = output if isinstance(output, tuple | list) else (output,)
        features.activations += sum(t.numel() for t in tensors if isinstance(t, torch.Tensor)) // 2
        name = type(module).__name__
        features.layers[name] = features.layers.get(name, 0) + 1

    for module in job.model.modules():
        if not any(True for _ in module.children()):
            hooks.append(module.register_forward_hook(count))
            size = sum(parameter.numel() for parameter in module.parameters())
            features.largest_layer = max(features.largest_layer, size)
    try:
        args, kwargs, _ = job.make_batch(2)
        with torch.no_grad(), CudaPaths(lambda _: None, lambda: ""):
            job.model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    return features
