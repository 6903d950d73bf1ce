"""Autocast on meta tensors against the real one."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpulint_probe.estimator.autocast import Autocast  # noqa: E402
from gpulint_probe.estimator.cuda_paths import CudaPaths  # noqa: E402
from torch import nn  # noqa: E402


class Net(nn.Module):
    """Only operators on which CPU autocast, which can run here, and CUDA autocast agree."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.linear = nn.Linear(8, 16)
        self.out = nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.conv(x)).mean((2, 3))
        y = nn.functional.gelu(self.linear(y))
        scores = y @ y.transpose(0, 1)
        return self.out(torch.einsum("ij,jk->ik", scores, y))


def saved(device: str, context: Any) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shapes and types of everything that the forward keeps for the backward."""
    kept: list[tuple[tuple[int, ...], torch.dtype]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append((tuple(tensor.shape), tensor.dtype))
        return tensor

    with torch.device(device):
        model, x = Net(), torch.zeros(5, 3, 9, 9)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), context:
        output = model(x)
    output.float().sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
    return kept


def test_the_same_tensors_are_kept_as_under_real_autocast() -> None:
    real = saved("cpu", torch.autocast("cpu", torch.bfloat16))
    simulated = saved("meta", CudaPaths(lambda _: None, lambda: "", Autocast(torch.bfloat16)))
    assert sorted(map(str, simulated)) == sorted(map(str, real))
    assert any(dtype == torch.bfloat16 for _, dtype in real)


def test_torch_ignores_autocast_on_meta() -> None:
    """Should this fail one day, the casts here are done twice and can go."""
    with torch.device("meta"):
        layer, x = nn.Linear(4, 4), torch.zeros(2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.float32


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: nn.functional.layer_norm(x, (8,)), torch.float32),
        (lambda x: torch.softmax(x, -1), torch.float32),
        (lambda x: x.exp(), torch.float32),
        (lambda x: x + 1, torch.float16),
        (lambda x: torch.relu(x), torch.float16),
        (lambda x: torch.cat([x, x.float()]), torch.float32),
        (lambda x: x.float() @ x.float().t(), torch.float16),
    ],
)
def test_types_follow_the_lists_of_cuda_autocast(function: Any, dtype: torch.dtype) -> None:
    x = torch.zeros(8, 8, dtype=torch.float16, device="meta")
    with CudaPaths(lambda _: None, lambda: "", Autocast(torch.float16)):
        assert function(x).dtype == dtype


def test_casts_of_weights_are_made_once_per_forward() -> None:
    layer = nn.Linear(8, 8, device="meta")
    cast = Autocast(torch.bfloat16)
    (first,), _ = cast("linear", (layer.weight,), {})
    (again,), _ = cast("linear", (layer.weight,), {})
    assert first is again
    cast.clear()
    (renewed,), _ = cast("linear", (layer.weight,), {})
    assert renewed is not first
