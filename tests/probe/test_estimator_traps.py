"""Places where meta tensors behave unlike CUDA tensors: each once made an estimate wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpulint_probe.estimator.errors import CannotSimulate  # noqa: E402
from gpulint_probe.estimator.job import Job  # noqa: E402
from gpulint_probe.estimator.optimizers import as_on_cuda, optimizer_by_name  # noqa: E402
from gpulint_probe.estimator.simulate import Simulation, simulate  # noqa: E402
from gpulint_probe.estimator.step import trace_evaluation, trace_training  # noqa: E402
from gpulint_probe.estimator.trace import Trace  # noqa: E402
from torch import nn  # noqa: E402

MIB = 1 << 20


def job(build: Callable[[], nn.Module], shape: tuple[int, ...], optimizer: str = "sgd", **options: Any) -> Job:
    with torch.device("meta"):
        model = build()
    made, fused = optimizer_by_name(optimizer, model)
    return Job(
        model, lambda size: ((torch.empty(size, *shape, device="meta"),), {}, None),
        lambda output, _: output.float().mean(), made, 4, fused=fused, **options,
    )  # fmt: skip


def training(
    build: Callable[[], nn.Module], shape: tuple[int, ...], batch: int = 4, **options: Any
) -> tuple[Trace, Simulation]:
    trace = trace_training(job(build, shape, **options), batch)
    return trace, simulate(trace)


def sizes_made(trace: Trace, operator: str, phase: str = "forward") -> list[int]:
    calls = [call.operator.startswith(operator) and call.phase == phase for call in trace.calls]
    return [size for key, size, call in trace.events if key > 0 and size > 0 and calls[call]]


def test_dropout_keeps_a_mask_of_one_byte_per_element() -> None:
    trace, _ = training(lambda: nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1)), (64,), batch=1024)
    elements = 1024 * 64
    assert sorted(sizes_made(trace, "aten.native_dropout"))[:2] == [elements, elements]
    assert not sizes_made(trace, "aten.bernoulli")


def test_dropout_in_multi_head_attention_takes_the_cuda_path_too() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(64, 4, dropout=0.1, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.inner(x, x, x, need_weights=True)[0]

    trace, _ = training(Attention, (128, 64))
    assert sizes_made(trace, "aten.native_dropout")
    assert not sizes_made(trace, "aten.bernoulli")


class SelfAttention(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.heads = heads

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v)


def test_fused_attention_never_holds_the_score_matrix() -> None:
    trace, _ = training(lambda: SelfAttention(4), (512, 64))
    scores = 4 * 4 * 512 * 512 * 4
    assert max(size for key, size, _ in trace.events if key > 0) < scores
    assert any("efficient_attention" in call.operator for call in trace.calls)


def test_attention_falls_back_to_matrices_where_no_kernel_takes_the_head_size() -> None:
    trace, _ = training(lambda: SelfAttention(32), (512, 64))  # heads of size 2
    assert 4 * 32 * 512 * 512 * 4 in [size for key, size, _ in trace.events]


def test_half_precision_attention_uses_flash() -> None:
    trace, _ = training(lambda: SelfAttention(4), (512, 64), precision="bf16")
    assert any("flash_attention" in call.operator for call in trace.calls)


def test_grouped_queries_are_repeated_only_where_no_flash_kernel_runs() -> None:
    class Grouped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kv = nn.Linear(64, 32)

        def forward(self, x: Any) -> Any:
            q = x.reshape(*x.shape[:2], 4, 16).transpose(1, 2)
            kv = self.kv(x).reshape(*x.shape[:2], 2, 16).transpose(1, 2)
            return nn.functional.scaled_dot_product_attention(q, kv, kv, enable_gqa=True)

    half, _ = training(Grouped, (512, 64), precision="bf16")
    full, _ = training(Grouped, (512, 64))
    assert not any("index_select" in call.operator or "repeat" in call.operator for call in half.calls)
    assert any("efficient_attention" in call.operator for call in full.calls)


def test_an_operator_without_a_kernel_for_shapes_is_refused_by_name() -> None:
    torch.library.define("gpulint_test::scatter_custom", "(Tensor x) -> Tensor")

    class Custom(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return torch.ops.gpulint_test.scatter_custom(self.linear(x))

    with pytest.raises(CannotSimulate, match=r"gpulint_test\.scatter_custom"):
        training(lambda: nn.Sequential(Custom()), (8,))


def test_a_branch_on_a_tensor_is_taken_as_false_and_said() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                raise AssertionError("the default is False")
            return self.linear(x) * x.mean().item()

    trace, _ = training(Branch, (8,))
    assert any("branch" in note for note in trace.notes)
    assert any(".item()" in note for note in trace.notes)


def test_an_integer_value_is_refused_since_shapes_may_depend_on_it() -> None:
    class Length(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return self.linear(x)[: int(x.argmax())]

    with pytest.raises(CannotSimulate, match="__int__"):
        training(lambda: nn.Sequential(Length()), (8,))


@pytest.mark.parametrize(
    "select", [lambda x: x[x[:, 0] > 0], lambda x: x[x[:, 0].nonzero()[:, 0]], lambda x: torch.masked_select(x, x > 0)]
)
def test_data_dependent_sizes_are_refused_with_operator_and_module(select: Callable[[Any], Any]) -> None:
    class Select(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return self.linear(select(x))

    with pytest.raises(CannotSimulate) as error:
        training(lambda: nn.Sequential(nn.Identity(), Select()), (8,))
    assert error.value.module == "1"
    assert error.value.operator.startswith("aten.")


def test_assigning_through_a_boolean_mask_is_no_data_dependent_size() -> None:
    class Fill(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            y = self.linear(x).clone()
            y[x > 0] = 0.0
            return y

    training(Fill, (8,))


def test_foreach_adam_holds_a_copy_of_the_parameters_during_the_step_and_fused_does_not() -> None:
    def build() -> nn.Module:
        return nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(8)))

    parameters = 8 * 4 * MIB
    _, foreach = training(build, (1024,), batch=1, optimizer="adamw")
    _, fused = training(build, (1024,), batch=1, optimizer="adamw-fused")
    assert foreach.allocated - fused.allocated == pytest.approx(parameters, rel=0.05)
    assert fused.allocated == pytest.approx(
        4 * parameters, rel=0.2
    )  # parameters, gradients, two moments; cuBLAS besides


def test_an_optimizer_that_was_made_on_cpu_is_stepped_as_on_cuda() -> None:
    optimizer = torch.optim.AdamW(nn.Linear(2, 2).parameters())
    assert as_on_cuda(optimizer) is False
    assert optimizer.param_groups[0]["foreach"] is True
    fused = torch.optim.AdamW(nn.Linear(2, 2).parameters(), fused=True)
    assert as_on_cuda(fused) is True


def test_lstm_is_one_operator() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(32, 64, num_layers=2, batch_first=True, bidirectional=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    trace, _ = training(Net, (200, 32))
    assert sum(call.phase == "forward" for call in trace.calls) < 100  # unrolled: thousands
    output = 4 * 200 * 128 * 4
    assert output in sizes_made(trace, "aten.new_empty")


def test_packed_sequences_are_refused() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(32, 64, batch_first=True)

        def forward(self, x: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 4, 3, 2]), batch_first=True)
            return self.lstm(packed)[0].data

    with pytest.raises(CannotSimulate):
        training(Net, (5, 32))


def test_checkpointing_recomputes_by_the_same_kernels_and_saves_memory() -> None:
    from gpulint_probe.estimator.checkpointing import enable_checkpointing

    def build(on: bool) -> nn.Module:
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
        model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        if on:
            enable_checkpointing(model)
        return model

    _, plain = training(lambda: build(False), (256, 64), batch=16)
    trace, saved = training(lambda: build(True), (256, 64), batch=16)
    assert saved.by_category["activations"] < 0.5 * plain.by_category["activations"]
    assert "backward" in {call.phase for call in trace.calls if call.operator.startswith("aten.native_dropout.")}


def test_channels_last_convolutions_need_no_layout_copies() -> None:
    from gpulint_probe.estimator.inputs import channels_last

    def build() -> nn.Module:
        return nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1))

    plain = job(build, (16, 64, 64))
    last = job(build, (16, 64, 64))
    last.model.to(memory_format=torch.channels_last)
    last.make_batch = channels_last(last.make_batch)
    assert simulate(trace_training(last, 32)).reserved < simulate(trace_training(plain, 32)).reserved


def test_convolution_scratch_shows_in_the_reserved_memory_only_where_cudnn_needs_it() -> None:
    def scratch(kernel: int, groups: int = 1) -> int:
        trace, result = training(
            lambda: nn.Conv2d(16, 16, kernel, padding=kernel // 2, groups=groups), (16, 64, 64), batch=32
        )
        tensors = [(key, size) for key, size, _ in trace.events if key > 0]
        from gpulint_probe.estimator.allocator import replay

        return result.reserved - replay(tensors).reserved

    assert scratch(3) > 0
    assert scratch(1) == 0
    assert scratch(3, groups=16) == 0


def test_layer_norm_over_channels_last_images_copies_them() -> None:
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(64)

        def forward(self, x: Any) -> Any:
            return self.norm(x.permute(0, 2, 3, 1))

    trace, _ = training(Norm, (64, 16, 16))
    assert 4 * 64 * 16 * 16 * 4 in [workspace.bytes for workspace in trace.workspaces]


def test_evaluation_holds_no_activations_for_a_backward() -> None:
    made = job(lambda: nn.Sequential(*(nn.Linear(256, 256) for _ in range(10))), (256,))
    assert simulate(trace_evaluation(made, 4096)).allocated < 0.4 * simulate(trace_training(made, 4096)).allocated


def test_gradients_are_kept_between_micro_batches() -> None:
    def build() -> nn.Module:
        return nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))

    _, once = training(build, (512,), batch=512)
    _, accumulated = training(build, (512,), batch=512, accumulation=4)
    assert accumulated.allocated > once.allocated + 0.5 * 8 * MIB


def test_the_output_of_the_last_step_lives_until_the_next_one_exists() -> None:
    trace, _ = training(lambda: nn.Linear(8, 4096, bias=False), (8,), batch=1024)
    output = 1024 * 4096 * 4
    live = peak = 0
    for key, size, _ in trace.events:
        if size == output:
            live += 1
            kept = key
            peak = max(peak, live)
        elif size < 0 and live and key == kept:
            live -= 1
    assert peak >= 2


def test_a_model_larger_than_any_host_is_simulated() -> None:
    _, result = training(
        lambda: nn.Sequential(*(nn.Linear(65536, 65536, bias=False) for _ in range(8))), (65536,), batch=1
    )
    assert result.allocated > 8 * 65536 * 65536 * 4
