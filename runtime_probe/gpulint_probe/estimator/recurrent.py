"""Recurrent layers as the one operator that cuDNN runs.

On meta tensors ``torch.lstm`` and its kin unroll into several operators per time step. On CUDA the whole layer stack is
one call that keeps, besides its outputs, a reserve for the backward and a flat copy of the weights.
"""

# PyTorch types these calls and bases in part, and not at all where it is not installed.
# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

from typing import Any

import torch

from gpulint_probe.estimator.work import recurrent_work

# Values that cuDNN keeps per time step, sample and hidden unit for the backward: the activated gates and the cell or
# hidden state of every layer. Its exact size is not public (cudnnGetRNNTempSpaceSizes); this counts what the equations
# need.
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_KEPT_STATES = {"lstm": 2, "gru": 2, "rnn_tanh": 1, "rnn_relu": 1}


class _Recurrent(torch.autograd.Function):
    """Allocates what cuDNN's training call allocates; shapes are all that counts on meta tensors."""

    @staticmethod
    def forward(ctx: Any, spec: tuple[Any, ...], x: torch.Tensor, *tensors: torch.Tensor) -> Any:
        output_shape, state_shapes, reserve, training, shape = spec
        recurrent_work(tensors, shape, "forward")
        ctx.shape = shape
        output = x.new_empty(output_shape)
        states = tuple(x.new_empty(shape) for shape in state_shapes)
        kept = (x.new_empty(reserve),) if training else ()
        ctx.save_for_backward(x, output, *kept, *tensors)
        return (output, *states)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, _, _, *tensors = ctx.saved_tensors
        recurrent_work(tensors, ctx.shape, "backward")
        return (None, torch.empty_like(x), *(torch.empty_like(tensor) for tensor in tensors))


def recurrent(mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.lstm(...)`` and kin for a padded batch: (output, h_n[, c_n])."""
    names = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
    bound = dict(zip(names, args, strict=False)) | kwargs
    x, states, weights = bound["input"], bound["hx"], list(bound["params"])
    states = list(states) if isinstance(states, tuple | list) else [states]
    layers, directions = bound["num_layers"], 2 if bound["bidirectional"] else 1
    size = states[-1].size(-1) if mode != "lstm" else states[1].size(-1)
    projected = states[0].size(-1)
    steps, batch = (x.size(1), x.size(0)) if bound["batch_first"] else (x.size(0), x.size(1))
    output_shape = (*x.shape[:2], projected * directions)
    per_unit = _GATES[mode] + _KEPT_STATES[mode] + (1 if bound["dropout"] > 0 else 0)
    reserve = layers * directions * steps * batch * size * per_unit
    training = torch.is_grad_enabled() and (x.requires_grad or any(weight.requires_grad for weight in weights))
    spec = (output_shape, [tuple(state.shape) for state in states], reserve, training, (steps, batch, size))
    return _Recurrent.apply(spec, x, *states, *weights)
