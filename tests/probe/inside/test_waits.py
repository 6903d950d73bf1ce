"""Verdicts on waits for other threads and processes of the job, and on gaps of busy GPUs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("psutil")

from gpulint_probe.analysis import analyse
from gpulint_probe.analysis.cause import Cause
from gpulint_probe.analysis.verdict import worth_naming
from gpulint_probe.recording import Recording

from tests.probe.inside.test_measured_causes import FRAMES, STARVED, one, process, sample, shares
from tests.probe.synthetic import Phase, record


def first(recording: Recording) -> Cause:
    return worth_naming(analyse(recording).losses)[0].cause


@pytest.mark.parametrize(
    ("utilization", "kinds", "found"),
    [
        (0.65, {"item": 4, "backward": 6}, {Cause.SYNC: 0.35}),
        (0.95, {"item": 4, "backward": 6}, {}),  # hardly any gaps
        (0.65, {"input": 2, "item": 4, "backward": 4}, {Cause.INPUT_PROCESS: 0.2, Cause.SYNC: 0.15}),
    ],
)
def test_gaps_have_a_cause_also_where_the_gpu_is_busy_for_the_most_part(
    utilization: float, kinds: dict[str, int], found: dict[Cause, float]
) -> None:
    recording = one([Phase(100, 0.6, memory=0.9)], kinds)
    recording.gpu_samples = [replace(of, utilization=utilization) for of in recording.gpu_samples]
    assert shares(analyse(recording)) == found


def test_gaps_of_a_busy_gpu_without_a_known_cause_are_not_named() -> None:
    recording = one([Phase(100, 0.6, memory=0.9)], {"backward": 10}, 0.4)
    recording.gpu_samples = [replace(of, utilization=0.65) for of in recording.gpu_samples]
    assert shares(analyse(recording)) == {}


def test_who_waits_for_a_thread_that_saves_waits_for_the_checkpoint() -> None:
    recording = one(STARVED, {"take": 8, "backward": 2}, 0.1)
    sample(recording, 7, {"save": 10}, 100, 0.0, "saver")
    assert first(recording) is Cause.CHECKPOINT


def test_a_process_that_the_program_started_prepares_what_it_waits_for() -> None:
    recording = one(STARVED, {"take": 8, "backward": 2}, 0.1)
    process(recording, 8, parent=7)
    sample(recording, 8, {"host": 10}, 100)
    loss = worth_naming(analyse(recording).losses)[0]
    assert loss.cause is Cause.INPUT_PROCESS
    assert "process 8, at train.py:12 in main, prepared data without a pause" in loss.reasons[0]
    recording = one(STARVED, {"take": 8, "backward": 2}, 0.1)
    process(recording, 8, parent=7)
    sample(recording, 8, {"take": 10}, 100, 0.0)  # it waits itself
    assert first(recording) is Cause.INPUT


@pytest.mark.parametrize(
    ("running", "cause"), [(1.0, Cause.INPUT_PROCESS), (0.0, Cause.INPUT)], ids=["computes", "waits"]
)
def test_loader_processes_without_work_wait_for_a_main_process_that_computes(running: float, cause: Cause) -> None:
    recording = one(STARVED, {"input": 8, "backward": 2}, running)
    process(recording, 8, parent=7)
    sample(recording, 8, {"fetch": 10}, 100, 0.0)
    recording.stacks = [
        replace(
            of, modules=["multiprocessing", *of.modules, "torch.utils.data.dataloader"],
            functions=["poll", *of.functions, "_get_iterator"], files=[*of.files, *["/site-packages/x.py"] * 2],
            lines=[1, *of.lines, 1],
        )
        if "_worker_loop" in of.functions
        else of
        for of in recording.stacks
    ]  # fmt: skip
    loss = worth_naming(analyse(recording).losses)[0]
    assert loss.cause is cause
    assert "its 1 loader process mostly had nothing to do" in loss.reasons[0]


def ranks(kinds: tuple[dict[str, int], dict[str, int]], running: float, seconds: int = 100) -> Recording:
    """Two ranks and the process that started them."""
    recording = record([Phase(seconds, 0.2)], [Phase(seconds, 0.2)])
    process(recording, 9)
    sample(recording, 9, {"host": 10}, seconds, 0.0)
    for rank in range(2):
        process(recording, 10 + rank, parent=9, rank=rank)
        sample(recording, 10 + rank, kinds[rank], seconds, running)
    return recording


def test_a_backward_pass_of_ranks_that_uses_no_core_waits_for_the_others() -> None:
    assert first(ranks(({"backward": 10}, {"backward": 10}), 0.3)) is Cause.COMMUNICATION
    assert first(ranks(({"backward": 10}, {"backward": 10}), 1.0)) is Cause.LAUNCH
    assert Cause.COMMUNICATION not in shares(analyse(one(STARVED, {"backward": 10}, 0.3)))


def reducing(idle: tuple[tuple[int, int], ...]) -> Recording:
    """Two ranks in their backward passes; ``idle`` says in how many of ten samples each waits, by turns of seconds."""
    recording = ranks(({"backward": 10}, {"backward": 10}), 1.0)
    recording.stack_counts = [
        replace(counts, running=[10 - idle[int(counts.time_s) % len(idle)][counts.pid - 10]])
        if counts.pid >= 10
        else counts
        for counts in recording.stack_counts
    ]
    return recording


@pytest.mark.parametrize(
    ("idle", "cause"),
    [
        (((7, 0),), Cause.STRAGGLER),
        (((7, 0), (7, 0), (7, 0), (7, 0), (0, 7)), Cause.STRAGGLER),
        (((7, 0), (0, 7)), Cause.IMBALANCE),
        (((7, 6),), Cause.COMMUNICATION),  # a difference that chance explains
    ],
)
def test_waits_in_a_backward_pass_are_for_the_rank_that_waits_least(
    idle: tuple[tuple[int, int], ...], cause: Cause
) -> None:
    losses = worth_naming(analyse(reducing(idle)).losses)
    (loss,) = [loss for loss in losses if loss.cause is not Cause.LAUNCH]  # of the rank that computes all the time
    assert (loss.cause, loss.certain) == (cause, False)
    last = "the last to arrive" in loss.reasons[0] and "rank 1 was in backward meanwhile" in loss.reasons[0]
    assert last is (cause is Cause.STRAGGLER)


def together(*rounds: tuple[str, str]) -> Recording:
    """Two ranks whose samples have times: a round says what each does, by turns, ten samples a second."""
    turns = [rounds[place % len(rounds)] for place in range(10)]
    kinds = [Counter(kind[rank] for kind in turns) for rank in range(2)]
    recording = ranks((dict(kinds[0]), dict(kinds[1])), 0.0)
    numbers = {kind: number for number, kind in enumerate(FRAMES)}
    recording.stack_counts = [
        replace(
            counts,
            order=[
                value for place, kind in enumerate(turns)
                for value in (numbers[kind[counts.pid - 10]], 100 * place + counts.pid - 10, 1)
            ],
        )
        if counts.pid >= 10
        else counts
        for counts in recording.stack_counts
    ]  # fmt: skip
    return recording


@pytest.mark.parametrize(
    ("rounds", "cause", "reason"),
    [
        ((("reduce", "reduce"), ("item", "item")), Cause.COMMUNICATION, ""),
        ((("reduce", "item"), ("item", "reduce")), Cause.IMBALANCE, "which rank is last changes"),
        ((("reduce", "save"), ("reduce", "item"), ("reduce", "save")), Cause.CHECKPOINT, "rank 1 was in checkpoint"),
        ((("reduce", "item"),), Cause.STRAGGLER, "rank 1 was in synchronization meanwhile, at train.py:12 in main"),
    ],
)  # fmt: skip
def test_samples_of_ranks_at_the_same_moment_tell_who_is_late(
    rounds: tuple[tuple[str, str], ...], cause: Cause, reason: str
) -> None:
    """Whatever their sums, which are the same for both ranks in the first two cases."""
    (found,) = [loss for loss in analyse(together(*rounds)).losses if loss.cause is cause]
    assert reason in "; ".join(found.reasons)
    others = {Cause.COMMUNICATION, Cause.IMBALANCE, Cause.STRAGGLER} - {cause}
    assert not others & set(shares(analyse(together(*rounds))))


def test_what_starts_the_ranks_is_none_of_them() -> None:
    assert first(ranks(({"reduce": 10}, {"reduce": 10}), 0.0)) is Cause.COMMUNICATION


def test_few_samples_do_not_make_a_slow_rank() -> None:
    recording = ranks(({"reduce": 4, "item": 1}, {"reduce": 2, "item": 2}), 0.0)
    recording.stack_counts = [counts for counts in recording.stack_counts if int(counts.time_s) % 5 == 0]
    assert first(recording) is Cause.COMMUNICATION
    recording = ranks(({"reduce": 10}, {"item": 10}), 0.0)
    assert Cause.STRAGGLER in shares(analyse(recording))
