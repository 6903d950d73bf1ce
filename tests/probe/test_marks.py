"""What lines of real training programs are read as; and that other lines are not."""

from __future__ import annotations

import pytest
from gpulint_probe.marks import MarkFinder, marks_in


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Epoch 3/10", [("epoch", 3)]),
        ("Epoch: [12][ 340/5005]  Time 0.32 (0.35)  Loss 6.9e+00", [("epoch", 12)]),
        ("{'loss': 0.41, 'learning_rate': 4e-05, 'epoch': 1.25}", [("epoch", 1.25)]),
        ("Epoch 1:  42%|####2     | 42/100 [00:10<00:14,  4.1it/s, loss=0.3]", [("epoch", 1), ("step", 42)]),
        ("\x1b[32mINFO\x1b[0m step 500 | loss 2.31 | lr 3e-4", [("step", 500)]),
        ("iter 1200: loss 2.4, time 130ms", [("step", 1200)]),
        ("[2026-05-01 10:00:00] global_step=70 loss=1.0", [("step", 70)]),
        (" 10%|#         | 1.5k/15.0k [00:10<01:30, 150it/s]", [("step", 1500)]),
        ("Collecting transformers==4.40", [("install", None)]),
        ("  Downloading torch-2.3.0-cp311-cp311-manylinux1_x86_64.whl (779.1 MB)", [("install", None)]),
        ("  Downloading antlr4-python3-runtime-4.9.3.tar.gz (117 kB)", [("install", None)]),
        ("Requirement already satisfied: numpy in /usr/lib/python3/dist-packages", [("install", None)]),
        ("Get:3 http://deb.debian.org/debian bookworm/main amd64 ffmpeg", [("install", None)]),
        ("Downloading data:  10%|#  | 10/100 [00:01<00:09]", [("download", 10)]),
        ("Downloading https://example.org/cifar-10-python.tar.gz to ./data", [("download", None)]),
        ("Saving model checkpoint to out/checkpoint-500", [("checkpoint", None)]),
        ("saved out/last.pt", [("checkpoint", None)]),
        ("Epoch 00012: val_loss improved from 0.3 to 0.2, saving model to best.h5", [("checkpoint", None), ("epoch", 12)]),
        ("***** Running Evaluation *****", [("eval", None)]),
        ("Validating:  50%|#####     | 5/10 [00:01<00:01]", [("eval", 5)]),
        ("Loading dataset from /data/imagenet", [("log", None)]),
        ("Training finished.", [("log", None)]),
    ],
)  # fmt: skip
def test_lines_that_say_what_the_job_does(line: str, expected: list[tuple[str, float | None]]) -> None:
    assert [(mark.kind, mark.value) for mark in marks_in(line, 1.0)] == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "batch size 32, learning rate 0.1",
        "batch_size: 64",
        "num epochs: 90, max steps: 500",
        "Namespace(epochs=10, steps_per_epoch=500)",
        "the evaluation server listens on port 80",
        "RuntimeError: CUDA out of memory",
        "100% of the files were read",
        "saving is disabled",
    ],
)
def test_lines_that_do_not(line: str) -> None:
    assert list(marks_in(line, 1.0)) == []


def test_lines_come_in_pieces() -> None:
    finder = MarkFinder(1.0)
    assert finder.feed(b"Epo", 1.0) == []
    assert finder.feed(b"ch 1\nEpoch", 1.0)[0].value == 1
    assert finder.feed(b" 2\r\n", 1.0)[0].value == 2


def test_a_bar_that_redraws_gives_a_mark_per_interval() -> None:
    finder = MarkFinder(1.0)
    marks = [
        mark
        for tenth in range(100)
        for mark in finder.feed(b"\r %d%%|#| %d/100 [00:01<00:09]" % (tenth, tenth), tenth / 10)
    ]
    assert 9 <= len(marks) <= 11
    assert [mark.value for mark in marks] == sorted(mark.value or 0 for mark in marks)


def test_every_epoch_counts_however_short() -> None:
    finder = MarkFinder(1.0)
    assert len(finder.feed(b"".join(b"Epoch %d\n" % number for number in range(50)), 1.0)) == 50


def test_a_phase_that_comes_back_at_once_counts_again() -> None:
    finder = MarkFinder(60.0)
    marks = finder.feed(b"Saving checkpoint\nValidating\nSaving checkpoint\nSaving checkpoint\n", 1.0)
    assert [mark.kind for mark in marks] == ["checkpoint", "eval", "checkpoint"]


def test_binary_and_endless_lines_do_no_harm() -> None:
    finder = MarkFinder(1.0)
    for _ in range(50):
        assert finder.feed(bytes(range(14, 256)) * 300, 1.0) == []
    assert len(finder._rest) <= 2000
