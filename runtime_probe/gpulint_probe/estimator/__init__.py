"""Estimate the GPU memory of a training job on a CPU, and the batch that fits.

``estimate(target, ...)`` returns an Estimate, ``suggest_batch(target, ...)`` a Suggestion; both raise EstimateError.
Nothing here imports torch before one of them is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulint_probe.estimator.api import Estimate, Request, estimate
    from gpulint_probe.estimator.errors import CannotSimulate, EstimateError
    from gpulint_probe.estimator.search import Suggestion, suggest_batch

__all__ = ["CannotSimulate", "Estimate", "EstimateError", "Request", "Suggestion", "estimate", "suggest_batch"]

_HOMES = {
    "Estimate": "api", "Request": "api", "estimate": "api", "CannotSimulate": "errors", "EstimateError": "errors",
    "Suggestion": "search", "suggest_batch": "search",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
