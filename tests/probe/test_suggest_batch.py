"""A batch from the measured memory and the estimator's slope."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest
from gpulint_probe.analysis import analyse
from gpulint_probe.analysis.batch import batch_in_command, suggest
from gpulint_probe.analysis.series import gpu_series
from gpulint_probe.recording import Recording
from gpulint_probe.reporting import cli

from tests.probe.synthetic import Phase, record

GIB = 1 << 30


def measured(gib: float, card: float = 80) -> Recording:
    return record([Phase(60, 0.3, memory=gib / card)], memory_bytes=int(card * GIB))


def linear(batch: int, training: bool) -> int:
    """An estimator: 2 GiB, and 0.5 GiB for each sample (0.1 without gradients)."""
    return int((2 + batch * (0.5 if training else 0.1)) * GIB)


def test_the_slope_carries_the_measured_memory_to_the_margin() -> None:
    # Measured 12 GiB at batch 16, where the estimate is 10: 2 GiB that no estimate knows of.
    advice = suggest(gpu_series(measured(12)), 16, linear)
    assert advice.bytes_per_sample == pytest.approx(0.5 * GIB)
    # 90% of 80 GiB is 72: 16 + (72 - 12) / 0.5 = 136 samples.
    assert (advice.train_batch, advice.train_bytes) == (136, pytest.approx(72 * GIB, rel=1e-6))
    # Without gradients 16 samples take 3.6 + 2 GiB, but more than 16 times the measured batch is not trusted.
    assert (advice.eval_batch, advice.eval_bytes) == (256, pytest.approx((2 + 25.6 + 2) * GIB, rel=1e-6))
    assert "measure again from there" in " ".join(advice.lines)


def test_the_fullest_gpu_decides() -> None:
    phases = [[Phase(60, 0.3, memory=share)] for share in (0.2, 0.85, 0.5)]
    advice = suggest(gpu_series(record(*phases)), 128, linear)
    assert advice.measured_bytes == pytest.approx(68 * GIB, rel=1e-6)
    assert advice.train_batch == 136


def test_a_card_that_is_too_full_gets_a_smaller_batch() -> None:
    advice = suggest(gpu_series(measured(79)), 20, linear)
    assert advice.train_batch == 6
    assert advice.train_bytes is not None
    assert advice.train_bytes <= 72 * GIB


def test_without_a_factory_or_batch_it_says_what_is_needed() -> None:
    lines = " ".join(suggest(gpu_series(measured(12)), None, None).lines)
    assert "--estimate-with 'train.py:build" in lines
    assert "--batch-size N" in lines
    assert "a recording in which GPU memory was seen" in " ".join(suggest((), 8, linear).lines)


def test_an_estimate_that_does_not_grow_suggests_nothing() -> None:
    assert suggest(gpu_series(measured(12)), 8, lambda batch, training: GIB).train_batch is None


@pytest.mark.parametrize(
    ("command", "batch"),
    [
        ("python train.py --batch-size 64", 64),
        ("python train.py --batch_size=32 --eval-batch-size 8", 32),
        ("python run.py --per_device_train_batch_size 4", 4),
        ("python train.py -b 12", 12),
        ("python train.py --batch-size 64 --bs 32", None),
        ("python train.py --batch-size auto", None),
        ("python train.py --batch-size", None),
        ("torchrun --nproc_per_node 4 train.py", None),
    ],
)
def test_the_batch_of_a_command(command: str, batch: int | None) -> None:
    assert batch_in_command(command.split()) == batch


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cli.add_options(parser)
    return parser.parse_args(["--suggest-batch", *words])


FACTORY = """\
from torch import nn

def build():
    return nn.Sequential(nn.Linear(4096, 65536), nn.ReLU(), nn.Linear(65536, 10))
"""


@pytest.fixture
def run(tmp_path: Path) -> Recording:
    """A run whose folder holds the factory; 10 of 14 GiB were held at batch 512."""
    pytest.importorskip("torch")
    (tmp_path / "net.py").write_text(FACTORY)
    recording = measured(10, card=14)
    recording.command, recording.cwd = ["python", "net.py", "--batch-size", "512"], str(tmp_path)
    return recording


def reported(recording: Recording, *words: str) -> str:
    out = io.StringIO()
    cli.report(recording, options(*words), out)
    return " ".join(out.getvalue().split())


def test_with_the_real_estimator(run: Recording) -> None:
    from gpulint_probe.estimator import estimate

    target = f"{run.cwd}/net.py:build"
    text = reported(run, "--estimate-with", f"{target} --input 4096")
    assert "measured: 10.0 GiB of 14.0 GiB at batch 512" in text
    assert "training: batch " in text
    first, second = (estimate(target, inputs=("4096",), batch_size=size).reserved_bytes for size in (512, 1024))
    found = suggest(analyse(run).seen.series, 512, cli._estimator([target, "--input", "4096"]))
    assert found.bytes_per_sample == pytest.approx((second - first) / 512)
    assert found.train_batch is not None
    assert found.eval_batch is not None
    assert 512 < found.train_batch < found.eval_batch
    (Path(run.cwd) / "gpulint.toml").write_text('estimate = { target = "net.py:build", input = "4096" }\n')
    assert reported(run) == text


def test_of_several_factories_the_programs_own_counts(run: Recording) -> None:
    (Path(run.cwd) / "gpulint.toml").write_text(
        '[[estimate]]\ntarget = "no.py:build"\n[[estimate]]\ntarget = "net.py:build"\ninput = "4096"\n'
    )
    assert "training: batch " in reported(run)
    assert "needed for a suggestion: a model factory" in reported(run, "--no-findings")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--estimate-with", "none.py:build"], "no suggestion: "),
        (["--estimate-with", "net.py:build --no-such-option"], "unknown option '--no-such-option'"),
        (["--estimate-with", "net.py:build 'open"], "No closing quotation"),
    ],
)
def test_wrong_arguments_are_one_line(run: Recording, words: list[str], message: str) -> None:
    assert message in reported(run, *words)
